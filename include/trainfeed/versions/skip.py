"""Decisions to go without data: skipped intervals, and accepted holes between versions."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Final

from trainfeed.core.accounts import Decision
from trainfeed.core.intervals import parse_time, range_text
from trainfeed.errors import FormatError, NotFoundError
from trainfeed.files.records import ONCE_UNSEALED, RecordFile, Time
from trainfeed.versions.layout import DatasetFolder

# --- The marker of an interval that is skipped


@dataclass(frozen=True)
class Skip:
    """The decision to skip an interval.

    Attributes:
        interval: Name of the interval.
        why: The reason: the missing source, and what was found.
        at: Time of the decision: ``2026-03-08T00:00:00Z``.
        until: End of the wait for the source, in the same form; None without a wait.
        dataset: Name of the data set; None in a marker that is not sealed.
        start: Start of the interval, in the same form; None in a marker of an earlier version.
        end: Its end, likewise: both hold whatever the schedule is later.
    """

    interval: str
    why: str
    at: Time
    until: Time | None
    dataset: str | None = field(default=None, compare=False, repr=False)
    start: Time | None = field(default=None, compare=False, repr=False)
    end: Time | None = field(default=None, compare=False, repr=False)

    @property
    def span(self) -> tuple[datetime, datetime] | None:
        """Start and end of the interval, aware UTC; None if the marker does not have them."""
        if self.start is None or self.end is None:
            return None
        return parse_time(self.start), parse_time(self.end)


_SKIP_FILE: Final = RecordFile(
    Skip,
    "the marker of a skipped interval, with interval, why, at and until",
    "nothing was changed; remove the file and build the interval, which decides again",
    place=ONCE_UNSEALED["skip"],
)


def write_skip(folder: DatasetFolder, skip: Skip) -> Skip:
    """Write the marker of an interval, or adopt an existing one of the same start and end.

    Returns:
        The decision that holds: that of the first run. Of an interval that a changed schedule gives
        another start or end, the new one takes its place.

    Raises:
        FormatError: The existing marker is damaged.
        StorageError: The publication root refused or failed. This call wrote no marker.
    """
    _SKIP_FILE.write_once(folder.skip(skip.interval), replace(skip, dataset=folder.name))
    if (found := read_skip(folder, skip.interval)) is None:
        raise NotFoundError(
            f"{folder.skip(skip.interval)} was removed while it was written: a version of the"
            " interval was published meanwhile; nothing was skipped; run the build again"
        )
    if None not in {found.span, skip.span} and found.span != skip.span:
        _SKIP_FILE.replace(folder.skip(skip.interval), replace(skip, dataset=folder.name))
        return skip
    return found


def read_skip(folder: DatasetFolder, interval: str) -> Skip | None:
    """Return the decision to skip an interval, or None.

    A published version has precedence: look for versions first.

    Args:
        folder: The data set.
        interval: Name of the interval.

    Raises:
        FormatError: The marker is damaged.
        StorageError: The publication root refused or failed.
    """
    return _SKIP_FILE.read(folder.skip(interval), interval=interval, dataset=folder.name)


def lift_skip(folder: DatasetFolder, interval: str) -> bool:
    """Remove the marker of an interval; return whether there was one.

    Raises:
        StorageError: The publication root refused or failed.
    """
    return _SKIP_FILE.lift(folder.skip(interval))


# --- Holes between published versions that a person accepted

_TIME: Final = "%Y%m%dT%H%M%SZ"


@dataclass(frozen=True)
class AcceptedHole(Decision, optional=("zone",)):
    """The decision that readers go without a part between two published versions.

    Attributes:
        dataset: Name of the data set.
        start: Start of the hole: ``2026-03-08T00:00:00Z``.
        end: Its end, in the same form.
        zone: Zone of the schedule at that time; None, and not in the file, for UTC.
    """

    dataset: str
    start: Time
    end: Time
    zone: str | None = None

    @property
    def span(self) -> tuple[datetime, datetime]:
        """Start and end, aware UTC."""
        return parse_time(self.start), parse_time(self.end)

    @property
    def range(self) -> str:
        """The hole as a range: ``2026-03-08T00/2026-03-08T05``.

        In a set in a zone it has no days, which would be those of the zone when it is typed.
        """
        return range_text(*self.span, self.zone)

    @property
    def told(self) -> str:
        """Who accepted it, when and why, for messages."""
        return f"accepted by {self.by} on {self.at}: {self.why}"


_HOLE_FILE: Final = RecordFile(
    AcceptedHole,
    "the decision to accept a hole between versions",
    "nothing was read or changed; bring the file back from a backup, or remove it and accept the"
    " hole again",
)


def write_hole(folder: DatasetFolder, hole: AcceptedHole) -> tuple[AcceptedHole, bool]:
    """Write a decision, or adopt the one about the same hole.

    Returns:
        The decision that holds, and whether this call wrote it.

    Raises:
        FormatError: The existing file is damaged.
        StorageError: The publication root refused or failed.
    """
    path = _path(folder, hole)
    if _HOLE_FILE.write_once(path, hole):
        return hole, True
    return _read(folder, path) or hole, False


def accepted_holes(folder: DatasetFolder) -> list[AcceptedHole]:
    """Return the accepted holes of a data set, in order of time.

    Raises:
        FormatError: A file is damaged.
        StorageError: The publication root refused or failed.
    """
    names = sorted(name for name in folder.names_in(folder.holes) if name.endswith(".json"))
    found = [_read(folder, folder.holes / name) for name in names]
    return [hole for hole in found if hole is not None]


def lift_hole(folder: DatasetFolder, hole: AcceptedHole) -> bool:
    """Remove a decision; return whether there was one.

    Raises:
        StorageError: The publication root refused or failed.
    """
    return _HOLE_FILE.lift(_path(folder, hole))


def _read(folder: DatasetFolder, path: Path) -> AcceptedHole | None:
    hole = _HOLE_FILE.read(path, dataset=folder.name)
    if hole is not None and (path != _path(folder, hole) or hole.span[0] >= hole.span[1]):
        raise FormatError(
            f"expected {_HOLE_FILE.what} of its name, got one of {hole.start} to {hole.end};"
            f" {_HOLE_FILE.remedy}",
            path=str(path),
        )
    return hole


def hole_mark(folder: DatasetFolder, start: datetime, end: datetime) -> Path:
    """Return the file of the decision about a hole.

    Args:
        folder: The data set.
        start: Start of the hole, aware UTC.
        end: Its end.
    """
    return folder.holes / f"{start:{_TIME}}-{end:{_TIME}}.json"


def _path(folder: DatasetFolder, hole: AcceptedHole) -> Path:
    return hole_mark(folder, *hole.span)
