"""Worker processes of a loader, and the shared memory that windows come through."""

from trainfeed.loader.workers._messages import LoaderJob
from trainfeed.loader.workers._ring import RingFeed, slot_plan
from trainfeed.loader.workers._worker_team import WorkerPool

__all__ = [
    "LoaderJob",
    "RingFeed",
    "WorkerPool",
    "slot_plan",
]
