"""``trainfeed build``: intervals on this machine, one or a range, and previews of builds."""

from trainfeed.cli.build._bring_forward import bring_forward
from trainfeed.cli.build._build_command import build
from trainfeed.cli.build._range_build import IntervalBuild, build_each

__all__ = ["IntervalBuild", "bring_forward", "build", "build_each"]
