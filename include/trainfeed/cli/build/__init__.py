"""``trainfeed build``: intervals on this machine, one or a range, and previews of builds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainfeed.lazy_faces import on_demand

if TYPE_CHECKING:
    from trainfeed.cli.build._bring_forward import bring_forward
    from trainfeed.cli.build._build_command import build
    from trainfeed.cli.build._one_build import build_one
    from trainfeed.cli.build._range_build import IntervalBuild, build_each
    from trainfeed.cli.build._training_wish import Training, declines, require_training, settle

__all__ = [
    "IntervalBuild",
    "Training",
    "bring_forward",
    "build",
    "build_each",
    "build_one",
    "declines",
    "require_training",
    "settle",
]


__getattr__ = on_demand(__name__, __file__)
