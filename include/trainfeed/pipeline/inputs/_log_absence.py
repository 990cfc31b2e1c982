"""Decides about an interval whose folder of logs is not complete in time.

The wait ends ``settle`` and ``wait`` after the interval's end, a time that interval and
specification give. Schedule, trigger, backfill and command line therefore decide alike, and an old
interval is decided at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from difflib import get_close_matches
from typing import Final

from trainfeed.dataset import Skip
from trainfeed.errors import (
    ConfigError,
    LogsMissingError,
    NotFoundError,
    StorageError,
    WindowOpenError,
)
from trainfeed.intervals import Interval, format_time, ready_at
from trainfeed.specification import DatasetSpec, LogsSourceSpec, expand_path
from trainfeed.storage import Location

__all__ = ["Absence", "deadline", "logs_of"]

_NEIGHBOURS: Final = 3


def logs_of(spec: DatasetSpec) -> LogsSourceSpec:
    """Return the part ``source.logs`` of a specification.

    Raises:
        ConfigError: The data set has no log files.
    """
    if spec.source.logs is None:
        raise ConfigError(f"expected data set {spec.name!r} to have source.logs, it has none")
    return spec.source.logs


def deadline(logs: LogsSourceSpec, interval: Interval) -> datetime:
    """Return the aware UTC time until which the folder of an interval is waited for."""
    return ready_at(interval, logs.settle) + logs.wait


class Absence:
    """An interval whose folder is not complete, and the rule of the specification for that case.

    Args:
        spec: A data set of log files.
        interval: The interval.
        folder: Folder of the interval.
        incomplete: The error that says what is missing.
        now: Aware UTC time.
    """

    def __init__(
        self,
        spec: DatasetSpec,
        interval: Interval,
        folder: Location,
        incomplete: WindowOpenError,
        now: datetime,
    ) -> None:
        self._name = f"{spec.name}/{interval.name}"
        self._logs = logs_of(spec)
        self._interval = interval
        self._folder = folder
        self._incomplete = incomplete
        self._now = now

    def require_decided(self) -> None:
        """Refuse an interval whose wait has not ended, or that may not be missing.

        Raises:
            WindowOpenError: The wait has not ended.
            LogsMissingError: The wait has ended, and the specification neither takes the interval
                as empty nor skips it.
        """
        if self._now < deadline(self._logs, self._interval):
            raise self._incomplete
        if self._logs.missing == "fail":
            raise self._missing("decide with source.logs.missing: empty or skip")
        if self._logs.missing == "empty" and not self._is_bare():
            raise self._missing(
                "'missing: empty' speaks only for a folder that is not there or holds nothing"
            )

    def skip(self) -> Skip | None:
        """Return the decision to skip the interval, or None if the rule is another.

        Raises:
            WindowOpenError: The wait has not ended, or the logs are there and only time is missing.
            LogsMissingError: The wait has ended, and the interval may not be missing.
        """
        self.require_decided()
        if self._logs.missing != "skip":
            return None
        if self._incomplete.ready_at is not None:
            # The logs are there: to skip the interval would lose them.
            raise self._incomplete
        until = format_time(deadline(self._logs, self._interval))
        why = f"folder {self._path} of {self._logs.connection} is not complete: {self._why()}"
        return Skip(
            self._interval.name,
            why,
            format_time(self._now),
            until,
            start=format_time(self._interval.start),
            end=format_time(self._interval.end),
        )

    def empty_because(self) -> dict[str, str]:
        """Return folder → why the interval is published empty; the text is equal in every run.

        Raises:
            WindowOpenError: The wait has not ended.
            LogsMissingError: The wait has ended, and the interval may not be empty.
        """
        self.require_decided()
        if self._logs.missing != "empty":
            raise self._incomplete
        return {self._path: f"missing: {self._why()}"}

    @property
    def _path(self) -> str:
        """The folder as the specification names it, independent of the connection."""
        return expand_path(self._logs.path, self._interval)

    def _why(self) -> str:
        until = format_time(deadline(self._logs, self._interval))
        return f"{self._incomplete.reason}; it was waited for until {until}"

    def _is_bare(self) -> bool:
        try:
            return not self._folder.list(broken=True)
        except NotFoundError:
            return not self._folder.exists()

    def _missing(self, remedy: str) -> LogsMissingError:
        since = format_time(ready_at(self._interval, self._logs.settle))
        until = format_time(deadline(self._logs, self._interval))
        found = f"folder {self._folder.uri} is not complete: {self._incomplete.reason}"
        found = "; ".join([found, *self._beside()])
        ready = self._incomplete.ready_at
        if ready is None:
            advice = f"let them be written and run again, or {remedy}"
        else:  # the logs are there, and leaving them out would lose them
            advice = f"only time is missing: run again after {format_time(ready)}"
        return LogsMissingError(
            f"expected the logs of {self._name}, waited for from {since} to {until}"
            f" (source.logs.wait), got none: {found}; nothing was read or written; {advice}"
        )

    def _beside(self) -> Iterator[str]:
        """Yield the names beside the missing folder: they show a misspelt path."""
        parent, wanted = self._folder, ""
        try:
            while not parent.exists() and parent.name:
                parent, wanted = parent.parent, parent.name
            names = [info.name for info in parent.list()] if wanted else []
        except StorageError:
            return  # the message is complete without the names, which only help to find the cause
        digits = _digits(wanted)
        same = [name for name in names if digits and _digits(name) == digits]
        near = same or get_close_matches(wanted, names, _NEIGHBOURS, cutoff=0.0)
        if near:
            hint = ", of the same digits: is source.logs.path right?" if same else ""
            yield f"{parent.uri} has {', '.join(sorted(near))}{hint}"
        elif wanted:
            yield f"{parent.uri} is empty"


def _digits(text: str) -> str:
    return "".join(filter(str.isdigit, text))
