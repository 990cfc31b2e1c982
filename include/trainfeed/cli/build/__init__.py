"""``trainfeed build``: intervals on this machine, one or a range, and previews of builds."""

from trainfeed.cli.build._bring_forward import bring_forward
from trainfeed.cli.build._build_command import build
from trainfeed.cli.build._range_build import IntervalBuild, build_each
from trainfeed.cli.build._training_wish import Training, declines, require_training, settle

__all__ = [
    "IntervalBuild",
    "Training",
    "bring_forward",
    "build",
    "build_each",
    "declines",
    "require_training",
    "settle",
]
