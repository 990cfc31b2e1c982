"""Errors of settings, specifications and intervals."""

from __future__ import annotations

from datetime import datetime, timedelta

from trainfeed.errors._root import Outcome, TrainFeedError

__all__ = [
    "ConfigError",
    "RootError",
    "SpecError",
    "TransactionOpenError",
    "WindowError",
    "WindowOpenError",
]


class ConfigError(TrainFeedError):
    """A setting is missing or contradicts another.

    Cause: A setting, a connection, a parameter or a file that a specification names is missing or
        wrong, or two of them contradict each other.
    Remedy: Correct the setting that the message names; nothing was run. A try without a change
        fails in the same way.
    See docs/reference/errors.md#configerror
    """


class RootError(ConfigError):
    """The publication root is missing, or the folder was never made a root.

    Cause: The setting of the root is misspelt, its file system is not mounted, or the folder was
        never made a root.
    Remedy: Correct the setting or mount the file system. Run `trainfeed init` only for a new root,
        or for a root of an older version, which made no mark.
    See docs/reference/errors.md#rooterror
    """


class SpecError(ConfigError):
    """A dataset.yaml is wrong.

    Cause: A field of dataset.yaml is unknown, missing or wrong, or two fields contradict each
        other.
    Remedy: Change the line that the message names; docs/reference/dataset.md has every field.
    See docs/reference/errors.md#specerror
    """


class WindowError(ConfigError):
    """The requested interval is not a tick of the schedule, or lies outside of the schedule.

    Cause: The requested start is not a tick of the schedule, lies outside of the schedule, or is
        not a date.
    Remedy: Ask for one of the ticks that the message names, or change `start`, `end` or `schedule`.
    See docs/reference/errors.md#windowerror
    """


class WindowOpenError(TrainFeedError):
    """The interval cannot be planned yet.

    ``ready_at`` is the aware UTC time from which the interval can be planned, or None when unknown.
    ``reason`` names what is missing, as a part of a sentence; empty if the message is complete.
    ``until`` is the aware UTC time at which the wait for a topic or for uploads ends; None for
    other reasons.

    Cause: The interval has not ended and settled; or its folder of log files is not complete, its
        topic has no record, or it has no upload yet.
    Remedy: Wait: runs of the schedule look again by themselves. Trigger a triggered run again after
        the time that the message names.
    See docs/reference/errors.md#windowopenerror
    """

    outcome = Outcome.RETRY
    ready_at: datetime | None = None
    reason: str = ""
    until: datetime | None = None


class TransactionOpenError(WindowOpenError):
    """Transactions that are still open may hide records of the interval.

    ``places`` names the partitions, each with its last stable offset and high watermark. ``wait``
    is the longest time of looking again, counted from ``since``, an aware UTC time; after that the
    producers need attention.

    Cause: A producer has an open transaction, or died during a transaction, and later records may
        belong to the interval.
    Remedy: Wait, or find the producer with kafka-transactions.sh, and abort the transaction if the
        producer is dead.
    See docs/reference/errors.md#transactionopenerror
    """

    places: tuple[str, ...] = ()
    wait: timedelta = timedelta(0)
    since: datetime | None = None
