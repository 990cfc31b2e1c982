"""The note that retention removed landing files of an interval: when, by which rule, and how many.

Landing files are on another file system than the publication root, and often the only copy of
records that the source has deleted since. Whoever misses one must learn that it is not lost, but
was removed by a rule. The note is beside the plans that name the files, in
``plans/<interval>/LANDING_REMOVED.json``; the note of a later removal replaces it. The files may
be there again: a build that reads the source writes them anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final

from trainfeed.dataset.layout import DatasetFolder
from trainfeed.errors import OffsetOutOfRangeError, TrainFeedError
from trainfeed.records import RecordFile, Time

__all__ = [
    "LandingRemoval",
    "telling_landing_removal",
    "told_landing_removal",
    "write_landing_removal",
]


@dataclass(frozen=True)
class LandingRemoval:
    """A removal of landing files by retention.

    Attributes:
        at: Time of the removal, as ``2026-03-08T00:00:00Z``.
        why: The rule, as ``keep_days: 30``.
        files: Number of the files.
        dataset: Name of the data set; None in a note of before.
        interval: Name of the interval, likewise.
    """

    at: Time
    why: str
    files: int
    dataset: str | None = field(default=None, compare=False, repr=False)
    interval: str | None = field(default=None, compare=False, repr=False)


_FILE: Final = RecordFile(
    LandingRemoval, "the note of a removal of landing files", "remove the file"
)


def write_landing_removal(folder: DatasetFolder, interval: str, removal: LandingRemoval) -> None:
    """Write the note of an interval, before its files go.

    Raises:
        StorageError: The publication root refused or failed; the files must stay.
    """
    named = replace(removal, dataset=folder.name, interval=interval)
    _FILE.replace(folder.landing_removal(interval), named)


def told_landing_removal(folder: DatasetFolder, interval: str) -> str:
    """Return a sentence about the removal for a message; empty if there was none.

    An account that may not read the note, or a damaged note, gives a sentence that says so: the
    message is about something else.
    """
    try:
        path = folder.landing_removal(interval)
        found = _FILE.read(path, dataset=folder.name, interval=interval)
    except TrainFeedError as error:
        return f"; whether retention removed landing files cannot be told: {error}"
    if found is None:
        return ""
    return (
        f"; retention removed {found.files} landing files of {folder.name}/{interval} on"
        f" {found.at} ({found.why})"
    )


@contextmanager
def telling_landing_removal(folder: DatasetFolder, interval: str) -> Iterator[None]:
    """Let an error about records that the source has deleted name the removal of their copy, too.

    Raises:
        OffsetOutOfRangeError: The block raised it.
    """
    try:
        yield
    except OffsetOutOfRangeError as error:
        told = told_landing_removal(folder, interval)
        if not told:
            raise
        raise OffsetOutOfRangeError(f"{error}{told}") from error
