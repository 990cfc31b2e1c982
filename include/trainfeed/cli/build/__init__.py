"""``trainfeed build``: intervals on this machine, one or a range, and previews of builds."""

from trainfeed.cli.build._build_command import build
from trainfeed.cli.build._range_build import IntervalBuild, build_each

__all__ = ["IntervalBuild", "build", "build_each"]
