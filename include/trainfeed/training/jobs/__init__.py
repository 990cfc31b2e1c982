"""Training jobs: their definition, their folder, and the launchers; no Airflow, no data loader.

A launcher starts the ranks of a job and reports their states. Everything else is the same for all
launchers: the job's name and identity, its folder, and the result that proves its success.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainfeed.core.lazy_faces import on_demand

if TYPE_CHECKING:
    from trainfeed.training.jobs.job_file import (
        JOB_FILE,
        JobPlacement,
        JobRoots,
        JobSpec,
        JobVersion,
        describe,
    )
    from trainfeed.training.jobs.kubernetes.launcher import KubernetesLauncher
    from trainfeed.training.jobs.kubernetes.settings import ClusterSettings
    from trainfeed.training.jobs.local import LocalLauncher
    from trainfeed.training.jobs.rank_process import RankProcess, wait_for_end
    from trainfeed.training.jobs.record import JobAttempt, JobRecord, JobRemoval, Launcher
    from trainfeed.training.jobs.results import (
        RESULT_FILE,
        JobResult,
        ResultFile,
        digested_below,
        read_checkpoint_note,
        seal_checkpoint_note,
    )
    from trainfeed.training.jobs.states import (
        EXHAUSTED,
        REJECTED,
        RETRYABLE,
        JobLook,
        JobState,
        RankLook,
    )

__all__ = [
    "EXHAUSTED",
    "JOB_FILE",
    "REJECTED",
    "RESULT_FILE",
    "RETRYABLE",
    "ClusterSettings",
    "JobAttempt",
    "JobLook",
    "JobPlacement",
    "JobRecord",
    "JobRemoval",
    "JobResult",
    "JobRoots",
    "JobSpec",
    "JobState",
    "JobVersion",
    "KubernetesLauncher",
    "Launcher",
    "LocalLauncher",
    "RankLook",
    "RankProcess",
    "ResultFile",
    "describe",
    "digested_below",
    "read_checkpoint_note",
    "seal_checkpoint_note",
    "wait_for_end",
]

# A rank imports this package before it watches for the death of its launcher, so the import must be
# fast: each name is loaded on first use.

__getattr__ = on_demand(__name__)
