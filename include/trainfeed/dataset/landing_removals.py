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
from dataclasses import asdict, dataclass

from trainfeed.dataset.layout import DatasetFolder
from trainfeed.dataset.sealed_json import read_sealed, text_of, write_sealed
from trainfeed.errors import (
    FormatError,
    NotFoundError,
    OffsetOutOfRangeError,
    TrainFeedError,
    WindowError,
)
from trainfeed.intervals import parse_time

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
    """

    at: str
    why: str
    files: int


def write_landing_removal(folder: DatasetFolder, interval: str, removal: LandingRemoval) -> None:
    """Write the note of an interval, before its files go.

    Raises:
        StorageError: The publication root refused or failed; the files must stay.
    """
    write_sealed(folder.landing_removal(interval), asdict(removal))


def told_landing_removal(folder: DatasetFolder, interval: str) -> str:
    """Return a sentence about the removal for a message; empty if there was none.

    An account that may not read the note, or a damaged note, gives a sentence that says so: the
    message is about something else.
    """
    try:
        found = _read(folder, interval)
    except NotFoundError:
        return ""
    except TrainFeedError as error:
        return f"; whether retention removed landing files cannot be told: {error}"
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


def _read(folder: DatasetFolder, interval: str) -> LandingRemoval:
    path = folder.landing_removal(interval)
    value = read_sealed(path, "the note of a removal of landing files", "remove the file")
    try:
        at, files = text_of(value, "at"), value["files"]
        parse_time(at)
        return LandingRemoval(at, text_of(value, "why"), int(files))
    except (KeyError, TypeError, ValueError, WindowError) as error:
        raise FormatError(
            f"expected the note of a removal of landing files: {error}; remove the file",
            path=str(path),
        ) from error
