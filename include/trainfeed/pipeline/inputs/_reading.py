"""What preprocessing reads: the records of a planned range, and the proof that they are those."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from trainfeed.dataset import Leaf
from trainfeed.dataset.identity import source_hash
from trainfeed.errors import ChecksumError
from trainfeed.pipeline.inputs._inputs import reader_of
from trainfeed.pipeline.plans import (
    REMEDY,
    PlannedRange,
    landing_file,
    leaf_of,
    opened_landing,
    promised_leaf,
)
from trainfeed.pipeline.stage import Stage

__all__ = ["PieceReader"]


class PieceReader:
    """Reads the records of one landing file, or of a range of a source that does not land.

    Args:
        stage: The stage at work.
        piece: The range.

    Attributes:
        read: Account of the records that were given away.
        is_source: Whether the source itself is read.
    """

    def __init__(self, stage: Stage, piece: PlannedRange) -> None:
        planned = stage.plan.inputs[piece.source]
        self._location = landing_file(stage.landing, planned, piece)
        self._number = source_hash(piece.source)
        self._stage, self._piece = stage, piece
        self.is_source = not stage.spec.source.kind.lands
        self.read = Leaf()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yield the records, as batches of ``LANDING_SCHEMA``, by offset.

        They are proven to be those that landed behind the last one; after an error on the way,
        ``verify`` tells whether the file is to blame.

        Raises:
            NotFoundError: The landing file is missing.
            ChecksumError: It is damaged, or holds other records than were landed.
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
                self.read += leaf_of(batch, self._number)
                yield batch
        if self.read != promised:
            raise ChecksumError(
                f"records are not those that were landed; {REMEDY}", path=self._location.uri
            )

    def verify(self) -> None:
        """Read a landing file once more, for nothing but its digest.

        Raises:
            ChecksumError: It is damaged.
        """
        if not self.is_source:
            with opened_landing(self._location):
                pass
