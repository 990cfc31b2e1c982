"""The reader of every kind of source, and the records of a piece with their proof."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Final

import pyarrow as pa

from trainfeed.dataset import Leaf
from trainfeed.dataset.order import source_hash
from trainfeed.errors import ChecksumError
from trainfeed.pipeline.inputs._log_reader import LogReader
from trainfeed.pipeline.inputs._source_reader import SourceReader
from trainfeed.pipeline.inputs._topic_reader import TopicReader
from trainfeed.pipeline.plans import (
    REMEDY,
    Planned,
    PlannedRange,
    holds,
    landing_file,
    leaf_of,
    opened_landing,
    promised_leaf,
)
from trainfeed.pipeline.stage import Stage
from trainfeed.specification import (
    DatasetSpec,
    KafkaTopics,
    LogsSourceSpec,
    RecordedSourceSpec,
    SourceKind,
)

__all__ = ["READERS", "PieceReader", "late_policies", "late_skews", "reader_of"]

# Class of the source in a specification → reader.
READERS: Final[dict[type[SourceKind], SourceReader]] = {
    KafkaTopics: TopicReader(),
    RecordedSourceSpec: TopicReader(),
    LogsSourceSpec: LogReader(),
}


def reader_of(spec: DatasetSpec) -> SourceReader:
    """Return the reader for the source of a data set."""
    return READERS[type(spec.source.kind)]


def late_policies(spec: DatasetSpec, inputs: Mapping[str, Planned]) -> dict[str, str]:
    """Return source → policy for late records: keep, separate or fail."""
    kind = spec.source.kind
    return {source: kind.late_rule(planned.label).policy for source, planned in inputs.items()}


def late_skews(spec: DatasetSpec, inputs: Mapping[str, Planned]) -> dict[str, timedelta]:
    """Return source → how far behind the interval's end stamps may lie, for the policy ``fail``."""
    kind = spec.source.kind
    rules = {source: kind.late_rule(planned.label) for source, planned in inputs.items()}
    return {source: rule.skew for source, rule in rules.items() if rule.policy == "fail"}


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
        self._number = source_hash(piece.source)
        self._stage, self._piece = stage, piece
        self.is_source = not stage.spec.source.kind.lands
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
            promised = promised_leaf(landing)
            for batch in landing.iter_batches(verifies=True):
                if not holds(self._planned, self._piece, batch):
                    raise ChecksumError(
                        f"expected records of offsets [{self._piece.start}, {self._piece.end}), got"
                        f" those of another range; {REMEDY}",
                        path=self._location.uri,
                    )
                self.read += leaf_of(batch, self._number)
                yield batch
        if self.read != promised:
            raise ChecksumError(
                f"records are not those that were landed; {REMEDY}", path=self._location.uri
            )

    def verify(self) -> None:
        """Read a landing file once more, only to compare its digest.

        Raises:
            ChecksumError: The landing file is damaged.
        """
        if not self.is_source:
            with opened_landing(self._location):
                pass
