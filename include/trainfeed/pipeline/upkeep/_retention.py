"""Superseded generations: which ones a data set no longer keeps, and how they are removed.

The only thing that ever removes a version, and nobody calls it but a person. The newest generation
of an interval stays whatever its age, so does the one that CURRENT names, and so do those that a
training has begun with and not finished; where the file of such a training cannot be read, every
version that it may read. A reader that holds another one gets an error that names
the shard.

A removal is a mark, ``g0001.removed``, one rename into ``_trash``, and the deletion. After a kill
at any line the next call goes on: the mark alone makes the generation unreadable, and its number is
never used again.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from trainfeed import faults
from trainfeed.dataset import canonical, require_root
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
        interval: Name of its interval.
        generation: Its number.
        num_bytes: What its files take.
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
        What was removed, or would be, by interval and generation.

    Raises:
        RootError: Nobody has made the publication root.
        StorageError: The file system refused. What was removed is removed.
    """
    require_root(root, "TRAINFEED_ROOT")
    folder = DatasetFolder(Path(root), spec.name)
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
    """Return the generations of an interval that are beyond what is kept."""
    beyond = folder.generations(interval)[: -spec.retention.keep_generations]
    readable = folder.readable_generation(interval)
    days = spec.retention.keep_days
    if days is not None:
        before = datetime.now(UTC) - timedelta(days=days)
        beyond = [each for each in beyond if _published(folder, interval, each) < before]
    return [each for each in beyond if each != readable]


@dataclass(frozen=True)
class _Pins:
    """What trainings read that have no result yet.

    Attributes:
        versions: Interval and generation of each version that a readable job names.
        all_up_to: Interval of the latest job that cannot be read, "" when there is none. A window
            ends with the interval of its job, so any version up to there may be read.
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
    """Return interval and generation of what a job reads that has no result yet."""
    if is_there(job.with_name("result.json")) or not is_there(job):
        return []
    value = canonical.loads(
        read_plain(job, follow=False, max_bytes=canonical.MAX_BYTES), path=str(job)
    )
    return [(each["interval"], parse_generation(each["generation"])) for each in value["versions"]]


def _removal(folder: DatasetFolder, interval: str, generation: int) -> Removal:
    path = folder.version(interval, generation)
    with posix.map_errors(path):
        sizes = [file.lstat().st_size for file in walk(path) if file.is_file()]
    return Removal(interval, generation, sum(sizes), _published(folder, interval, generation))


def _published(folder: DatasetFolder, interval: str, generation: int) -> datetime:
    """Return when the folder got its last entry: nothing changes it after the rename."""
    path = folder.version(interval, generation)
    with posix.map_errors(path):
        return datetime.fromtimestamp(path.stat().st_mtime, UTC)


def _remove(folder: DatasetFolder, interval: str, generation: int) -> None:
    mark = folder.removal_mark(interval, generation)
    account: dict[str, Any] = {"at": datetime.now(UTC).isoformat(), "uid": os.geteuid()}
    posix.create_exclusive(mark, canonical.dumps(account))
    logger.warning("removed %s by retention", folder.version(interval, generation))
    faults.point("prune.after_mark")


def _finish(folder: DatasetFolder, interval: str) -> None:
    """Delete the files of what is marked, also where an earlier call was killed."""
    trash = Location.parse(str(folder.path / TRASH))
    for generation in range(1, folder.last_generation(interval) + 1):
        path = folder.version(interval, generation)
        if path.exists() and folder.is_removed(interval, generation):
            discard(Location.parse(str(path)), trash)
