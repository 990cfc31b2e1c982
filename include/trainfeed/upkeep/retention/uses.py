"""Versions that are in use: by trainings without a result, by leases, by tags, and by open plans.

What is in a folder is looked at once, so that no user of a version is seen in one part of the
answer and not in the other.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from stat import S_ISDIR
from typing import Final

from trainfeed.errors import FormatError, NotFoundError, TrainFeedError
from trainfeed.files import is_there, listed_folder
from trainfeed.files.stores import posix
from trainfeed.pipeline import PlanRef
from trainfeed.pipeline.plans import Plan, load_plan
from trainfeed.training.jobs import JOB_FILE, RESULT_FILE, JobRecord
from trainfeed.upkeep.retention.items import open_plans
from trainfeed.versions.layout import DatasetFolder, parse_generation
from trainfeed.versions.lease import leased_versions
from trainfeed.versions.tag_files import current_tags
from trainfeed.versions.training_marks import launched_job

logger = logging.getLogger(__name__)

# --- One look at the folder of a data set: each folder is listed once, each plan is read once


@dataclass(frozen=True)
class Look(DatasetFolder):
    """The folder of a data set as it was when each part of it was first asked for."""

    _names: dict[Path, list[str]] = field(default_factory=dict, compare=False, repr=False)
    _status: dict[Path, os.stat_result] = field(default_factory=dict, compare=False, repr=False)
    _plans: dict[Path, Plan] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def at(cls, folder: DatasetFolder) -> Look:
        """Return a look that has seen nothing yet."""
        return cls(folder.root, folder.name)

    def names_in(self, folder: Path, *, strictly: bool = False) -> list[str]:
        """Names in a folder, listed at the first call."""
        if folder not in self._names:
            self._names[folder] = super().names_in(folder, strictly=strictly)
        return self._names[folder]

    def is_removed(self, interval: str, generation: int) -> bool:
        """Whether the list of the interval has the mark of a removal."""
        mark = self.removal_mark(interval, generation)
        return mark.name in self.names_in(mark.parent)

    def has_folder(self, interval: str, generation: int) -> bool:
        """Whether the list of the interval has the folder of the generation."""
        path = self.version(interval, generation)
        try:
            return path.name in self.names_in(path.parent) and S_ISDIR(self._stat(path).st_mode)
        except NotFoundError:
            return False  # renamed away since the list

    def published_at(self, interval: str, generation: int) -> datetime:
        """Return the modification time of a version, aware UTC: nothing changes it later.

        Raises:
            NotFoundError: It is gone.
            StorageError: The publication root refused or failed.
        """
        return datetime.fromtimestamp(self._stat(self.version(interval, generation)).st_mtime, UTC)

    def plan_of(self, interval: str, plan_id: str) -> Plan:
        """Return a plan, read at the first call; a plan file is never changed.

        Raises:
            NotFoundError: It is gone.
            FormatError: It is no plan.
            StorageError: The publication root refused or failed.
        """
        path = self.plan(interval, plan_id)
        if path not in self._plans:
            self._plans[path] = load_plan(self, PlanRef(self.name, interval, plan_id))
        return self._plans[path]

    def _stat(self, path: Path) -> os.stat_result:
        if path not in self._status:
            with posix.map_errors(path):
                self._status[path] = path.stat()
        return self._status[path]


# --- One use of a version, or of all versions up to an interval


@dataclass(frozen=True)
class Use:
    """A use of versions of a data set.

    Attributes:
        interval: Name of the interval; None for all intervals, because what is used cannot be told.
        generation: The generation; None for all generations of the interval and of all before it,
            because what is used cannot be told exactly.
        why: Who uses them, for people.
    """

    interval: str | None
    generation: int | None
    why: str

    def covers(self, interval: str) -> bool:
        """Return whether the use may be one of every generation of an interval."""
        return self.generation is None and (self.interval is None or interval <= self.interval)


# --- Versions that readers hold by a lease


def used_by_leases(folder: DatasetFolder, now: datetime) -> Iterator[Use]:
    """Yield the versions of leases that have not ended; one that cannot be read holds all.

    Raises:
        StorageError: The leases cannot be listed.
    """
    found = leased_versions(folder, now)
    for (interval, generation), lease in found.holders.items():
        yield Use(interval, generation, f"leased: {lease.told}")
    for lease in found.unread:
        yield Use(None, None, f"leased: {lease.told}")


# --- Versions that the gates of an open build compare with


def used_by_open_plans(folder: Look, _now: datetime) -> Iterator[Use]:
    """Yield the references of plans whose generation may still be published.

    A plan that cannot be read can no longer be built, and uses nothing.

    Raises:
        StorageError: The plans cannot be listed.
    """
    for interval in folder.planned_intervals():
        for plan_id in open_plans(folder, interval):
            yield from _references(folder, interval, plan_id)


def _references(folder: Look, interval: str, plan_id: str) -> list[Use]:
    try:
        plan = folder.plan_of(interval, plan_id)
    except (FormatError, NotFoundError):
        return []
    why = f"plan {plan_id} of {interval} compares with it and may still be published"
    return [Use(each.interval, each.generation, why) for each in plan.references]


# --- Versions that a tag names


def used_by_tags(folder: DatasetFolder, _now: datetime) -> Iterator[Use]:
    """Yield the versions of all tags, whatever their age: a tag is how a person keeps a version.

    Raises:
        FormatError: A tag cannot be read, so what it names cannot be told.
        StorageError: The tags cannot be listed.
    """
    for tag in current_tags(folder):
        for interval, generation in tag.generations.items():
            yield Use(interval, generation, f"tag {tag.name} names it")


# --- Versions that trainings without a result read


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


# --- Versions that are in use, from everything that can name one; what uses them is said

_USERS: Final[tuple[Callable[[Look, datetime], Iterable[Use]], ...]] = (
    used_by_trainings,
    used_by_leases,
    used_by_tags,
    used_by_open_plans,
)


class Uses:
    """Versions that are in use.

    Args:
        uses: Every use.
    """

    def __init__(self, uses: Iterable[Use]) -> None:
        self._exact: dict[tuple[str, int], str] = {}
        self._up_to: list[Use] = []
        for use in uses:
            if use.interval is None or use.generation is None:
                self._up_to.append(use)
            else:
                self._exact.setdefault((use.interval, use.generation), use.why)

    def why(self, interval: str, generation: int) -> str | None:
        """Return who uses a version, None if nobody is known to."""
        exact = self._exact.get((interval, generation))
        return exact or next((use.why for use in self._up_to if use.covers(interval)), None)


def uses_of(folder: Look, now: datetime) -> Uses:
    """Return the versions of a data set that are in use at a time.

    Args:
        folder: A look at the data set that has seen nothing yet.
        now: The time, aware UTC.

    Raises:
        FormatError: A tag is damaged, so what it names cannot be told: nothing may be removed then.
        StorageError: A place cannot be read: nothing may be removed then.
    """
    return Uses(use for users in _USERS for use in users(folder, now))
