"""Decides about an interval without a record of a topic, and about a topic that is not there.

A boundary file never changes. While a first record of the interval may still come, its boundaries
are therefore only looked at, and no file is written: a record that comes within the wait is in the
interval. The wait ends early when the next interval has records, because they fix the boundary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any

from trainfeed.dataset import DatasetFolder, Manifest, Skip
from trainfeed.errors import TopicNotFoundError
from trainfeed.intervals import Interval
from trainfeed.pipeline.boundaries import (
    UNPROVEN,
    Boundary,
    TopicWindow,
    look_for_boundary,
    reasons,
)
from trainfeed.pipeline.inputs._awaited import Awaited
from trainfeed.pipeline.plans import Planned, PlannedInput, first_few
from trainfeed.sources import Topic
from trainfeed.specification import DatasetSpec, TopicPart

__all__ = ["AbsentTopic", "TopicAbsence", "require_come"]


def require_come(
    spec: DatasetSpec,
    interval: Interval,
    part: TopicPart,
    folder: DatasetFolder,
    topic: Topic,
    clock_ms: int,
) -> None:
    """Refuse to fix the boundaries of an interval while a first record of it may still come.

    Args:
        spec: The data set.
        interval: The interval.
        part: The topic in the specification.
        folder: The data set below the publication root.
        topic: The open topic.
        clock_ms: Time of planning, milliseconds since 1970.

    Raises:
        WindowOpenError: The topic has no record of the interval or behind it, and the wait for the
            first one has not ended.
    """
    awaited = Awaited.of(spec, interval, part.setting, part.missing_rule)
    identity = topic.identity
    is_fixed = folder.boundary(identity.topic, identity.uuid, interval.end).exists()
    if is_fixed or awaited.is_over(datetime.fromtimestamp(clock_ms / 1000, UTC)):
        return
    skew_ms = int(part.skew / timedelta(milliseconds=1))
    start, end = (
        look_for_boundary(folder, topic, at, skew_ms=skew_ms, clock_ms=clock_ms)
        for at in (interval.start, interval.end)
    )
    if _may_come(start, end):
        raise awaited.not_yet(f"topic {identity.topic!r} has no record of it yet")


def _may_come(start: Boundary, end: Boundary) -> bool:
    """Return whether an interval has no record, and a partition whose next one may be its first."""
    is_bare = all(start.offset(number) == found.offset for number, found in end.partitions.items())
    # An open transaction is another reason to wait, with an error of its own.
    is_settled = all(found.is_settled for found in end.partitions.values())
    return is_bare and is_settled and any(f.offset == f.log_end for f in end.partitions.values())


@dataclass(frozen=True)
class TopicAbsence:
    """The rules of the topics of an interval for the case that a topic has no record of it.

    Attributes:
        spec: The data set.
        interval: The interval.
        now: Aware UTC time.
    """

    spec: DatasetSpec
    interval: Interval
    now: datetime

    def skip(
        self, windows: Sequence[TopicWindow], lost: Callable[[TopicWindow], Sequence[str]]
    ) -> Skip | None:
        """Return the decision to skip the interval, or None if it is built.

        Args:
            windows: The open topics, in the order of the specification.
            lost: Function from a topic to the records that retention deleted or may have deleted,
                one line for each range.

        Raises:
            SourceMissingError: A topic has no record of the interval, and has to have one; or
                nothing proves that it has none, and the interval would be skipped.
        """
        absent = [
            (Awaited.of(self.spec, self.interval, part.setting, part.missing_rule), window)
            for part, window in zip(self.spec.source.kind.topics, windows, strict=True)
            if part.missing_rule.missing != "empty" and _is_bare(window)
        ]
        for awaited, window in absent:
            why = f"topic {window.topic.identity.topic!r} has no record of it"
            if awaited.rule.missing == "fail":
                raise awaited.missing(why, "let them be written into a later interval, or ")
            if unproved := [*lost(window), *_unproved(window)]:
                raise awaited.missing(
                    f"{why}, and 'missing: skip' needs a proof of that: {first_few(unproved)}",
                    "'trainfeed boundaries check' looks at the boundaries; or ",
                )
        for awaited, window in absent:
            return awaited.skip(_evidence(window, awaited), self.now)
        return None


def _is_bare(window: TopicWindow) -> bool:
    return all(planned.start == planned.end for _, planned in window.inputs())


def _reasons(window: TopicWindow) -> dict[str, str]:
    return reasons([window], dict(window.inputs()))


def _unproved(window: TopicWindow) -> Iterator[str]:
    for source, why in _reasons(window).items():
        if why == UNPROVEN:
            yield f"{source}: {why}"


def _evidence(window: TopicWindow, awaited: Awaited) -> str:
    found = first_few([f"{source}: {why}" for source, why in _reasons(window).items()])
    name = window.topic.identity.topic
    return f"topic {name!r} has no record of the interval ({found}); {awaited.since}"


class AbsentTopic:
    """A topic that is not there, as ``Inputs`` of the planner.

    Args:
        absence: The rules for the interval.
        error: The error of the topic.
    """

    marker: str | None = None
    passed_over: Mapping[str, str] = MappingProxyType({})

    def __init__(self, absence: TopicAbsence, error: TopicNotFoundError) -> None:
        self._absence = absence
        self._error = error

    def inputs(self, current: Manifest | None) -> Mapping[str, Planned]:  # noqa: ARG002
        """Raise the error of the topic; a published version is then found without it.

        Raises:
            TopicNotFoundError: Always.
        """
        raise self._error

    def skip(self) -> Skip | None:
        """Refuse to decide: a topic that is not there proves nothing, whatever the rule is.

        Its name may be misspelt, and an interval that is skipped looks decided.

        Raises:
            WindowOpenError: The topic may still be made.
            TopicNotFoundError: The wait has ended.
        """
        spec, now = self._absence.spec, self._absence.now
        part = next(each for each in spec.source.kind.topics if each.setting == self._error.setting)
        awaited = Awaited.of(spec, self._absence.interval, part.setting, part.missing_rule)
        if not awaited.is_over(now):
            raise awaited.not_yet(str(self._error))
        raise self._error

    def without_losses(
        self,
        current: Manifest | None,  # noqa: ARG002
        allow_gap: str | None,  # noqa: ARG002
    ) -> tuple[dict[str, PlannedInput], list[dict[str, Any]]]:
        """Raise the error of the topic: nothing can be read.

        Raises:
            TopicNotFoundError: Always.
        """
        raise self._error

    def empty_because(
        self,
        inputs: Mapping[str, Planned],  # noqa: ARG002
        allow_gap: str | None,  # noqa: ARG002
    ) -> dict[str, str]:
        """Raise the error of the topic: nothing is known.

        Raises:
            TopicNotFoundError: Always.
        """
        raise self._error

    def confirm(self) -> None:
        """Do nothing: no plan is made."""
