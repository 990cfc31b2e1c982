"""Marks of the versions that trainings have read, so that no published version stays untrained.

A scheduler drops an event without a consumer, silently. Therefore a training that starts leaves a
mark beside the jobs, and the next publication finds the versions without such a mark. The files are
in ``<root>/<data set>/training/_marks``, each complete or absent::

    since.json                     versions from before the data set had a training
    <interval>.<gNNNN>.seen        a training of the interval has started with this version
    <interval>.<gNNNN>.announced   an event was sent for the version: when, and by which run
    <interval>.<gNNNN>.declined    the build wanted no training of it: when, why, and which run

A mark is only a hint that saves runs: a job is named after its content, and a finished job is
adopted, so a missing mark costs one more event and nothing else. A damaged mark is told where its
content counts.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from trainfeed import canonical_json
from trainfeed.dataset.layout import DatasetFolder
from trainfeed.dataset.trainings._launched_jobs import was_launched
from trainfeed.dataset.trainings._mark_files import (
    ANNOUNCED,
    DECLINED,
    SEEN,
    MarkFiles,
    Untrained,
)
from trainfeed.errors import FormatError
from trainfeed.intervals import parse_time
from trainfeed.records import ONCE_UNSEALED, RecordFile
from trainfeed.storage import posix

__all__ = ["ANNOUNCED_FOR", "Declined", "TrainingMarks", "Untrained"]

logger = logging.getLogger(__name__)

# How long an event may take to start its training; after that it counts as lost.
ANNOUNCED_FOR: Final = timedelta(hours=1)

_SINCE: Final = "since.json"


@dataclass(frozen=True)
class _Since:
    """The versions from before the data set had a training.

    Attributes:
        versions: Name of an interval → number of its generation.
        dataset: Name of the data set; None in a file that is not sealed.
    """

    versions: dict[str, int]
    dataset: str | None = None


_FILE: Final = RecordFile(
    _Since,
    "the versions from before the training",
    "nothing was changed; remove the file, and every published version counts as untrained",
    mode=0o644,
    max_bytes=canonical_json.MAX_BYTES,
    place=ONCE_UNSEALED["begin of trainings"],
)


@dataclass(frozen=True)
class Declined:
    """A published version whose build wanted no training of it.

    Attributes:
        version: The version.
        why: The reason, for people; or why it cannot be told, if the mark is damaged.
    """

    version: Untrained
    why: str


class TrainingMarks:
    """The marks of one data set.

    Args:
        folder: The data set below the publication root.
    """

    def __init__(self, folder: DatasetFolder) -> None:
        self._folder = folder
        self._home = folder.training_marks
        self._files = MarkFiles(folder)

    def begin(self, interval: str) -> None:
        """Record, once, the versions from before the data set had a training.

        Call this before a version is published. Later versions count as untrained until a
        training has seen them.

        Args:
            interval: The interval that is about to be published; its training is wanted, so its
                earlier versions are not recorded.

        Raises:
            StorageError: The publication root refused or failed.
        """
        if (self._home / _SINCE).exists():
            return
        older = {each.interval: each.generation for each in self._published()}
        older.pop(interval, None)
        self._files.make_home()
        _FILE.write_once(self._home / _SINCE, _Since(older, self._folder.name))

    def end(self) -> None:
        """Remove the record of ``begin``: the data set has no training any more."""
        with posix.map_errors(self._home):
            (self._home / _SINCE).unlink(missing_ok=True)

    def see(self, interval: str) -> None:
        """Record that a training of ``interval`` starts, with the present version.

        Without a version nothing is recorded: its publication will send an event.

        Raises:
            StorageError: The publication root refused or failed.
        """
        generation = self._folder.current_generation(interval)
        if generation is None:
            return
        version = Untrained(interval, generation)
        # First the new mark, then the removal of the others: a kill in between leaves all of them,
        # and ``seen`` has precedence.
        self._files.touch(version, SEEN)
        self._files.drop(version, ANNOUNCED, DECLINED)

    def announce(self, versions: Iterable[Untrained], by: str, *, is_heard: bool = True) -> None:
        """Record that an event is sent for ``versions``; none of them is declined any more.

        Args:
            versions: The versions of the event.
            by: Name of the sender; another attempt of the same sender may send it again.
            is_heard: False if the scheduler drops the event, so that another run may send it.

        Raises:
            StorageError: The publication root refused or failed.
        """
        for version in versions:
            self._files.write(version, ANNOUNCED, by, heard=is_heard)
            self._files.drop(version, DECLINED)

    def decline(self, version: Untrained, why: str, by: str) -> None:
        """Write down that the build of ``version`` wants no training of it.

        Call it before the version is published: no other run may find it untrained meanwhile.

        Args:
            version: The version, published or not.
            why: The reason, for people.
            by: Name of the run that builds the version.

        Raises:
            StorageError: The publication root refused or failed.
        """
        self._files.write(version, DECLINED, by, why=why)
        self._files.drop(version, ANNOUNCED)

    def accept(self, version: Untrained) -> None:
        """Undo ``decline``: the version counts as untrained again, unless a training has seen it.

        Raises:
            StorageError: The publication root refused or failed.
        """
        self._files.drop(version, DECLINED)

    def declined(self) -> list[Declined]:
        """Return the published versions that are declined, and that no training has seen.

        Raises:
            StorageError: The publication root refused or failed.
        """
        marks = self._files.names()
        return [
            Declined(version, self._why(version))
            for version in self._published()
            if self._files.path(version, DECLINED).name in marks
            and self._files.path(version, SEEN).name not in marks
        ]

    def asked_since(self, time: datetime, *, after: str) -> str | None:
        """Return the last interval after ``after`` whose training was asked for since ``time``.

        Args:
            time: An aware time.
            after: Name of an interval.

        Raises:
            StorageError: The publication root refused or failed.
        """
        found = [
            version.interval
            for version in self._published()
            if version.interval > after
            and self._files.modified_s(version, SEEN, ANNOUNCED) >= time.timestamp()
        ]
        return max(found, default=None)

    def untrained(self, *, older: bool = False) -> list[Untrained]:
        """Return the newest version of every published interval that no training has seen.

        Args:
            older: Whether to include versions from before the data set had a training, and
                declined ones.

        Returns:
            The versions in order of intervals. A version for which a job was launched counts as
            seen.

        Raises:
            FormatError: The file ``since.json`` is damaged.
            StorageError: The publication root refused or failed.
        """
        marks = self._files.names()
        before = {} if older else self._older()
        return [
            version
            for version in self._published()
            if self._files.path(version, SEEN).name not in marks
            and (older or self._files.path(version, DECLINED).name not in marks)
            and before.get(version.interval) != version.generation
            and not was_launched(self._folder, version.interval, version.generation)
        ]

    def lost(self, versions: Collection[Untrained], by: str) -> list[Untrained]:
        """Return the ``versions`` that no other sender has announced within the last hour.

        Args:
            versions: Versions that no training has seen.
            by: Name of the sender. Its own announcements are returned, because an earlier attempt
                may have died before it sent the event.
        """
        marks = self._files.names()
        return [
            version
            for version in versions
            if self._files.path(version, ANNOUNCED).name not in marks
            or not self._is_on_its_way(version, by)
        ]

    def _is_on_its_way(self, version: Untrained, by: str) -> bool:
        try:
            mark = self._files.read(version, ANNOUNCED)
        except FormatError as error:
            logger.warning("%s", error)
            return False
        if mark is None or mark.by == by or not mark.heard:
            return False
        return datetime.now(UTC) - parse_time(mark.at) < ANNOUNCED_FOR

    def _why(self, version: Untrained) -> str:
        try:
            mark = self._files.read(version, DECLINED)
        except FormatError as error:
            return f"the reason cannot be told: {error}"
        return "" if mark is None else mark.why

    def _published(self) -> Iterator[Untrained]:
        for interval in self._folder.intervals():
            generation = self._folder.current_generation(interval)
            if generation is not None:
                yield Untrained(interval, generation)

    def _older(self) -> dict[str, int]:
        found = _FILE.read(self._home / _SINCE, dataset=self._folder.name)
        return {} if found is None else found.versions
