"""Something that an interval waits for: the end of the wait, and what is decided then.

The wait ends ``settle`` and ``wait`` after the interval's end, a time that interval and
specification give. Schedule, trigger, backfill and command line therefore decide alike, and an old
interval is decided at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from trainfeed.dataset import Skip
from trainfeed.errors import SourceMissingError, WindowOpenError
from trainfeed.intervals import Interval, format_time, ready_at
from trainfeed.specification import DatasetSpec, MissingRule

__all__ = ["Awaited"]


@dataclass(frozen=True)
class Awaited:
    """A topic, or the uploads, that an interval waits for.

    Attributes:
        dataset: Name of the data set.
        interval: The interval.
        settle: Time after the end of the interval before which it is not planned.
        setting: Place in dataset.yaml, such as ``source.recorded``.
        rule: The policy there.
    """

    dataset: str
    interval: Interval
    settle: timedelta
    setting: str
    rule: MissingRule

    @classmethod
    def of(cls, spec: DatasetSpec, interval: Interval, setting: str, rule: MissingRule) -> Awaited:
        """Return what an interval of a data set waits for."""
        return cls(spec.name, interval, spec.source.kind.settle, setting, rule)

    @property
    def until(self) -> datetime:
        """The aware UTC time at which the wait ends."""
        return ready_at(self.interval, self.settle) + self.rule.wait

    @property
    def since(self) -> str:
        """What was waited for and when, as a part of a sentence; equal in every run."""
        return f"it was waited for until {format_time(self.until)}"

    def is_over(self, now: datetime) -> bool:
        """Return whether the wait has ended."""
        return now >= self.until

    def not_yet(self, why: str) -> WindowOpenError:
        """Return the error of an interval whose wait has not ended.

        Args:
            why: What is missing, as a part of a sentence.
        """
        error = WindowOpenError(
            f"interval {self.interval.name} of data set {self.dataset!r} waits until"
            f" {format_time(self.until)} ({self.setting}: wait): {why}; nothing was read or"
            " published; run again later, or shorten the wait"
        )
        error.until = self.until
        error.reason = why
        return error

    def missing(self, why: str, remedy: str = "") -> SourceMissingError:
        """Return the error of an interval whose wait has ended, and that may not be missing.

        Args:
            why: What is missing, as a part of a sentence.
            remedy: What to do besides the setting, as a part of a sentence that ends with "or ".
        """
        return SourceMissingError(
            f"expected records for {self.dataset}/{self.interval.name}, waited for until"
            f" {format_time(self.until)} ({self.setting}: wait), got none: {why}; nothing was read"
            f" or published; {remedy}decide with 'missing: empty' or 'missing: skip' of"
            f" {self.setting} in dataset.yaml"
        )

    def skip(self, why: str, now: datetime) -> Skip:
        """Return the decision to leave the interval out."""
        return Skip(
            self.interval.name,
            why,
            format_time(now),
            format_time(self.until),
            start=format_time(self.interval.start),
            end=format_time(self.interval.end),
        )
