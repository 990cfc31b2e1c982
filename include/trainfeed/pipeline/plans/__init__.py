"""Plans: the inputs and outputs of an interval, fixed before anything is read."""

from trainfeed.pipeline.plans._kept_code import (
    keep_code,
    kept_code,
    told_changes,
)
from trainfeed.pipeline.plans._kept_lookups import KeptLookup, keep_lookups, kept_lookup
from trainfeed.pipeline.plans._landed_ranges import (
    REMEDY,
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
    MadeBy,
    Plan,
    PlannedFile,
    PlannedRange,
    earlier_plans,
    load_plan,
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
    "REMEDY",
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
    "planned_of",
    "promised_leaf",
    "read_statistics",
    "replaced_inputs",
    "save_plan",
    "told_changes",
    "unit_of_input",
    "write_landing",
]
