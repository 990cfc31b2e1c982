"""The ranks of a training job: what ``train.py`` gets, state and metrics, and a rank's lease."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainfeed.lazy_faces import on_demand

if TYPE_CHECKING:
    from trainfeed.training.ranks._cluster_rank import cluster_rank, run_kept
    from trainfeed.training.ranks._job_lease import job_lease
    from trainfeed.training.ranks._training_job import TrainingJob

__all__ = ["TrainingJob", "cluster_rank", "job_lease", "run_kept"]

# A rank imports this room before it watches for the death of its launcher.

__getattr__ = on_demand(__name__, __file__)
