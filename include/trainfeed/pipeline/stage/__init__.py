"""Steps that all stages share before, during and after their work: plan, code, staging, space."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

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

_HOMES: Final = {
    "Experience": "._space",
    "Space": "._space",
    "Stage": "._opened_stage",
    "kept": "._opened_stage",
    "landed_bytes": "._space",
    "lift_end": "._recorded_end",
    "measured_again": "._measured_again",
    "recorded_end": "._recorded_end",
    "require_space": "._space",
    "run_stage": "._run_stage",
    "space": "._space",
    "unit_of": "._run_stage",
}

__getattr__ = on_demand(__name__, _HOMES)
