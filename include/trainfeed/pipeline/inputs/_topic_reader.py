"""Plans and reads topics, from a broker or from a folder of recorded topics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa

from trainfeed.config import Environment
from trainfeed.dataset import DatasetFolder
from trainfeed.errors import SourceReplacedError, TopicNotFoundError
from trainfeed.intervals import Interval
from trainfeed.pipeline.inputs._open_source import open_source
from trainfeed.pipeline.inputs._source_reader import Head, Inputs, SourceReader
from trainfeed.pipeline.inputs._topic_absence import AbsentTopic, TopicAbsence
from trainfeed.pipeline.inputs._topic_inputs import TopicInputs, open_topics
from trainfeed.pipeline.plans import PlannedInput, PlannedRange
from trainfeed.pipeline.stage import Stage
from trainfeed.sources import Topic
from trainfeed.specification import DatasetSpec

__all__ = ["TopicReader"]


class TopicReader(SourceReader):
    """Reads ranges of offsets, and compares the identity of the topic at each of them."""

    @contextmanager
    def open(
        self, spec: DatasetSpec, env: Environment, folder: DatasetFolder, interval: Interval
    ) -> Iterator[Inputs]:
        """Open every topic, and resolve both boundaries of the interval.

        Raises:
            IngestError: A broker does not answer.
            TransactionOpenError: Open transactions may hide records of the interval.
            WindowOpenError: A topic has no record of the interval, and is waited for.
        """
        absence = TopicAbsence(spec, interval, datetime.now(UTC))
        found: Inputs
        with ExitStack() as stack:
            try:
                windows = stack.enter_context(open_topics(spec, env, folder, interval))
                found = TopicInputs(spec, env, windows, absence)
            except TopicNotFoundError as error:
                # No error yet: the interval may be published already, or the rule may skip it.
                found = AbsentTopic(absence, error)
            yield found

    def check(self, stage: Stage, sources: Iterable[str]) -> None:
        """Do nothing: ``batches`` compares the identity of the topic."""

    def batches(self, stage: Stage, piece: PlannedRange) -> Iterator[pa.RecordBatch]:
        """Yield the records of a range of offsets.

        Raises:
            SourceReplacedError: The topic is not the one that was planned.
            OffsetOutOfRangeError: Retention deleted records of the range.
            IngestError: The broker does not answer.
        """
        planned = _planned(stage, piece)
        with closing(open_source(stage.env, planned.connection, planned.topic)) as topic:
            _check_identity(topic, planned)
            yield from topic.iter_batches(planned.partition, piece.start, piece.end)

    def head(
        self,
        spec: DatasetSpec,  # noqa: ARG002 - any range of offsets can be read
        interval: Interval,  # noqa: ARG002
        env: Environment,
        place: Path,  # noqa: ARG002
        limit: int,  # noqa: ARG002
    ) -> Head:
        """Return ``env``: the first offsets of a range can be read without a copy."""
        return Head(env)


def _planned(stage: Stage, piece: PlannedRange) -> PlannedInput:
    planned = stage.plan.inputs[piece.source]
    if not isinstance(planned, PlannedInput):
        raise TypeError(f"expected {piece.source} to be a topic")
    return planned


def _check_identity(topic: Topic, planned: PlannedInput) -> None:
    found = topic.identity
    if (found.uuid, found.cluster) != (planned.topic_uuid, planned.cluster):
        raise SourceReplacedError(
            f"topic {planned.topic!r} was replaced since the plan was made: planned"
            f" {planned.topic_uuid} in cluster {planned.cluster}, found {found.uuid} in cluster"
            f" {found.cluster}; landed ranges and published versions are kept; run the build again"
            " to build from the new topic"
        )
