"""Which published versions a training has seen: none may be lost on the way to it.

A scheduler drops an event that nothing consumes, and says nothing. So a training that starts is
written down here, beside the jobs, and the next publication finds the versions that no training has
started for. Files of ``<root>/<data set>/training/_marks``, each whole or absent::

    since.json                     versions from before the data set had a training
    <interval>.<gNNNN>.seen        a training of the interval has started when this was its version
    <interval>.<gNNNN>.announced   an event was sent for it: when, and by which run

A mark is a hint that saves runs: a job is named after its content, and a finished one is adopted,
so a mark that is missing costs one more event and nothing else.
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
        interval: Name of its interval.
        generation: Its number.
    """

    interval: str
    generation: int


class TrainingMarks:
    """What is known of the trainings of one data set.

    Args:
        folder: The data set below the publication root.
    """

    def __init__(self, folder: DatasetFolder) -> None:
        self._folder = folder
        self._home = folder.training_marks

    def begin(self, interval: str) -> None:
        """Write down, once, which versions are older than the training.

        Call it before a version is published. Versions that come later count as untrained until
        a training has seen them.

        Args:
            interval: The one that is about to be published: building it asks for its training.

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
        """Forget since when there is a training: the data set has none any more."""
        with posix.map_errors(self._home):
            (self._home / _SINCE).unlink(missing_ok=True)

    def see(self, interval: str) -> None:
        """Write down that a training of ``interval`` starts, on the version that it has now.

        Without a version there is nothing to see; publishing one sends an event of its own.

        Raises:
            StorageError: The publication root refused or failed.
        """
        generation = self._folder.current_generation(interval)
        if generation is None:
            return
        version = Untrained(interval, generation)
        seen = self._mark(version, _SEEN)
        if not seen.exists():
            self._make_home()
            posix.create_exclusive(seen, b"")
        with posix.map_errors(seen):
            self._mark(version, _ANNOUNCED).unlink(missing_ok=True)

    def announce(self, versions: Iterable[Untrained], by: str) -> None:
        """Write down that an event is sent for ``versions``.

        Args:
            versions: What the event is about.
            by: Who sends it; a further try of the same sender may send it again.

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
            older: Also those from before the data set had a training.

        Returns:
            In order of their intervals. A version that a job was launched for counts as seen.

        Raises:
            FormatError: The file that says since when there is a training is damaged.
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
        """Return those of ``versions`` that no other run has announced within the last hour.

        Args:
            versions: What no training has seen.
            by: Who asks; what it has announced itself is returned, for its earlier try may have
                died before the event was sent.
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
        """Whether a job was made for the version: also one from before there were marks."""
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
        return []  # no rank could read it: nothing was trained
