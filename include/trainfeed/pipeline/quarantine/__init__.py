"""Records that a build turned down: their files, excerpts without secrets, audited bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainfeed.lazy_faces import on_demand

if TYPE_CHECKING:
    from trainfeed.pipeline.quarantine._access_log import Access, DamagedLine, accesses
    from trainfeed.pipeline.quarantine._excerpt import excerpt, plain
    from trainfeed.pipeline.quarantine._private_quarantine import PRIVATE_MODE
    from trainfeed.pipeline.quarantine._published_quarantine import (
        QUARANTINE_FILE,
        quarantine_of_version,
    )
    from trainfeed.pipeline.quarantine._quarantined import (
        MOST_RAW_BYTES,
        Quarantine,
        QuarantinedPlace,
        QuarantinedPositions,
        QuarantinedRecord,
    )
    from trainfeed.pipeline.quarantine._raw_access import read_raw, read_raw_at
    from trainfeed.pipeline.quarantine._turned_down import (
        Example,
        Reason,
        told_reasons,
        turned_down,
    )
    from trainfeed.pipeline.quarantine._work_quarantine import (
        plans_with_work,
        quarantine_of_plan,
        unpublished_plans,
    )

__all__ = [
    "MOST_RAW_BYTES",
    "PRIVATE_MODE",
    "QUARANTINE_FILE",
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
    "read_raw",
    "read_raw_at",
    "told_reasons",
    "turned_down",
    "unpublished_plans",
]


__getattr__ = on_demand(__name__, __file__)
