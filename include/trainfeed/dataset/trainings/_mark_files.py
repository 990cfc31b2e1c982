"""The files of ``training/_marks``: one file per mark of a version, each whole or absent.

Marks ``seen`` are empty; the others are sealed and have their own name.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from trainfeed.dataset.layout import DatasetFolder, generation_name
from trainfeed.intervals import format_time
from trainfeed.paths import make_folders
from trainfeed.records import ONCE_UNSEALED, RecordFile, Time
from trainfeed.storage import posix

__all__ = ["ANNOUNCED", "DECLINED", "SEEN", "Mark", "MarkFiles", "Untrained"]

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
