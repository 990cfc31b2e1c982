"""The worker processes of the local engine: started, given jobs, watched, ended.

This room imports nothing heavy, because workers start before the rest of a stage is imported. A
worker imports the modules that jobs need after it is tied to its parent, which plans meanwhile.
"""

from trainfeed.pipeline.workers.pool import (
    Death,
    DeathCause,
    OwnWorker,
    WorkerLimits,
    rest_workers,
    run_jobs,
    start_workers,
    stop_workers,
)
from trainfeed.pipeline.workers.protocol import Desk, Job, LastSeen, WorkerPlace

__all__ = [
    "Death",
    "DeathCause",
    "Desk",
    "Job",
    "LastSeen",
    "OwnWorker",
    "WorkerLimits",
    "WorkerPlace",
    "rest_workers",
    "run_jobs",
    "start_workers",
    "stop_workers",
]
