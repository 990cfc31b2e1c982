"""Plans: the inputs and outputs of an interval, fixed before anything is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainfeed.lazy_faces import on_demand

if TYPE_CHECKING:
    from trainfeed.pipeline.plans._kept_code import (
        KeptCode,
        keep_code,
        kept_code,
        told_changes,
    )
    from trainfeed.pipeline.plans._kept_lookups import KeptLookup, keep_lookups, kept_lookup
    from trainfeed.pipeline.plans._landed_ranges import (
        REMEDY,
        holds,
        is_landed,
        landed_leaf,
        landing_file,
        landing_name_of,
        leaf_of,
        opened_landing,
        promised_leaf,
        write_landing,
    )
    from trainfeed.pipeline.plans._pieces import Sizes, cut, group_ranges, group_shards
    from trainfeed.pipeline.plans._plan_file import (
        PLANS,
        MadeBy,
        Plan,
        PlannedFile,
        PlannedRange,
        earlier_plans,
        load_plan,
        plan_of_version,
    )
    from trainfeed.pipeline.plans._planned import (
        Planned,
        PlannedInput,
        PlannedShard,
        first_few,
        planned_of,
        replaced_inputs,
        unit_of_input,
    )
    from trainfeed.pipeline.plans._references import PlannedReference, read_statistics
    from trainfeed.pipeline.plans._saved_plan import save_plan

__all__ = [
    "PLANS",
    "REMEDY",
    "KeptCode",
    "KeptLookup",
    "MadeBy",
    "Plan",
    "Planned",
    "PlannedFile",
    "PlannedInput",
    "PlannedRange",
    "PlannedReference",
    "PlannedShard",
    "Sizes",
    "cut",
    "earlier_plans",
    "first_few",
    "group_ranges",
    "group_shards",
    "holds",
    "is_landed",
    "keep_code",
    "keep_lookups",
    "kept_code",
    "kept_lookup",
    "landed_leaf",
    "landing_file",
    "landing_name_of",
    "leaf_of",
    "load_plan",
    "opened_landing",
    "plan_of_version",
    "planned_of",
    "promised_leaf",
    "read_statistics",
    "replaced_inputs",
    "save_plan",
    "told_changes",
    "unit_of_input",
    "write_landing",
]


__getattr__ = on_demand(__name__, __file__)
