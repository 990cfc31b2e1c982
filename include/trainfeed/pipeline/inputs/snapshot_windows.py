"""Which snapshots of a table of Iceberg belong to an interval.

A snapshot belongs to the interval of its commit. Where one interval ends and the next begins in
the line of snapshots is written down once, for both: a commit that appears later with an earlier
time belongs to the first interval that is planned after it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NamedTuple

from trainfeed.core import canonical_json
from trainfeed.core.intervals import Interval, format_time
from trainfeed.errors import SourceReplacedError
from trainfeed.files import listed
from trainfeed.files.records import RecordFile
from trainfeed.versions import DatasetFolder

if TYPE_CHECKING:
    from trainfeed.sources.iceberg_tables import Commit, IcebergTable

# --- Where one interval ends and the next begins in the line of snapshots: a file for each time

_FILE_TIME: Final = "%Y%m%dT%H%M%SZ"


@dataclass(frozen=True)
class TableBoundary:
    """The last snapshot of a table before a point in time.

    Attributes:
        dataset: The data set.
        table_uuid: The table's own id.
        at: The time, in UTC.
        found_at: When the boundary was found.
        snapshot: Id of the snapshot; None if the table had none, or has none any more.
        sequence: Its sequence number. Without a snapshot that of the last one that was expired when
            the boundary was found, as far as is known; 0 if the table had none at all.
    """

    dataset: str
    table_uuid: str
    at: canonical_json.Time
    found_at: canonical_json.Time
    snapshot: int | None
    sequence: int

    @property
    def next_sequence(self) -> int:
        """The sequence number behind the snapshot; the first one without a snapshot."""
        return 1 if self.snapshot is None else self.sequence + 1


_BOUNDARIES: Final = RecordFile(
    TableBoundary,
    "a boundary file of a table",
    "nothing was read or published; bring it back from a backup; if no published interval starts or"
    " ends there, move it aside, and the next build finds the boundary again",
    # The folder of a dry run has links to the boundary files of the root.
    follow=True,
)


class TableEdges:
    """The boundaries of a table in the line of its snapshots.

    Args:
        folder: The data set below the publication root.
        table: The table as it is now.
        now: Aware UTC time.
    """

    def __init__(self, folder: DatasetFolder, table: IcebergTable, now: datetime) -> None:
        self._folder, self._table, self._now = folder, table, now
        self._numbers = {commit.id: n + 1 for n, commit in enumerate(table.commits)}

    def find(self, at: datetime) -> int:
        """Return the number of snapshots, of those that are still there, before a time.

        Raises:
            SourceReplacedError: The snapshot of the boundary is none of the branch any more.
            FormatError: A boundary file is damaged.
        """
        known = self.read(at)
        if known is not None:
            return self._number(known)
        at_ms, now_ms = (int(time.timestamp() * 1000) for time in (at, self._now))
        times = [commit.committed_ms for commit in self._table.commits]
        later = (number for number, time in enumerate(times) if at_ms <= time <= now_ms)
        found = next(later, len(times))
        # A commit by a clock that was ahead goes with the one that follows it.
        while found and times[found - 1] > now_ms:
            found -= 1
        before, after = self._neighbours(at)
        found = found if before is None else max(found, self._number(before))
        return found if after is None else min(found, self._number(after))

    def fix(self, at: datetime) -> None:
        """Write the boundary at a time down, unless it is."""
        if self.read(at) is not None:
            return
        number = self.find(at)
        last = self._table.commits[number - 1] if number else None
        # What was before the oldest snapshot says nothing of a time before it any more.
        expired = 0 if self._table.is_whole else self._table.commits[0].sequence - 1
        boundary = TableBoundary(
            dataset=self._folder.name,
            table_uuid=self._table.uuid,
            at=format_time(at),
            found_at=format_time(self._now.replace(microsecond=0)),
            snapshot=None if last is None else last.id,
            sequence=expired if last is None else last.sequence,
        )
        _BOUNDARIES.write_once(self._folder.table_boundary(self._table.uuid, at), boundary)

    def read(self, at: datetime) -> TableBoundary | None:
        """Return the boundary that was written down, or None."""
        path = self._folder.table_boundary(self._table.uuid, at)
        names = {"dataset": self._folder.name, "table_uuid": self._table.uuid}
        return _BOUNDARIES.read(path, **names, at=format_time(at))

    def _number(self, boundary: TableBoundary) -> int:
        table = self._table
        if boundary.snapshot is None:
            return 0
        if (number := self._numbers.get(boundary.snapshot)) is not None:
            return number
        # Snapshots are expired from the oldest on; what is gone in the middle was rolled back.
        if not table.commits or table.is_whole or table.commits[0].sequence < boundary.sequence:
            raise SourceReplacedError(
                f"snapshot {boundary.snapshot} of table {table.name}, with which the time"
                f" {boundary.at} was planned, is not in the branch main any more: the branch was"
                " set back, or the table was replaced; nothing was read or published; bring the"
                " snapshot back, or begin a new data set"
            )
        return 0

    def _neighbours(self, at: datetime) -> tuple[TableBoundary | None, TableBoundary | None]:
        """Return the nearest boundaries before and behind a time that were written down."""
        names = sorted(
            path.stem for path in listed(self._folder.table_boundaries(self._table.uuid), "*Z.json")
        )
        place = bisect_left(names, f"{at:{_FILE_TIME}}")
        near = (names[place - 1 : place], names[place : place + 1])
        before, after = (self.read(_time_of(name[0])) if name else None for name in near)
        return before, after


def _time_of(name: str) -> datetime:
    return datetime.strptime(name, _FILE_TIME).replace(tzinfo=UTC)


# --- The snapshots of an interval, and what of them cannot be read as appended rows

_APPEND: Final = "append"
_REPLACE: Final = "replace"


class Trouble(NamedTuple):
    """A part of the line of snapshots that is not read.

    Attributes:
        name: Its name in what is passed over.
        what: What it is, as a part of a message.
        start: Sequence number at which it begins.
        end: Sequence number behind it.
        is_loss: Whether snapshots are gone; otherwise one is there, and has other changes.
    """

    name: str
    what: str
    start: int
    end: int
    is_loss: bool


@dataclass(frozen=True)
class Window:
    """The snapshots of an interval.

    Attributes:
        appends: Those whose rows are read.
        passed_over: Name → why it is passed over, for those that add no rows.
        troubles: What is not read although rows may be lost.
        last: The last snapshot before the end of the interval; None if there is none.
        has_later: Whether the table has snapshots behind the interval.
    """

    appends: Sequence[Commit]
    passed_over: Mapping[str, str]
    troubles: Sequence[Trouble]
    last: Commit | None
    has_later: bool


def find_window(table: IcebergTable, edges: TableEdges, interval: Interval) -> Window:
    """Return the snapshots of an interval.

    Raises:
        SourceReplacedError: The branch was set back behind a boundary.
    """
    start, end = edges.find(interval.start), edges.find(interval.end)
    commits = table.commits[start:end]
    kept = {_name(each): f"{_REPLACE}: it adds no rows" for each in commits if _is_moved(each)}
    troubles = [*_lost(table, edges, interval, start, end)]
    troubles += [
        Trouble(_name(each), why, each.sequence, each.sequence + 1, is_loss=False)
        for each in commits
        if (why := _refusal(each))
    ]
    appends = [each for each in commits if not _is_moved(each) and not _refusal(each)]
    last = table.commits[end - 1] if end else None
    return Window(appends, kept, troubles, last, end < len(table.commits))


def _name(commit: Commit) -> str:
    return f"snapshot {commit.id}"


def _is_moved(commit: Commit) -> bool:
    """Return whether a snapshot has the same rows in other files."""
    counts = commit.counts
    added, deleted = (counts.get(f"{what}-records", 0) for what in ("added", "deleted"))
    return commit.operation == _REPLACE and added == deleted


def _refusal(commit: Commit) -> str | None:
    """Return why a snapshot cannot be read as appended rows; None for one that can."""
    who = f"{_name(commit)} of {_time(commit)}"
    if commit.operation == _APPEND:
        has_deletes = commit.counts.get("added-delete-files") or commit.counts.get(
            "deleted-data-files"
        )
        return f"{who} appends deletes of rows" if has_deletes else None
    if commit.operation == _REPLACE:
        return None if _is_moved(commit) else f"{who} replaces files by others with more or less"
    return f"{who} is of the operation {commit.operation!r}: it changes or deletes rows"


def _lost(
    table: IcebergTable, edges: TableEdges, interval: Interval, start: int, end: int
) -> Iterator[Trouble]:
    """Yield the loss where the history does not reach the start of an interval."""
    if start or table.is_whole:
        return
    first, last = (edges.read(at) for at in (interval.start, interval.end))
    oldest = table.commits[0] if table.commits else None
    if first is not None and (
        _is_bare(first, last) or (oldest is not None and oldest.parent == first.snapshot)
    ):
        return
    until = "" if oldest is None else f", the oldest one is {oldest.id} of {_time(oldest)}"
    behind = 0 if first is None else first.next_sequence
    number = 0 if oldest is None else oldest.sequence
    if not end and last is not None:
        number = last.sequence + 1
    what = f"snapshots of the interval are expired, or may be{until}"
    yield Trouble("expired snapshots", what, behind, max(behind, number), is_loss=True)


def _is_bare(first: TableBoundary, last: TableBoundary | None) -> bool:
    """Return whether two boundaries show that no snapshot was between them."""
    if last is None or first.snapshot != last.snapshot:
        return False
    return first.snapshot is not None or last.sequence == 0


def _time(commit: Commit) -> str:
    return format_time(datetime.fromtimestamp(commit.committed_ms / 1000, UTC))
