"""Versions that trainings without a result read."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from trainfeed.dataset.layout import DatasetFolder, parse_generation
from trainfeed.dataset.training_marks import launched_job
from trainfeed.errors import NotFoundError, TrainFeedError
from trainfeed.jobs import JOB_FILE, RESULT_FILE, JobRecord
from trainfeed.paths import is_there, listed_folder
from trainfeed.retention._use import Use

__all__ = ["used_by_trainings"]

logger = logging.getLogger(__name__)


def used_by_trainings(folder: DatasetFolder, _now: datetime) -> Iterator[Use]:
    """Yield what trainings read that have begun and not ended, whatever their age.

    The intervals of a training end with that of its job. What a job reads that cannot be read
    itself is therefore taken to be any version up to there.

    Raises:
        StorageError: The folder of trainings cannot be listed.
    """
    for place in listed_folder(folder.training_marks.parent):
        if place == folder.training_marks:
            continue
        try:
            for job in listed_folder(place):
                yield from _versions_of(job)
        except (TrainFeedError, KeyError, TypeError, AttributeError) as error:
            logger.warning(
                "what a job in %s reads cannot be told (%s): every generation up to %s is kept,"
                " because the job may read it; repair or remove its folder, then prune again",
                place,
                error,
                place.name,
            )
            yield Use(place.name, None, f"a job in {place} that cannot be read may read it")


def _versions_of(job: Path) -> list[Use]:
    """Return the versions of a job, none if the job has a result."""
    if is_there(job / RESULT_FILE) or not JobRecord(job).is_begun():
        return []
    if (found := launched_job(job)) is None:
        raise NotFoundError(f"{job / JOB_FILE} is gone")
    why = f"training {job.parent.name}/{job.name} reads it and has no result"
    return [
        Use(each["interval"], parse_generation(each["generation"]), why) for each in found.versions
    ]
