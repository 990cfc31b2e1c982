"""``trainfeed build``: intervals on this machine, one or a range, and previews of builds."""

from trainfeed.cli.build._bring_forward import bring_forward
from trainfeed.cli.build._build_command import build

__all__ = ["bring_forward", "build"]
