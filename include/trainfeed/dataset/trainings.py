"""Marks about the versions that a training has seen, so that no published version stays untrained.

A scheduler drops an event without a consumer, silently. Therefore a training that starts leaves a
mark beside the jobs, and the next publication finds the versions without such a mark. The files are
in ``<root>/<data set>/training/_marks``, each complete or absent::

    since.json                     versions from before the data set had a training
    <interval>.<gNNNN>.seen        a training of the interval has started with this version
    <interval>.<gNNNN>.announced   an event was sent for the version: when, and by which run

A mark is only a hint that saves runs: a job is named after its content, and a finished job is
adopted, so a missing mark costs one more event and nothing else.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from trainfeed.dataset import canonical
from trainfeed.dataset.layout import DatasetFolder, generation_name
from trainfeed.errors import FormatError, NotFoundError
from trainfeed.paths import listed, make_folders, read_plain
from trainfeed.storage import posix

__all__ = ["ANNOUNCED_FOR", "TrainingMarks", "Untrained"]

# How long an event may take to start its training; after that it counts as lost.
ANNOUNCED_FOR: Final = timedelta(hours=1)

_SINCE: Final = "since.json"
_SEEN: Final = "seen"
_ANNOUNCED: Final = "announced"


@dataclass(frozen=True, order=True)
class Untrained:
    """A published version that no training has seen.

    Attributes:
        interval: Name of the interval.
        generation: Number of the generation.
    """

    interval: str
    generation: int


class TrainingMarks:
    """The marks of one data set.

    Args:
        folder: The data set below the publication root.
    """

    def __init__(self, folder: DatasetFolder) -> None:
        self._folder = folder
        self._home = folder.training_marks

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
        self._make_home()
        posix.create_exclusive(self._home / _SINCE, canonical.dumps({"versions": older}))

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
        # First this mark, then the removal of the other: after a kill in between there are both,
        # and ``seen`` has precedence.
        seen = self._mark(version, _SEEN)
        if not seen.exists():
            self._make_home()
            posix.create_exclusive(seen, b"")
        with posix.map_errors(seen):
            self._mark(version, _ANNOUNCED).unlink(missing_ok=True)

    def announce(self, versions: Iterable[Untrained], by: str) -> None:
        """Record that an event is sent for ``versions``.

        Args:
            versions: The versions of the event.
            by: Name of the sender; another attempt of the same sender may send it again.

        Raises:
            StorageError: The publication root refused or failed.
        """
        self._make_home()
        for version in versions:
            value = {"at": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}", "by": by}
            posix.replace_file(self._mark(version, _ANNOUNCED), canonical.dumps(value))

    def untrained(self, *, older: bool = False) -> list[Untrained]:
        """Return the newest version of every published interval that no training has seen.

        Args:
            older: Whether to include versions from before the data set had a training.

        Returns:
            The versions in order of intervals. A version for which a job was launched counts as
            seen.

        Raises:
            FormatError: The file ``since.json`` is damaged.
            StorageError: The publication root refused or failed.
        """
        marks = self._marks()
        before = {} if older else self._older()
        return [
            version
            for version in self._published()
            if self._mark(version, _SEEN).name not in marks
            and before.get(version.interval) != version.generation
            and not self._was_launched(version)
        ]

    def lost(self, versions: Collection[Untrained], by: str) -> list[Untrained]:
        """Return the ``versions`` that no other sender has announced within the last hour.

        Args:
            versions: Versions that no training has seen.
            by: Name of the sender. Its own announcements are returned, because an earlier attempt
                may have died before it sent the event.
        """
        marks = self._marks()
        return [
            version
            for version in versions
            if self._mark(version, _ANNOUNCED).name not in marks
            or not self._is_on_its_way(version, by)
        ]

    def _is_on_its_way(self, version: Untrained, by: str) -> bool:
        try:
            value = canonical.loads(
                read_plain(
                    self._mark(version, _ANNOUNCED), follow=False, max_bytes=canonical.MAX_BYTES
                )
            )
            at = datetime.strptime(value["at"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
        except (FormatError, NotFoundError, KeyError, TypeError, ValueError):
            return False
        return value.get("by") != by and datetime.now(UTC) - at < ANNOUNCED_FOR

    def _published(self) -> Iterator[Untrained]:
        for interval in self._folder.intervals():
            generation = self._folder.current_generation(interval)
            if generation is not None:
                yield Untrained(interval, generation)

    def _older(self) -> dict[str, int]:
        path = self._home / _SINCE
        try:
            value = canonical.loads(
                read_plain(path, follow=False, max_bytes=canonical.MAX_BYTES), path=str(path)
            )
        except NotFoundError:
            return {}
        if not isinstance(value, dict) or not isinstance(value.get("versions"), dict):
            raise FormatError(
                "expected the versions from before the training; nothing was changed; remove the"
                " file, and every published version counts as untrained",
                path=str(path),
            )
        versions: dict[str, int] = value["versions"]
        return versions

    def _was_launched(self, version: Untrained) -> bool:
        """Return whether a job was made for the version, perhaps before there were marks."""
        home = self._folder.training(version.interval, "job").parent
        jobs = [job / "job.json" for job in listed(home)]
        return any(
            read.get("interval") == version.interval
            and read.get("generation") == generation_name(version.generation)
            for path in jobs
            for read in _versions_of(path)
        )

    def _marks(self) -> set[str]:
        with posix.map_errors(self._home):
            return {path.name for path in self._home.iterdir()} if self._home.is_dir() else set()

    def _mark(self, version: Untrained, kind: str) -> Path:
        return self._home / f"{version.interval}.{generation_name(version.generation)}.{kind}"

    def _make_home(self) -> None:
        with posix.map_errors(self._home):
            make_folders(self._home)


def _versions_of(path: Path) -> list[dict[str, Any]]:
    try:
        value = canonical.loads(
            read_plain(path, follow=False, max_bytes=canonical.MAX_BYTES), path=str(path)
        )
        return [read for read in value["versions"] if isinstance(read, dict)]
    except (FormatError, NotFoundError, KeyError, TypeError):
        return []  # no rank could read this job either, so nothing was trained
