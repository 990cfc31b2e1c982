"""The offset ranges of an interval, and the decision about topics or records that are missing."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from trainfeed.core.config import Environment, KafkaSettings
from trainfeed.core.intervals import Interval, Schedule, format_time, ready_at
from trainfeed.errors import (
    ConfigError,
    SourceMissingError,
    TopicNotFoundError,
    TransactionOpenError,
    WindowOpenError,
)
from trainfeed.files.stores import Location
from trainfeed.pipeline.inputs.boundaries import (
    TopicWindow,
    keep_boundaries,
    look_for_boundary,
    require_in_order,
    resolve_boundary,
    transaction_open,
)
from trainfeed.pipeline.inputs.boundary_files import Boundary, milliseconds
from trainfeed.pipeline.inputs.boundary_proofs import (
    UNPROVEN,
    last_proved,
    nothing_was_deleted,
    reasons,
    require_empty_proved,
)
from trainfeed.pipeline.inputs.recorded_edges import Loss, require_recorded, without
from trainfeed.pipeline.landed_ranges import is_landed
from trainfeed.pipeline.plans import Planned, PlannedInput, cut, first_few, replaced_inputs
from trainfeed.sources import RecordedTopic, Topic, TopicIdentity, open_topic
from trainfeed.specification import RECORDED, DatasetSpec, MissingRule, TopicPart
from trainfeed.versions import DatasetFolder, Manifest, Skip

# --- Something that an interval waits for: the end of the wait, and what is decided then


@dataclass(frozen=True)
class Awaited:
    """A topic, a folder of logs, or the uploads, that an interval waits for.

    Attributes:
        dataset: Name of the data set.
        interval: The interval.
        settle: Time after the end of the interval before which it is not planned.
        setting: Place in dataset.yaml, such as ``source.recorded``.
        rule: The policy there.
        ended_by: What has ended the wait before its time, as a part of a sentence; None if nothing.
    """

    dataset: str
    interval: Interval
    settle: timedelta
    setting: str
    rule: MissingRule
    ended_by: str | None = None

    @classmethod
    def of(cls, spec: DatasetSpec, interval: Interval, setting: str, rule: MissingRule) -> Awaited:
        """Return what an interval of a data set waits for."""
        return cls(spec.name, interval, spec.source.kind.settle, setting, rule)

    @property
    def ready_at(self) -> datetime:
        """The aware UTC time at which the interval has ended and settled, and the wait begins."""
        return ready_at(self.interval, self.settle)

    @property
    def until(self) -> datetime:
        """The aware UTC time at which the wait ends."""
        return self.ready_at + self.rule.wait

    @property
    def since(self) -> str:
        """What was waited for, and until when; equal in all runs unless the wait ended early."""
        if self.ended_by is not None:
            return f"nothing waits any longer, as {self.ended_by}"
        return f"it was waited for until {format_time(self.until)}"

    def is_over(self, now: datetime) -> bool:
        """Return whether the wait has ended."""
        return self.ended_by is not None or now >= self.until

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
        waited = f"waited for until {format_time(self.until)} ({self.setting}: wait)"
        if self.ended_by is not None:
            waited = f"for which {self.since}"
        return SourceMissingError(
            f"expected records for {self.dataset}/{self.interval.name}, {waited}, got none: {why};"
            f" nothing was read or published; {remedy}decide with 'missing: empty' or 'missing:"
            f" skip' of {self.setting} in dataset.yaml"
        )

    def skip(self, why: str, now: datetime) -> Skip:
        """Return the decision to leave the interval out."""
        return Skip(
            self.interval.name,
            why,
            format_time(now),
            format_time(self.until if self.ended_by is None else now),
            start=format_time(self.interval.start),
            end=format_time(self.interval.end),
        )


# --- Opens the topics of a specification: topics of a cluster, and recorded ones


def open_source(env: Environment, connection: str, topic: str) -> Topic:
    """Open a topic by the connection string of the plan.

    Raises:
        ConfigError: The connection is not defined.
        TopicNotFoundError: The topic is not there.
    """
    if connection.startswith(RECORDED):
        return RecordedTopic(Location.parse(connection.removeprefix(RECORDED)))
    settings: KafkaSettings | None = env.kafka.get(connection)
    if settings is None:
        raise ConfigError(
            f"connection {connection!r} is not defined, known are {sorted(env.kafka)}; define it"
            " (outside of Airflow in the file that TRAINFEED_CONNECTIONS names), or change"
            " source.kafka.connection in dataset.yaml"
        )
    return open_topic(settings, topic)


@contextmanager
def placed(setting: str) -> Iterator[None]:
    """Add its place in dataset.yaml to the error of a topic that is not there."""
    try:
        yield
    except TopicNotFoundError as error:
        error.setting = setting
        raise


def topics_of(spec: DatasetSpec) -> Iterator[tuple[str, str, TopicPart]]:
    """Yield connection, name and specification of every topic; none for other kinds of source."""
    for source in spec.all_sources:
        for topic in source.kind.topics:
            yield topic.place(spec.folder), topic.topic, topic


# --- Decides about an interval without a record of a topic, and about a topic that is not there


def identities_beside(
    spec: DatasetSpec, env: Environment, topic: Topic
) -> tuple[TopicIdentity, ...]:
    """Return the topics of the other members of a union that have the name of a topic.

    They are told apart from an earlier topic of that name, which was deleted. A topic that is not
    there is left out: its own member says so.
    """
    name, found = topic.identity.topic, list[TopicIdentity]()
    for part in spec.topics_beside:
        if part.topic not in {"", name}:
            continue
        place = part.place(spec.folder), part.topic
        with suppress(TopicNotFoundError), closing(open_source(env, *place)) as other:
            found.append(other.identity)
    return tuple(each for each in found if each.topic == name)


def require_come(  # noqa: PLR0913 - an interval of a topic
    spec: DatasetSpec,
    interval: Interval,
    part: TopicPart,
    folder: DatasetFolder,
    topic: Topic,
    *,
    clock_ms: int,
    beside: Collection[TopicIdentity] = (),
) -> None:
    """Refuse to fix the boundaries of an interval while a first record of it may still come.

    Args:
        spec: The data set.
        interval: The interval.
        part: The topic in the specification.
        folder: The data set below the publication root.
        topic: The open topic.
        clock_ms: Time of planning, milliseconds since 1970.
        beside: Topics of the other members of a union that have its name.

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
        look_for_boundary(folder, topic, at, skew_ms=skew_ms, clock_ms=clock_ms, beside=beside)
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


