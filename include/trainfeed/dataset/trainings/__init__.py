"""Marks about the versions that a training has seen, so that none stays without a training."""

from trainfeed.dataset.trainings._launched_jobs import LaunchedJob, launched_job
from trainfeed.dataset.trainings._mark_files import Untrained
from trainfeed.dataset.trainings._training_marks import ANNOUNCED_FOR, Declined, TrainingMarks

__all__ = [
    "ANNOUNCED_FOR",
    "Declined",
    "LaunchedJob",
    "TrainingMarks",
    "Untrained",
    "launched_job",
]
