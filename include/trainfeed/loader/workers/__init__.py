"""Worker processes of a loader, and the shared memory that windows come through."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainfeed.lazy_faces import on_demand

if TYPE_CHECKING:
    from trainfeed.loader.workers._messages import LoaderJob
    from trainfeed.loader.workers._ring import RingFeed, slot_plan
    from trainfeed.loader.workers._worker_team import WorkerPool

__all__ = [
    "LoaderJob",
    "RingFeed",
    "WorkerPool",
    "slot_plan",
]

# Names are imported on demand: worker processes import this package and need few of them.

__getattr__ = on_demand(__name__, __file__)
