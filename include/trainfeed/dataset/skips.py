"""The marker of an interval that is skipped.

By its specification, a data set may skip an interval whose source never came. A reader could not
tell such an interval from one that is not built yet. The decision is therefore recorded beside the
interval's plans, in ``plans/<interval>/SKIPPED.json``: the reason, the time, the end of the wait,
and start and end of the interval. A version has precedence over the marker, and its publication
removes the marker.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from trainfeed.dataset.layout import DatasetFolder
from trainfeed.errors import NotFoundError
from trainfeed.intervals import parse_time
from trainfeed.records import ONCE_UNSEALED, RecordFile, Time

__all__ = ["Skip", "lift_skip", "read_skip", "write_skip"]


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


_FILE: Final = RecordFile(
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
    _FILE.write_once(folder.skip(skip.interval), replace(skip, dataset=folder.name))
    if (found := read_skip(folder, skip.interval)) is None:
        raise NotFoundError(
            f"{folder.skip(skip.interval)} was removed while it was written: a version of the"
            " interval was published meanwhile; nothing was skipped; run the build again"
        )
    if None not in {found.span, skip.span} and found.span != skip.span:
        _FILE.replace(folder.skip(skip.interval), replace(skip, dataset=folder.name))
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
    return _FILE.read(folder.skip(interval), interval=interval, dataset=folder.name)


def lift_skip(folder: DatasetFolder, interval: str) -> bool:
    """Remove the marker of an interval; return whether there was one.

    Raises:
        StorageError: The publication root refused or failed.
    """
    return _FILE.lift(folder.skip(interval))
