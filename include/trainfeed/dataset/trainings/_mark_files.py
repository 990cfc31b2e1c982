"""The files of ``training/_marks``: one file per mark of a version, each whole or absent."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from trainfeed import canonical_json
from trainfeed.dataset.layout import generation_name
from trainfeed.errors import FormatError, NotFoundError
from trainfeed.paths import make_folders, read_plain
from trainfeed.storage import posix

__all__ = ["ANNOUNCED", "DECLINED", "SEEN", "MarkFiles", "Untrained", "mark_time"]

SEEN: Final = "seen"
ANNOUNCED: Final = "announced"
DECLINED: Final = "declined"

_TIME: Final = "%Y-%m-%dT%H:%M:%SZ"


@dataclass(frozen=True, order=True)
class Untrained:
    """A published version that no training has seen.

    Attributes:
        interval: Name of the interval.
        generation: Number of the generation.
    """

    interval: str
    generation: int


class MarkFiles:
    """The marks of one data set as files.

    Args:
        home: Folder of the marks; the first mark creates it.

    Raises:
        StorageError: From every method, when the publication root refused or failed.
    """

    def __init__(self, home: Path) -> None:
        self._home = home

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

    def write(self, version: Untrained, kind: str, by: str, **more: object) -> None:
        """Create or replace a mark with the present time, the run ``by``, and ``more``."""
        self.make_home()
        value = {"at": f"{datetime.now(UTC):{_TIME}}", "by": by, **more}
        posix.replace_file(self.path(version, kind), canonical_json.dumps(value))

    def read(self, version: Untrained, kind: str) -> dict[str, Any]:
        """Return the content of a mark; {} when it is missing or damaged, for a mark is a hint."""
        path = self.path(version, kind)
        try:
            value = canonical_json.loads(
                read_plain(path, follow=False, max_bytes=canonical_json.MAX_BYTES), path=str(path)
            )
        except (FormatError, NotFoundError):
            return {}
        return value if isinstance(value, dict) else {}

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


def mark_time(value: dict[str, Any]) -> datetime | None:
    """Return the time in a mark's content, as an aware time; None without a valid one."""
    try:
        return datetime.strptime(value["at"], _TIME).replace(tzinfo=UTC)
    except (KeyError, TypeError, ValueError):
        return None
