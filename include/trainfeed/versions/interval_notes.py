"""Notes on an interval without new data: a failed attempt, removed landing files, log entries."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from trainfeed.errors import FormatError, OffsetOutOfRangeError, TrainFeedError
from trainfeed.files.records import ONCE_UNSEALED, RecordFile, Time
from trainfeed.versions.layout import DatasetFolder

# --- The record of the last attempt at an interval that did not publish it: the error

Outcome = Literal["failed", "retry", "waiting"]


@dataclass(frozen=True)
class Unpublished:
    """The end of an attempt that did not publish its interval.

    Attributes:
        interval: Name of the interval.
        since: Time of the first attempt that ended like this: ``2026-03-08T00:00:00Z``.
        work: The part of the build that ended: ``logs``, ``plan`` or a stage.
        plan: Id of the plan; None if the attempt ended before there was one.
        outcome: ``waiting`` for the source, ``retry`` if the cause may pass, or ``failed``.
        error: Class of the error.
        why: First line of its message.
        dataset: Name of the data set; None in a record that is not sealed.
    """

    interval: str
    since: Time
    work: str
    plan: str | None
    outcome: Outcome
    error: str
    why: str
    dataset: str | None = field(default=None, compare=False, repr=False)

    @property
    def text(self) -> str:
        """Class and message in one line."""
        return f"{self.error}: {self.why}"


_UNPUBLISHED_FILE: Final = RecordFile(
    Unpublished,
    "the record of an attempt at the interval",
    "nothing was changed; remove the file, or build the interval, which removes it",
    mode=0o640,
    place=ONCE_UNSEALED["unpublished"],
)


def write_unpublished(folder: DatasetFolder, ended: Unpublished) -> Unpublished:
    """Record the end of an attempt; an equal record stays, with its earlier time.

    Returns:
        The record that holds.

    Raises:
        StorageError: The publication root refused or failed. The record is the old one, or absent.
    """
    with suppress(FormatError):
        known = read_unpublished(folder, ended.interval)
        if known is not None and replace(known, since=ended.since) == ended:
            return known
    _UNPUBLISHED_FILE.replace(
        folder.unpublished(ended.interval), replace(ended, dataset=folder.name)
    )
    return ended


def read_unpublished(folder: DatasetFolder, interval: str) -> Unpublished | None:
    """Return the record of an interval, or None.

    Args:
        folder: The data set.
        interval: Name of the interval.

    Raises:
        AccessDeniedError: This account may not read the record.
        FormatError: The record is damaged.
        StorageError: The publication root refused or failed.
    """
    return _UNPUBLISHED_FILE.read(
        folder.unpublished(interval), interval=interval, dataset=folder.name
    )


def lift_unpublished(folder: DatasetFolder, interval: str) -> bool:
    """Remove the record of an interval; return whether there was one.

    Raises:
        StorageError: The publication root refused or failed.
    """
    return _UNPUBLISHED_FILE.lift(folder.unpublished(interval))


# --- The note that retention removed landing files of an interval: when, by which rule


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


_REMOVAL_FILE: Final = RecordFile(
    LandingRemoval, "the note of a removal of landing files", "remove the file"
)


def write_landing_removal(folder: DatasetFolder, interval: str, removal: LandingRemoval) -> None:
    """Write the note of an interval, before its files go.

    Raises:
        StorageError: The publication root refused or failed; the files must stay.
    """
    named = replace(removal, dataset=folder.name, interval=interval)
    _REMOVAL_FILE.replace(folder.landing_removal(interval), named)


def told_landing_removal(folder: DatasetFolder, interval: str) -> str:
    """Return a sentence about the removal for a message; empty if there was none.

    An account that may not read the note, or a damaged note, gives a sentence that says so: the
    message is about something else.
    """
    try:
        path = folder.landing_removal(interval)
        found = _REMOVAL_FILE.read(path, dataset=folder.name, interval=interval)
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


# --- The entries of a folder of logs that were not read, as plan and manifest name them, in words

_SHOWN: Final = 3


def told_passed_over(passed_over: Mapping[str, str], *, marker: bool = True) -> str:
    """Return how many entries were passed over for each reason, with the first names.

    Args:
        passed_over: Name → reason.
        marker: Whether markers, which lie in every complete folder, are told as well.

    Returns:
        A part of a sentence, such as ``1 marker (_SUCCESS), 2 unfinished (a.tmp, b.tmp)``; empty if
        there is nothing to tell.
    """
    names: dict[str, list[str]] = defaultdict(list)
    for name, reason in sorted(passed_over.items()):
        if marker or reason != "marker":
            names[reason].append(name)
    return ", ".join(f"{len(found)} {reason} ({_first(found)})" for reason, found in names.items())


def _first(names: list[str]) -> str:
    return ", ".join([*names[:_SHOWN], *(["…"] if len(names) > _SHOWN else [])])
