"""The reader of every kind of source, which plans and reads it, and proves what it has read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pyarrow as pa

from trainfeed.core.config import Environment
from trainfeed.core.intervals import Interval
from trainfeed.errors import ChecksumError, FormatError, SourceReplacedError, TopicNotFoundError
from trainfeed.pipeline.inputs.kept_inputs import KeptInputs
from trainfeed.pipeline.inputs.logs import (
    LogInputs,
    check_log_files,
    check_log_names,
    iter_log,
    with_log_heads,
)
from trainfeed.pipeline.inputs.protocols import Head, Inputs, SourceReader
from trainfeed.pipeline.inputs.row_files import kept_layouts
from trainfeed.pipeline.inputs.row_json import with_fields
from trainfeed.pipeline.inputs.tables import (
    TableInputs,
    check_data_files,
    iter_data_file,
    with_heads,
)
from trainfeed.pipeline.inputs.topics import (
    AbsentTopic,
    TopicAbsence,
    TopicInputs,
    open_source,
    open_topics,
)
from trainfeed.pipeline.inputs.unions import UnionInputs, UnionReader
from trainfeed.pipeline.landed_ranges import (
    REMEDY,
    is_of_range,
    landed_batches,
    landing_file,
    leaf_of,
    opened_landing,
    promised_leaf,
    remedy_in_errors,
)
from trainfeed.pipeline.plans import PlannedFile, PlannedInput, PlannedRange
from trainfeed.pipeline.stage import Stage
from trainfeed.sources import Topic
from trainfeed.specification import (
    DatasetSpec,
    IcebergSourceSpec,
    KafkaTopics,
    LogsSourceSpec,
    RecordedSourceSpec,
    SourceKind,
    UnionSource,
)
from trainfeed.versions import DatasetFolder, Leaf
from trainfeed.versions.order import source_hash, split_member

# --- Plans and reads topics, from a broker or from a folder of recorded topics


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
                found = AbsentTopic(absence, env, error)
            yield found

    def check_names(self, stage: Stage, pieces: Iterable[PlannedRange]) -> None:
        """Do nothing: a plan has each partition, and says where its range ends."""

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


# --- Plans and reads log files, one folder per interval; reads the first records for a preview


class LogReader(SourceReader):
    """Reads byte ranges of log files, and compares every file and its folder with the plan."""

    @contextmanager
    def open(
        self, spec: DatasetSpec, env: Environment, folder: DatasetFolder, interval: Interval
    ) -> Iterator[LogInputs]:
        yield LogInputs(spec, env, folder, interval)

    def check_names(self, stage: Stage, pieces: Iterable[PlannedRange]) -> None:
        check_log_names(stage, pieces)

    def check(self, stage: Stage, sources: Iterable[str]) -> None:
        check_log_files(stage, sources)

    def batches(self, stage: Stage, piece: PlannedRange) -> Iterator[pa.RecordBatch]:
        return iter_log(stage, piece)

    def head(
        self, spec: DatasetSpec, interval: Interval, env: Environment, place: Path, limit: int
    ) -> Head:
        return with_log_heads(spec, interval, env, place, limit)


# --- Plans and reads a table of Iceberg


class TableReader(SourceReader):
    """Reads row groups of data files, and compares every file with the plan."""

    @contextmanager
    def open(
        self, spec: DatasetSpec, env: Environment, folder: DatasetFolder, interval: Interval
    ) -> Iterator[TableInputs]:
        yield TableInputs(spec, env, folder, interval)

    def check_names(self, stage: Stage, pieces: Iterable[PlannedRange]) -> None:
        """Do nothing: no commit comes into an interval whose end has been fixed."""

    def check(self, stage: Stage, sources: Iterable[str]) -> None:
        check_data_files(stage, sources)

    def batches(self, stage: Stage, piece: PlannedRange) -> Iterator[pa.RecordBatch]:
        return iter_data_file(stage, piece)

    def head(
        self, spec: DatasetSpec, interval: Interval, env: Environment, place: Path, limit: int
    ) -> Head:
        return Head(*with_heads(spec, interval, env, place, limit))


# --- The reader of every kind of source

# Class of the source in a specification → reader.
READERS: Final[dict[type[SourceKind], SourceReader]] = {
    KafkaTopics: TopicReader(),
    RecordedSourceSpec: TopicReader(),
    LogsSourceSpec: LogReader(),
    IcebergSourceSpec: TableReader(),
}


def markers_of(source: Inputs) -> dict[str, str]:
    """Return member of a union → the file that marked its folder complete; none for others."""
    return dict(source.markers) if isinstance(source, UnionInputs | KeptInputs) else {}


def reader_of(spec: DatasetSpec) -> SourceReader:
    """Return the reader for the source of a data set."""
    return READERS[type(spec.source.kind)]


READERS[UnionSource] = UnionReader(reader_of)


# --- The records of a planned range, with their proof


class PieceReader:
    """Reads the records of one landing file, or of a range of a source that does not land.

    Args:
        stage: The stage at work.
        piece: The range.

    Attributes:
        read: Account of the records yielded so far.
        is_source: Whether the source itself is read, not a landing file.
    """

    def __init__(self, stage: Stage, piece: PlannedRange) -> None:
        self._planned = stage.plan.inputs[piece.source]
        self._location = landing_file(stage.landing, self._planned, piece)
        _, self._alone = split_member(piece.source)
        self._number = source_hash(piece.source)
        self._stage, self._piece = stage, piece
        self._own = stage.of_source(piece.source)
        self.is_source = not stage.lands(piece.source)
        self.read = Leaf()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yield the records, as batches of ``LANDING_SCHEMA``, by offset.

        The proof that they are the landed ones is complete only behind the last batch. After an
        error before that, ``verify`` tells whether the landing file is damaged.

        Raises:
            NotFoundError: The landing file is missing.
            ChecksumError: The landing file is damaged, or holds other records than were landed.
            SourceReplacedError: The source is not the one that was planned.
            FormatError: A log file does not decompress, or has a line that is too long.
        """
        if self.is_source:
            reader = reader_of(self._stage.spec)
            for batch in reader.batches(self._stage, self._piece):
                self.read += leaf_of(batch, self._number)
                yield batch
            return
        with opened_landing(self._location, verified=False) as landing:
            with remedy_in_errors():
                promised = promised_leaf(landing)
            landed, number = Leaf(), source_hash(self._alone)
            for batch in landed_batches(landing, verifies=True):
                if not is_of_range(self._planned, self._piece, batch):
                    raise ChecksumError(
                        f"expected records of offsets [{self._piece.start}, {self._piece.end}), got"
                        f" those of another range; {REMEDY}",
                        path=self._location.uri,
                    )
                leaf = leaf_of(batch, self._number)
                self.read += leaf
                # The account in the file is that of the source, without the member that reads it.
                landed += leaf if number == self._number else leaf_of(batch, number)
                yield self._as_read(batch)
        if landed != promised:
            raise ChecksumError(
                f"records are not those that were landed; {REMEDY}", path=self._location.uri
            )

    def _as_read(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return landed records as their source gives them: rows of columns land as JSON."""
        kind = self._own.spec.source.kind
        if not isinstance(kind, LogsSourceSpec | IcebergSourceSpec) or not kind.has_columns:
            return batch
        if not isinstance(self._planned, PlannedFile):
            raise TypeError(f"expected {self._piece.source} to be a file of columns")
        layouts = kept_layouts(self._stage.folder, self._planned)
        if layouts is None:
            raise FormatError(f"expected the layout of {self._planned.path} in the plan, got none")
        names = layouts.files[self._alone].columns
        return with_fields(batch, {name: layouts.types[name] for name in names})

    def verify(self) -> None:
        """Read a landing file once more, only to compare its digest.

        Raises:
            ChecksumError: The landing file is damaged.
        """
        if not self.is_source:
            with opened_landing(self._location):
                pass
