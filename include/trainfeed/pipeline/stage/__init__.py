"""Steps that all stages share before, during and after their work: plan, code, staging, space."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainfeed.lazy_faces import on_demand

if TYPE_CHECKING:
    from trainfeed.pipeline.stage._measured_again import measured_again
    from trainfeed.pipeline.stage._opened_stage import Stage, kept
    from trainfeed.pipeline.stage._recorded_end import lift_end, recorded_end
    from trainfeed.pipeline.stage._run_stage import run_stage, unit_of
    from trainfeed.pipeline.stage._space import (
        Experience,
        Space,
        landed_bytes,
        require_space,
        space,
    )

__all__ = [
    "Experience",
    "Space",
    "Stage",
    "kept",
    "landed_bytes",
    "lift_end",
    "measured_again",
    "recorded_end",
    "require_space",
    "run_stage",
    "space",
    "unit_of",
]


__getattr__ = on_demand(__name__, __file__)
