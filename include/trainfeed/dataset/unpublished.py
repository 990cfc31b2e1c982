"""The record of the last attempt at an interval that did not publish it: the error, and since when.

The logs of schedulers say why a build failed, but are elsewhere, and are deleted. The error is
therefore also recorded in the data set's folder, in ``unpublished/<interval>.json``. A version that
was published later has precedence, and its publication removes the record. The text of an error may
quote a record, so only the account that builds, and its group, may read it.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from trainfeed.dataset.layout import DatasetFolder
from trainfeed.errors import FormatError
from trainfeed.records import ONCE_UNSEALED, RecordFile, Time

__all__ = ["Unpublished", "lift_unpublished", "read_unpublished", "write_unpublished"]

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


_FILE: Final = RecordFile(
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
    _FILE.replace(folder.unpublished(ended.interval), replace(ended, dataset=folder.name))
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
    return _FILE.read(folder.unpublished(interval), interval=interval, dataset=folder.name)


def lift_unpublished(folder: DatasetFolder, interval: str) -> bool:
    """Remove the record of an interval; return whether there was one.

    Raises:
        StorageError: The publication root refused or failed.
    """
    return _FILE.lift(folder.unpublished(interval))
