"""Records that a build turned down: their files, excerpts without secrets, audited bytes."""

from trainfeed.pipeline.quarantine._access_log import Access, DamagedLine, accesses
from trainfeed.pipeline.quarantine._excerpt import excerpt, plain
from trainfeed.pipeline.quarantine._quarantined import (
    MOST_RAW_BYTES,
    Quarantine,
    QuarantinedPlace,
    QuarantinedRecord,
    plans_with_work,
    quarantine_of_plan,
    quarantine_of_version,
    unpublished_plans,
)
from trainfeed.pipeline.quarantine._quarantined_positions import (
    QuarantinedPositions,
    quarantined_positions,
)
from trainfeed.pipeline.quarantine._raw_access import read_raw, read_raw_at
from trainfeed.pipeline.quarantine._turned_down import Example, Reason, told_reasons, turned_down

__all__ = [
    "MOST_RAW_BYTES",
    "Access",
    "DamagedLine",
    "Example",
    "Quarantine",
    "QuarantinedPlace",
    "QuarantinedPositions",
    "QuarantinedRecord",
    "Reason",
    "accesses",
    "excerpt",
    "plain",
    "plans_with_work",
    "quarantine_of_plan",
    "quarantine_of_version",
    "quarantined_positions",
    "read_raw",
    "read_raw_at",
    "told_reasons",
    "turned_down",
    "unpublished_plans",
]
