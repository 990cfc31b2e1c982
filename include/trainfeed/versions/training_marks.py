"""Marks of the versions that trainings have read, so that none stays without a training."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from trainfeed.core import canonical_json
from trainfeed.core.intervals import format_time, parse_time
from trainfeed.errors import FormatError
from trainfeed.files import listed, make_folders
from trainfeed.files.records import ONCE_UNSEALED, RecordFile, Time
from trainfeed.files.stores import posix
from trainfeed.versions.layout import DatasetFolder, generation_name

JOB_FILE: Final = "job.json"

# --- The files of ``training/_marks``: one file per mark of a version, each whole or absent

SEEN: Final = "seen"
ANNOUNCED: Final = "announced"
DECLINED: Final = "declined"


@dataclass(frozen=True, order=True)
class Untrained:
    """A published version that no training has seen.

    Attributes:
        interval: Name of the interval.
        generation: Number of the generation.
    """

    interval: str
    generation: int


@dataclass(frozen=True)
class Mark:
    """The content of a mark that is not empty.

    Attributes:
        at: When it was written: ``2026-03-08T00:00:00Z``.
        by: Name of the run.
        why: The reason, for people.
        heard: False if the scheduler drops the event that was sent.
        dataset: Name of the data set; None in a file that is not sealed.
        mark: Name of the file, likewise.
    """

    at: Time
    by: str
    why: str = ""
    heard: bool = True
    dataset: str | None = None
    mark: str | None = None


_ANNOUNCED: Final = RecordFile(
    Mark,
    "the mark of a version for which an event was sent, with at and by",
    "the mark counts as none: the next publication sends the event again",
    mode=0o644,
    place=ONCE_UNSEALED["mark of a training"],
)
_FILES: Final = {
    ANNOUNCED: _ANNOUNCED,
    DECLINED: replace(
        _ANNOUNCED,
        what="the mark of a version that is not trained on, with at, by and why",
        remedy="nothing was changed; remove the file to have the version trained on",
        place=ONCE_UNSEALED["mark of no training"],
    ),
}


class MarkFiles:
    """The marks of one data set as files.

    Args:
        folder: The data set; the first mark creates the folder of the marks.

    Raises:
        StorageError: From every method, when the publication root refused or failed.
    """

    def __init__(self, folder: DatasetFolder) -> None:
        self._dataset = folder.name
        self._home = folder.training_marks

    def path(self, version: Untrained, kind: str) -> Path:
        """Path of one mark of one version; the file need not exist."""
        return self._home / f"{version.interval}.{generation_name(version.generation)}.{kind}"

    def names(self) -> set[str]:
        """File names of all marks; one listing answers for many versions."""
        with posix.map_errors(self._home):
            return {path.name for path in self._home.iterdir()} if self._home.is_dir() else set()

    def touch(self, version: Untrained, kind: str) -> None:
        """Create an empty mark, unless there is one."""
        path = self.path(version, kind)
        if not path.exists():
            self.make_home()
            posix.create_exclusive(path, b"")

    def write(
        self, version: Untrained, kind: str, by: str, *, why: str = "", heard: bool = True
    ) -> None:
        """Create or replace a mark with the present time."""
        self.make_home()
        path, at = self.path(version, kind), datetime.now(UTC).replace(microsecond=0)
        mark = Mark(format_time(at), by, why, heard, self._dataset, path.name)
        _FILES[kind].replace(path, mark)

    def read(self, version: Untrained, kind: str) -> Mark | None:
        """Return the content of a mark, None if there is none.

        Raises:
            FormatError: The mark is damaged, or that of another version.
        """
        path = self.path(version, kind)
        return _FILES[kind].read(path, dataset=self._dataset, mark=path.name)

    def drop(self, version: Untrained, *kinds: str) -> None:
        """Remove marks of these kinds; fine when there is none."""
        for path in (self.path(version, kind) for kind in kinds):
            with posix.map_errors(path):
                path.unlink(missing_ok=True)

    def modified_s(self, version: Untrained, *kinds: str) -> float:
        """Time of the first existing mark among ``kinds``, in seconds since 1970; 0 if none is."""
        for path in (self.path(version, kind) for kind in kinds):
            with posix.map_errors(path), suppress(FileNotFoundError):
                return path.stat().st_mtime
        return 0.0

    def make_home(self) -> None:
        """Make the folder of the marks."""
        with posix.map_errors(self._home):
            make_folders(self._home)


# --- Job files as far as data sets are concerned: which versions a training reads

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class LaunchedJob:
    """A job file, read for its versions alone.

    Attributes:
        versions: Interval, generation and ``manifest_sha256`` of each version that it reads.
        dataset: Name of the data set.
        skipped: Intervals of the window that were left out by decision.
        accepted: The holes between the versions that a person accepted, as ranges.
        tag: The tag by which the versions were chosen; None for a window of intervals.
        home: Name of the job's folder; None in a file that is not sealed.
    """

    versions: Sequence[Mapping[str, Any]]
    dataset: str | None = None
    skipped: Sequence[str] = ()
    accepted: Sequence[str] = ()
    tag: str | None = None
    home: str | None = None


_JOB_FILE: Final = RecordFile(
    LaunchedJob,
    "the specification of a job",
    "bring the file back from a backup, or train again",
    max_bytes=canonical_json.MAX_BYTES,
    place=ONCE_UNSEALED["job"],
)


def launched_job(home: Path) -> LaunchedJob | None:
    """Return the job of a folder, or None if it has no job file.

    Raises:
        FormatError: The job file is damaged, or that of another job.
        StorageError: The publication root refused or failed.
    """
    return _JOB_FILE.read(home / JOB_FILE, home=home.name)


def was_launched(folder: DatasetFolder, interval: str, generation: int) -> bool:
    """Return whether a job file of the interval names that generation of it.

    A training by tag is none of the interval, though its job lies there.

    Raises:
        StorageError: The publication root refused or failed.
    """
    home = folder.training(interval, "job").parent
    return any(
        read.get("interval") == interval and read.get("generation") == generation_name(generation)
        for job in listed(home)
        for read in _versions_of(job)
    )


def _versions_of(home: Path) -> Sequence[Mapping[str, Any]]:
    try:
        job = launched_job(home)
    except FormatError as error:
        # No rank could read this job file either, so nothing was trained.
        logger.warning("%s; the job counts as none", error)
        return []
    return [] if job is None or job.tag is not None else job.versions


# --- Marks of the versions that trainings have read, so that no published version stays untrained

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


_SINCE_FILE: Final = RecordFile(
    _Since,
    "the versions from before the training",
    "nothing was changed; restore it from a backup; without the file every published version counts"
    " as untrained until the next publication, which takes all of them for older ones: train those"
    " that wait before it (trainfeed train NAME --catch-up missed)",
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
        _SINCE_FILE.write_once(self._home / _SINCE, _Since(older, self._folder.name))

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
        found = _SINCE_FILE.read(self._home / _SINCE, dataset=self._folder.name)
        return {} if found is None else found.versions
