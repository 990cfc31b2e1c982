"""The worker processes of the local engine: started, given jobs, watched, ended.

This room imports nothing heavy, because workers start before the rest of a stage is imported. A
worker imports the modules that jobs need after it is tied to its parent, which plans meanwhile.
"""

from trainfeed.pipeline.workers._own_worker import OwnWorker
from trainfeed.pipeline.workers._worker_death import Death, DeathCause, WorkerLimits
from trainfeed.pipeline.workers._worker_job import Desk, Job
from trainfeed.pipeline.workers._worker_pool import (
    rest_workers,
    run_jobs,
    start_workers,
    stop_workers,
)
from trainfeed.pipeline.workers._worker_protocol import LastSeen, WorkerPlace

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
