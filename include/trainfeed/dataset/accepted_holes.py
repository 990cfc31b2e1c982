"""Holes between published versions that a person accepted.

Neighbouring versions meet: one ends where the next one starts. If the time of day of a schedule is
moved, a part between the last old and the first new version belongs to no interval, and no interval
of the schedule of today fits. Nothing can be built or skipped there. A person may accept such a
hole, in ``holes/<start>-<end>.json`` of the data set; readers then open ranges with it, and list
it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from trainfeed.accounts import person
from trainfeed.dataset.layout import DatasetFolder
from trainfeed.dataset.sealed_json import text_of
from trainfeed.errors import FormatError
from trainfeed.intervals import parse_time, range_text
from trainfeed.records import RecordFile, Time

__all__ = [
    "AcceptedHole",
    "accepted_holes",
    "hole_from_json",
    "hole_mark",
    "lift_hole",
    "write_hole",
]

_TIME: Final = "%Y%m%dT%H%M%SZ"


@dataclass(frozen=True)
class AcceptedHole:
    """The decision that readers go without a part between two published versions.

    Attributes:
        dataset: Name of the data set.
        start: Start of the hole: ``2026-03-08T00:00:00Z``.
        end: Its end, in the same form.
        who: The person.
        account: The account, or the run of a scheduler, that acts for the person.
        why: The reason.
        at: Time of the decision.
        request: Name of the request, such as a run of a DAG; None for a command.
    """

    dataset: str
    start: Time
    end: Time
    who: str
    account: str
    why: str
    at: Time
    request: str | None = None

    @property
    def span(self) -> tuple[datetime, datetime]:
        """Start and end, aware UTC."""
        return parse_time(self.start), parse_time(self.end)

    @property
    def range(self) -> str:
        """The hole as a range: ``2026-03-08T00/2026-03-08T05``."""
        return range_text(*self.span)

    @property
    def told(self) -> str:
        """Who accepted it, when and why, for messages."""
        return f"accepted by {person(self.who, self.account)} on {self.at}: {self.why}"


def hole_from_json(value: Mapping[str, Any]) -> AcceptedHole:
    """Return the decision in a part of another file.

    Raises:
        KeyError, TypeError, WindowError: It is something else.
    """
    texts = {each.name: text_of(value, each.name) for each in fields(AcceptedHole)[:-1]}
    hole = AcceptedHole(**texts, request=value.get("request"))
    _ = hole.span
    return hole


_FILE: Final = RecordFile(
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
    if _FILE.write_once(path, hole):
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
    return _FILE.lift(_path(folder, hole))


def _read(folder: DatasetFolder, path: Path) -> AcceptedHole | None:
    hole = _FILE.read(path, dataset=folder.name)
    if hole is not None and (path != _path(folder, hole) or hole.span[0] >= hole.span[1]):
        raise FormatError(
            f"expected {_FILE.what} of its name, got one of {hole.start} to {hole.end};"
            f" {_FILE.remedy}",
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
