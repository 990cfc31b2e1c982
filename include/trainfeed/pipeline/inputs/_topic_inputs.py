"""The offset ranges of an interval, and whether the topics still hold them."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from trainfeed.config import Environment
from trainfeed.dataset import DatasetFolder, Manifest, Skip
from trainfeed.errors import ConfigError, TransactionOpenError
from trainfeed.intervals import Interval, Schedule, ready_at
from trainfeed.pipeline.boundaries import (
    Boundary,
    Loss,
    TopicWindow,
    is_proved,
    keep_boundaries,
    last_proved,
    milliseconds,
    reasons,
    require_empty_proved,
    require_in_order,
    require_recorded,
    resolve_boundary,
    transaction_open,
    without,
)
from trainfeed.pipeline.inputs._open_source import open_source, placed, topics_of
from trainfeed.pipeline.inputs._topic_absence import TopicAbsence, require_come
from trainfeed.pipeline.plans import Planned, PlannedInput, cut, is_landed, replaced_inputs
from trainfeed.sources import Topic
from trainfeed.specification import DatasetSpec
from trainfeed.storage import Location

__all__ = ["TopicInputs", "TopicWindow", "open_topics", "resolve_inputs"]

logger = logging.getLogger(__name__)


class TopicInputs:
    """The offset ranges of one interval, as ``Inputs`` of the planner.

    Args:
        spec: The data set.
        env: Folders and connections.
        windows: The open topics.
        absence: The rules for an interval without a record of a topic; None to build it.
    """

    marker: str | None = None
    passed_over: Mapping[str, str] = MappingProxyType({})

    def __init__(
        self,
        spec: DatasetSpec,
        env: Environment,
        windows: list[TopicWindow],
        absence: TopicAbsence | None = None,
    ) -> None:
        self._absence = absence
        self._spec = spec
        self._env = env
        self._windows = windows
        self._is_in_order = False
        self._folder = DatasetFolder(Path(env.root), spec.name)

    def inputs(self, current: Manifest | None) -> dict[str, PlannedInput]:
        """Return the planned ranges, without the gaps of the published version.

        Raises:
            ConfigError: One topic name came from two clusters.
        """
        inputs = resolve_inputs(self._windows)
        for gap in self._known_gaps(current):
            # The loss was accepted for the published version: the range begins behind it.
            planned = inputs[gap["source"]]
            start = min(max(planned.start, gap["end"]), planned.end)
            inputs[gap["source"]] = planned.model_copy(update={"start": start})
        return inputs

    def skip(self) -> Skip | None:
        """Return the decision to skip an interval without a record of a topic, or None.

        Raises:
            SourceMissingError: A topic has no record of the interval, and has to have one.
            ConflictError: The boundaries contradict those of other times.
        """
        if self._absence is None:
            return None
        self._require_in_order()
        return self._absence.skip(self._windows, self._lost)

    def without_losses(
        self, current: Manifest | None, allow_gap: str | None
    ) -> tuple[dict[str, PlannedInput], list[dict[str, Any]]]:
        """Return the ranges that the topics still hold, and all gaps that were allowed.

        Raises:
            OffsetOutOfRangeError: Retention deleted records of the interval, or may have.
            EmptyUnprovenError: Nothing would be read, and nothing proves the interval empty.
            ConflictError: The boundaries contradict those of other times.
        """
        self._require_in_order()
        inputs = self.inputs(current)
        known = self._known_gaps(current)
        losses = [loss for loss in self._losses(inputs) if not loss.is_in(known)]
        if current is not None and replaced_inputs(current, inputs):
            # A rebuild from another topic was asked for: losses of the earlier topic are accepted.
            losses = [loss for loss in losses if not loss.is_of_earlier_topic]
        kept, gaps = without(losses, inputs, known, allow_gap=allow_gap)
        if allow_gap is None:
            require_empty_proved(self._windows, kept)
        return kept, gaps

    def empty_because(self, inputs: Mapping[str, Planned], allow_gap: str | None) -> dict[str, str]:
        """Return source → why nothing is read of it; empty if anything is read."""
        return reasons(self._windows, inputs, allow_gap)

    def confirm(self) -> None:
        """Write boundary files again that retention removed before the plan was there."""
        keep_boundaries(self._folder, self._windows)

    def _require_in_order(self) -> None:
        if not self._is_in_order:
            require_in_order(self._folder, self._windows)
            self._is_in_order = True

    def _lost(self, window: TopicWindow) -> list[str]:
        """Return the records of a topic that retention deleted or may have deleted."""
        sources = dict(window.inputs())
        return [str(loss) for loss in self._losses(self.inputs(None)) if loss.source in sources]

    def _losses(self, inputs: Mapping[str, PlannedInput]) -> Iterator[Loss]:
        for window in self._windows:
            states = window.topic.states()
            for source, whole in window.inputs():
                log_start = states[whole.partition].log_start
                loss = self._loss(window, source, inputs[source], log_start)
                if loss is not None:
                    yield loss

    def _loss(
        self, window: TopicWindow, source: str, planned: PlannedInput, log_start: int
    ) -> Loss | None:
        lost = min(log_start, planned.end)
        is_lost = planned.start < lost and not self._is_landed(source, planned)
        topic, start, partition = window.topic, window.start, planned.partition
        # Only a proved start boundary limits the loss to the planned range: landing files say
        # nothing about records before the range.
        if is_proved(self._folder, topic, start, partition, log_start):
            return Loss(source, planned.start, lost, is_certain=True) if is_lost else None
        found = start.partitions[partition]
        # The loss may reach from the last proved boundary to the largest offset at which
        # something may be missing: the log start when the boundary was found, the boundary itself
        # if the log began at 0 (the topic may be a new one), and the loss of the range.
        ends = [
            found.log_start,
            found.offset if found.log_start == 0 else 0,
            lost if is_lost else 0,
        ]
        first = last_proved(self._folder, topic, start.at, partition)
        return Loss(source, min(first, max(ends)), max(ends), is_certain=False)

    def _known_gaps(self, current: Manifest | None) -> list[dict[str, Any]]:
        """Return the gaps of the published version; none if its topics were replaced."""
        inputs = resolve_inputs(self._windows)
        if current is None or replaced_inputs(current, inputs):
            return []
        return [gap for gap in current.gaps if gap["source"] in inputs]

    def _is_landed(self, source: str, planned: PlannedInput) -> bool:
        pieces = cut({source: planned}, self._spec.resources.records_per_task)
        landing = Location.parse(self._env.landing)
        # An empty range proves nothing: its records may be the ones that were deleted.
        return bool(pieces) and all(is_landed(landing, planned, piece) for piece in pieces)


@contextmanager
def open_topics(
    spec: DatasetSpec,
    env: Environment,
    folder: DatasetFolder,
    interval: Interval,
    *,
    clock_ms: int | None = None,
) -> Iterator[list[TopicWindow]]:
    """Open every topic of the spec and resolve both boundaries of the interval.

    Args:
        spec: The data set.
        env: Folders and connections.
        folder: The data set below the publication root.
        interval: The interval.
        clock_ms: Time of planning, milliseconds since 1970; the present time by default.

    Raises:
        TopicNotFoundError: A topic is not there; the error has its place in dataset.yaml.
        TransactionOpenError: Open transactions may hide records of the interval; the message
            names all partitions of all topics.
        WindowOpenError: A topic has no record of the interval, and is waited for.
    """
    clock_ms = milliseconds(datetime.now(UTC)) if clock_ms is None else clock_ms
    with ExitStack() as stack:
        windows, places = [], list[str]()
        for connection, name, kept in topics_of(spec):
            with placed(kept.setting):
                topic = stack.enter_context(closing(open_source(env, connection, name)))
                require_come(spec, interval, kept, folder, topic, clock_ms)
                _warn_of_compaction(topic, name)
                resolver = _Resolver(
                    spec.schedule_model(), folder, topic, kept.skew, clock_ms, places
                )
                start, end = resolver.resolve(interval.start), resolver.resolve(interval.end)
            if start is not None and end is not None:
                windows.append(TopicWindow(topic, connection, start, end))
        # The error waits for the last topic, so that its message names all partitions.
        if places:
            error = transaction_open(places)
            kind = spec.source.kind
            error.wait = max(topic.transaction_wait for topic in kind.topics)
            error.since = ready_at(interval, kind.settle)
            raise error
        yield windows


def _warn_of_compaction(topic: Topic, name: str) -> None:
    """Log that a build of a compacted topic cannot be repeated, and lacks what is gone already."""
    if topic.is_compacted:
        logger.warning(
            "topic %s is compacted (cleanup.policy): the broker deletes records that a later one"
            " with the same key supersedes, also those of past intervals, and no build can tell"
            " which are gone; a later build of the same interval has fewer records; landing files"
            " keep what was read; for a log of events set cleanup.policy=delete",
            name,
        )


@dataclass(frozen=True)
class _Resolver:
    """Resolves boundaries of one topic, and collects the partitions with an open transaction."""

    schedule: Schedule
    folder: DatasetFolder
    topic: Topic
    skew: timedelta
    clock_ms: int
    places: list[str]

    def resolve(self, at: datetime) -> Boundary | None:
        skew_ms = int(self.skew / timedelta(milliseconds=1))
        try:
            return resolve_boundary(
                self.folder,
                self.topic,
                at,
                skew_ms=skew_ms,
                clock_ms=self.clock_ms,
                require=partial(require_recorded, self.folder, self.schedule, self.topic.identity),
            )
        except TransactionOpenError as error:
            self.places.extend(error.places)
            return None


def resolve_inputs(windows: list[TopicWindow]) -> dict[str, PlannedInput]:
    """Return source string → planned range.

    Raises:
        ConfigError: One topic name came from two clusters.
    """
    inputs: dict[str, PlannedInput] = {}
    for window in windows:
        for source, planned in window.inputs():
            if source in inputs:
                raise ConfigError(
                    f"topic {planned.topic!r} stands twice in the data set's source, and two"
                    " records would get one position: name the topic once"
                )
            inputs[source] = planned
    return inputs
