"""Which offset ranges an interval covers, and whether the topics still hold them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from trainfeed.build._boundaries import Boundary, resolve_boundary
from trainfeed.build._landing import is_landed
from trainfeed.build._pieces import cut
from trainfeed.build._planned import Planned, PlannedInput, replaced_inputs
from trainfeed.config import Environment, KafkaSettings
from trainfeed.dataset import DatasetFolder, Manifest, Skip
from trainfeed.dataset.identity import kafka_source
from trainfeed.errors import ConfigError, IngestError, OffsetOutOfRangeError
from trainfeed.sources import RecordedTopic, Topic, open_topic
from trainfeed.spec import DatasetSpec
from trainfeed.storage import Location
from trainfeed.window import Interval

__all__ = [
    "TopicInputs",
    "TopicWindow",
    "open_source",
    "open_topics",
    "resolve_inputs",
    "retained",
]

# Names a recorded topic of the spec where a connection would stand.
_RECORDED: Final = "recorded:"


@dataclass(frozen=True)
class TopicWindow:
    """An open topic, and where it stood at both ends of the interval."""

    topic: Topic
    connection: str
    start: Boundary
    end: Boundary

    def inputs(self) -> Iterator[tuple[str, PlannedInput]]:
        """Yield source string and planned range of every partition."""
        identity = self.topic.identity
        for partition in sorted(self.end.partitions):
            first, last = self.start.offset(partition), self.end.offset(partition)
            if first > last:
                raise IngestError(
                    f"boundaries of topic {identity.topic!r} partition {partition} are in the"
                    f" wrong order: {first} at {self.start.at}, {last} at {self.end.at}; look into"
                    " the data set's boundaries folder"
                )
            yield (
                kafka_source(identity.topic, partition),
                PlannedInput(
                    connection=self.connection,
                    topic=identity.topic,
                    topic_uuid=identity.uuid,
                    cluster=identity.cluster,
                    partition=partition,
                    start=first,
                    end=last,
                ),
            )


def open_source(env: Environment, connection: str, topic: str) -> Topic:
    """Open a topic the way the plan names it.

    Raises:
        ConfigError: The connection is not defined.
        TopicNotFoundError: The topic is not there.
    """
    if connection.startswith(_RECORDED):
        return RecordedTopic(Location.parse(connection.removeprefix(_RECORDED)))
    settings: KafkaSettings | None = env.kafka.get(connection)
    if settings is None:
        raise ConfigError(
            f"connection {connection!r} is not defined, known are {sorted(env.kafka)}; define it"
            " (outside of Airflow in the file that TRAINFEED_CONNECTIONS names), or change"
            " source.kafka.connection in dataset.yaml"
        )
    return open_topic(settings, topic)


class TopicInputs:
    """The offset ranges of one interval, as the planner wants them.

    Args:
        spec: The data set.
        env: Where things are.
        windows: The open topics.
    """

    marker: str | None = None

    def __init__(self, spec: DatasetSpec, env: Environment, windows: list[TopicWindow]) -> None:
        self._spec = spec
        self._env = env
        self._windows = windows

    def inputs(self, current: Manifest | None) -> dict[str, PlannedInput]:
        """Return the planned ranges, without the gaps that the published version knows.

        Raises:
            ConfigError: One topic name came from two clusters.
        """
        inputs = resolve_inputs(self._windows)
        for gap in self._known_gaps(current):
            planned = inputs[gap["source"]]
            start = min(max(planned.start, gap["end"]), planned.end)
            inputs[gap["source"]] = planned.model_copy(update={"start": start})
        return inputs

    def skip(self) -> Skip | None:
        """Return None: a topic that is not there is an error."""
        return None

    def empty_because(self, inputs: Mapping[str, Planned]) -> dict[str, str]:  # noqa: ARG002
        """Return nothing: an empty range is read like any other."""
        return {}

    def without_losses(
        self, current: Manifest | None, allow_gap: str | None
    ) -> tuple[dict[str, PlannedInput], list[dict[str, Any]]]:
        """Return what the topics still hold, and all gaps that somebody allowed.

        Raises:
            OffsetOutOfRangeError: Retention deleted records of the interval, or may have.
        """
        inputs = self.inputs(current)
        known = self._known_gaps(current)
        return retained(self._windows, inputs, self._is_landed, known, allow_gap=allow_gap)

    def _known_gaps(self, current: Manifest | None) -> list[dict[str, Any]]:
        """Return the gaps of the published version, as far as its topics are still there."""
        inputs = resolve_inputs(self._windows)
        if current is None or replaced_inputs(current, inputs):
            return []
        return [gap for gap in current.gaps if gap["source"] in inputs]

    def _is_landed(self, source: str, planned: PlannedInput) -> bool:
        pieces = cut({source: planned}, self._spec.resources.records_per_task)
        landing = Location.parse(self._env.landing)
        # An empty range proves nothing: its records may be those that were deleted.
        return bool(pieces) and all(is_landed(landing, planned, piece) for piece in pieces)


@contextmanager
def open_topics(
    spec: DatasetSpec, env: Environment, folder: DatasetFolder, interval: Interval
) -> Iterator[list[TopicWindow]]:
    """Open every topic of the spec and resolve both boundaries of the interval."""
    with ExitStack() as stack:
        windows = []
        for connection, name, skew in _topics(spec):
            topic = stack.enter_context(closing(open_source(env, connection, name)))
            skew_ms = int(skew / timedelta(milliseconds=1))
            start, end = (
                resolve_boundary(folder, topic, at, skew_ms=skew_ms)
                for at in (interval.start, interval.end)
            )
            windows.append(TopicWindow(topic, connection, start, end))
        yield windows


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
                    f"topic {planned.topic!r} stands twice in the data set's source; positions"
                    " would clash: name it once"
                )
            inputs[source] = planned
    return inputs


@dataclass(frozen=True)
class _Loss:
    """Offsets ``[start, end)`` of a source that are gone, or may be."""

    source: str
    start: int
    end: int
    proven: bool

    def __str__(self) -> str:
        what = "were deleted" if self.proven else "may have been deleted"
        return f"{self.source} offsets [{self.start}, {self.end}) {what}"


def retained(
    windows: list[TopicWindow],
    inputs: Mapping[str, PlannedInput],
    is_landed: Callable[[str, PlannedInput], bool],
    known: Sequence[Mapping[str, Any]],
    *,
    allow_gap: str | None,
) -> tuple[dict[str, PlannedInput], list[dict[str, Any]]]:
    """Return what can be read of the inputs, and all gaps that somebody allowed.

    Args:
        windows: The topics.
        inputs: The ranges, those of ``known`` gaps left out already.
        is_landed: Tells whether complete landing files cover the range of a source. It reads them
            all, so it is asked only where the topic has lost something.
        known: Gaps of the published version.
        allow_gap: Why further loss is accepted, or None to refuse any.

    Raises:
        OffsetOutOfRangeError: Retention deleted records of the interval, or nobody can prove that
            it did not.
    """
    losses = [
        loss
        for window in windows
        for source, _ in window.inputs()
        if (loss := _loss(window, source, inputs[source], is_landed)) is not None
        and not any(gap["source"] == source and gap["end"] >= loss.end for gap in known)
    ]
    if losses and allow_gap is None:
        raise OffsetOutOfRangeError(
            "retention is past the interval: "
            + "; ".join(map(str, losses))
            + "; nothing was read or published; restore the records, or accept the loss with"
            " --allow-gap WHY (Airflow: parameter 'allow_gap')"
        )
    kept = dict(inputs)
    gaps = [dict(gap) for gap in known]
    for loss in losses:
        planned = kept[loss.source]
        start = min(max(planned.start, loss.end), planned.end)
        kept[loss.source] = planned.model_copy(update={"start": start})
        gaps.append({"source": loss.source, "start": loss.start, "end": loss.end, "why": allow_gap})
    return kept, gaps


def _loss(
    window: TopicWindow,
    source: str,
    planned: PlannedInput,
    is_landed: Callable[[str, PlannedInput], bool],
) -> _Loss | None:
    log_start, _ = window.topic.log_range(planned.partition)
    if planned.start < min(log_start, planned.end) and not is_landed(source, planned):
        return _Loss(source, planned.start, min(log_start, planned.end), proven=True)
    # What has landed says nothing of records before it.
    unproven = window.start.unproven(planned.partition)
    if unproven is not None:
        return _Loss(source, 0, unproven.log_start, proven=False)
    return None


def _topics(spec: DatasetSpec) -> Iterator[tuple[str, str, timedelta]]:
    """Yield connection, topic and believed skew of every topic of the spec."""
    if spec.source.recorded is not None:
        uri = spec.source.recorded.location(spec.folder)
        yield f"{_RECORDED}{uri}", "", spec.source.recorded.skew
    for topic in spec.source.kafka:
        yield topic.connection, topic.topic, topic.skew
