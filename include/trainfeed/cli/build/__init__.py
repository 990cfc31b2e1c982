"""``trainfeed build``: intervals on this machine, one or a range, and previews of builds."""

from trainfeed.cli.build._build_command import build

__all__ = ["build"]
