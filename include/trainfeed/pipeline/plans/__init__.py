"""Plans: the inputs and outputs of an interval, fixed before anything is read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

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

_HOMES: Final = {
    "PLANS": "._plan_file",
    "REMEDY": "._landed_ranges",
    "KeptCode": "._kept_code",
    "KeptLookup": "._kept_lookups",
    "MadeBy": "._plan_file",
    "Plan": "._plan_file",
    "Planned": "._planned",
    "PlannedFile": "._plan_file",
    "PlannedInput": "._planned",
    "PlannedRange": "._plan_file",
    "PlannedReference": "._references",
    "PlannedShard": "._planned",
    "Sizes": "._pieces",
    "cut": "._pieces",
    "earlier_plans": "._plan_file",
    "first_few": "._planned",
    "group_ranges": "._pieces",
    "group_shards": "._pieces",
    "holds": "._landed_ranges",
    "is_landed": "._landed_ranges",
    "keep_code": "._kept_code",
    "keep_lookups": "._kept_lookups",
    "kept_code": "._kept_code",
    "kept_lookup": "._kept_lookups",
    "landed_leaf": "._landed_ranges",
    "landing_file": "._landed_ranges",
    "landing_name_of": "._landed_ranges",
    "leaf_of": "._landed_ranges",
    "load_plan": "._plan_file",
    "opened_landing": "._landed_ranges",
    "plan_of_version": "._plan_file",
    "planned_of": "._planned",
    "promised_leaf": "._landed_ranges",
    "read_statistics": "._references",
    "replaced_inputs": "._planned",
    "save_plan": "._saved_plan",
    "told_changes": "._kept_code",
    "unit_of_input": "._planned",
    "write_landing": "._landed_ranges",
}

__getattr__ = on_demand(__name__, _HOMES)
