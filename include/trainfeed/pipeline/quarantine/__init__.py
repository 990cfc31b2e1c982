"""Records that a build turned down: read from their files, shown without secrets."""

from trainfeed.pipeline.quarantine._excerpt import excerpt, plain
from trainfeed.pipeline.quarantine._quarantined import (
    Quarantine,
    QuarantinedRecord,
    quarantine_of_plan,
    quarantine_of_version,
    unpublished_plans,
)
from trainfeed.pipeline.quarantine._quarantined_positions import (
    QuarantinedPositions,
    quarantined_positions,
)
from trainfeed.pipeline.quarantine._turned_down import Example, Reason, counted, turned_down

__all__ = [
    "Example",
    "Quarantine",
    "QuarantinedPositions",
    "QuarantinedRecord",
    "Reason",
    "counted",
    "excerpt",
    "plain",
    "quarantine_of_plan",
    "quarantine_of_version",
    "quarantined_positions",
    "turned_down",
    "unpublished_plans",
]
