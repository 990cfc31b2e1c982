"""Removes the superseded generations that a data set no longer keeps.

No other code removes a version, and no task calls it: only a person does. Three kinds of
generations always stay: the newest of an interval, the one that CURRENT names, and the inputs of a
training that has begun and not finished. If the job file of such a training cannot be read, every
version stays that the training may read. A reader that has another, removed version open gets an
error that names the shard.

A removal is a mark, ``g0001.removed``, one rename into ``_trash``, and the deletion. The mark alone
makes the generation unreadable, and its number is never used again. After a kill at any point the
next call goes on.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from trainfeed import canonical_json, faults
from trainfeed.datacenters import local_target
from trainfeed.dataset import require_root
from trainfeed.dataset.layout import DatasetFolder, generation_name, parse_generation
from trainfeed.errors import TrainFeedError
from trainfeed.paths import FilePath, is_there, listed, read_plain, walk
from trainfeed.pipeline.upkeep._leftovers import TRASH, discard
from trainfeed.specification import DatasetSpec
from trainfeed.storage import Location, posix

__all__ = ["Removal", "prune"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Removal:
    """A generation that was removed, or would be.

    Attributes:
        interval: Name of the interval.
        generation: Number of the generation.
        num_bytes: Size of its files.
        published: When it was published.
    """

    interval: str
    generation: int
    num_bytes: int
    published: datetime


def prune(spec: DatasetSpec, root: FilePath, *, dry_run: bool = False) -> list[Removal]:
    """Remove the generations that ``retention`` in dataset.yaml does not keep.

    Args:
        spec: The data set.
        root: The publication root.
        dry_run: Whether to remove nothing.

    Returns:
        The generations that were removed, or would be, in order of interval and number.

    Raises:
        RootError: The publication root was not made by ``trainfeed init``.
        StorageError: The file system refused. Earlier removals of this call stand.
    """
    root = Path(local_target(root))
    require_root(root, "TRAINFEED_ROOT")
    folder = DatasetFolder(root, spec.name)
    pinned = _pins(folder)
    removals = []
    for interval in folder.intervals():
        for generation in _superseded(spec, folder, interval):
            if (interval, generation) in pinned:
                logger.info("a training reads %s/%s: kept", interval, generation_name(generation))
                continue
            removals.append(_removal(folder, interval, generation))
            if not dry_run:
                _remove(folder, interval, generation)
        if not dry_run:
            _finish(folder, interval)
    return removals


def _superseded(spec: DatasetSpec, folder: DatasetFolder, interval: str) -> list[int]:
    """Return the generations of an interval that ``retention`` does not keep."""
    # Ascending, so the slice leaves out the newest. ``keep_days`` keeps further ones.
    beyond = folder.generations(interval)[: -spec.retention.keep_generations]
    readable = folder.readable_generation(interval)
    days = spec.retention.keep_days
    if days is not None:
        before = datetime.now(UTC) - timedelta(days=days)
        beyond = [each for each in beyond if _published(folder, interval, each) < before]
    return [each for each in beyond if each != readable]


@dataclass(frozen=True)
class _Pins:
    """The versions that trainings without a result read.

    Attributes:
        versions: Interval and generation of each version that a readable job names.
        all_up_to: Interval of the latest job that cannot be read, "" if there is none. The
            intervals of a training end with that of its job, so the job may read any version up
            to there.
    """

    versions: frozenset[tuple[str, int]]
    all_up_to: str

    def __contains__(self, version: tuple[str, int]) -> bool:
        return version in self.versions or version[0] <= self.all_up_to


def _pins(folder: DatasetFolder) -> _Pins:
    versions: set[tuple[str, int]] = set()
    all_up_to = ""
    for place in listed(folder.training_marks.parent):
        if place == folder.training_marks:
            continue
        try:
            for job in listed(place):
                versions.update(_versions_of(job / "job.json"))
        except (TrainFeedError, KeyError, TypeError, AttributeError) as error:
            all_up_to = max(all_up_to, place.name)
            logger.warning(
                "what a job in %s reads cannot be told (%s): every generation up to %s is kept,"
                " because the job may read it; repair or remove its folder, then prune again",
                place,
                error,
                place.name,
            )
    return _Pins(frozenset(versions), all_up_to)


def _versions_of(job: Path) -> list[tuple[str, int]]:
    """Return interval and generation of the versions of a job, none if the job has a result."""
    if is_there(job.with_name("result.json")) or not is_there(job):
        return []
    value = canonical_json.loads(
        read_plain(job, follow=False, max_bytes=canonical_json.MAX_BYTES), path=str(job)
    )
    return [(each["interval"], parse_generation(each["generation"])) for each in value["versions"]]


def _removal(folder: DatasetFolder, interval: str, generation: int) -> Removal:
    path = folder.version(interval, generation)
    with posix.map_errors(path):
        sizes = [file.lstat().st_size for file in walk(path) if file.is_file()]
    return Removal(interval, generation, sum(sizes), _published(folder, interval, generation))


def _published(folder: DatasetFolder, interval: str, generation: int) -> datetime:
    """Return the modification time of the folder: nothing changes it after publication."""
    path = folder.version(interval, generation)
    with posix.map_errors(path):
        return datetime.fromtimestamp(path.stat().st_mtime, UTC)


def _remove(folder: DatasetFolder, interval: str, generation: int) -> None:
    # The mark comes before any deletion: from then on no reader opens the generation.
    mark = folder.removal_mark(interval, generation)
    account: dict[str, Any] = {"at": datetime.now(UTC).isoformat(), "uid": os.geteuid()}
    posix.create_exclusive(mark, canonical_json.dumps(account))
    logger.warning("removed %s by retention", folder.version(interval, generation))
    faults.point("prune.after_mark")


def _finish(folder: DatasetFolder, interval: str) -> None:
    """Delete all marked generations, also those of an earlier call that was killed."""
    trash = Location.parse(str(folder.path / TRASH))
    for generation in range(1, folder.last_generation(interval) + 1):
        path = folder.version(interval, generation)
        if path.exists() and folder.is_removed(interval, generation):
            discard(Location.parse(str(path)), trash)
