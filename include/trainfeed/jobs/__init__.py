"""Training jobs: their definition, their folder, and the launchers; no Airflow, no data loader.

A launcher starts the ranks of a job and reports their states. Everything else is the same for all
launchers: the job's name and identity, its folder, and the result that proves its success.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainfeed.lazy_faces import on_demand

if TYPE_CHECKING:
    from trainfeed.jobs._checkpoint_note import read_checkpoint_note, seal_checkpoint_note
    from trainfeed.jobs._job_files import ResultFile, digested_below
    from trainfeed.jobs._job_look import JobLook, RankLook
    from trainfeed.jobs._job_placement import JobPlacement
    from trainfeed.jobs._job_record import JobAttempt, JobRecord
    from trainfeed.jobs._job_removal import JobRemoval
    from trainfeed.jobs._job_result import RESULT_FILE, JobResult
    from trainfeed.jobs._job_roots import JobRoots
    from trainfeed.jobs._job_spec import JOB_FILE, JobSpec, JobVersion, describe
    from trainfeed.jobs._job_state import JobState
    from trainfeed.jobs._launcher import Launcher
    from trainfeed.jobs._rank_process import RankProcess, wait_for_end
    from trainfeed.jobs._rank_status import EXHAUSTED, REJECTED, RETRYABLE
    from trainfeed.jobs.kubernetes import ClusterSettings, KubernetesLauncher
    from trainfeed.jobs.local import LocalLauncher

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

__getattr__ = on_demand(__name__, __file__)