# --- The offset ranges of an interval, and whether the topics still hold them

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
        if nothing_was_deleted(self._folder, topic, start, partition, log_start, window.beside):
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


class AbsentTopic(TopicInputs):
    """The inputs of an interval with a topic that is not there: nobody knows its ranges.

    Args:
        absence: The rules for the interval.
        env: Folders and connections.
        error: The error of the topic.
    """

    def __init__(self, absence: TopicAbsence, env: Environment, error: TopicNotFoundError) -> None:
        super().__init__(absence.spec, env, [])
        self._rules = absence
        self._error = error

    def inputs(self, current: Manifest | None) -> dict[str, PlannedInput]:  # noqa: ARG002
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
        spec, now = self._rules.spec, self._rules.now
        part = next(each for each in spec.source.kind.topics if each.setting == self._error.setting)
        awaited = Awaited.of(spec, self._rules.interval, part.setting, part.missing_rule)
        if not awaited.is_over(now):
            raise awaited.not_yet(str(self._error))
        raise self._error


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
                beside = identities_beside(spec, env, topic)
                require_come(spec, interval, kept, folder, topic, clock_ms=clock_ms, beside=beside)
                _warn_of_compaction(topic, name)
                resolver = _Resolver(
                    spec.schedule_model(), folder, topic, kept.skew, clock_ms, places, beside
                )
                start, end = resolver.resolve(interval.start), resolver.resolve(interval.end)
            if start is not None and end is not None:
                windows.append(TopicWindow(topic, connection, start, end, beside))
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
    beside: tuple[TopicIdentity, ...] = ()

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
                beside=self.beside,
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
