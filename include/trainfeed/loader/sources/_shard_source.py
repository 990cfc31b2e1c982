"""Record files as a source: published versions, and RecordIO files with their indexes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from trainfeed.dataset.chunks import decoder_of
from trainfeed.loader.columns import Memory, Rows
from trainfeed.loader.files import ShardFiles
from trainfeed.loader.order import Span
from trainfeed.loader.sources._chunks import SampleChunks, ShardAccess
from trainfeed.loader.sources._fixed import FixedSamples
from trainfeed.loader.sources._framed_records import PlainRecords, TypedRecords
from trainfeed.loader.sources._known_chunks import ChunkTable
from trainfeed.loader.sources._ragged_samples import RaggedSamples
from trainfeed.loader.sources._skips import SkippedChunks
from trainfeed.loader.sources._source import Loaded
from trainfeed.samples import Schema

__all__ = ["ShardSource"]

# One object of CephFS, and a good size of request for any other server. On local disks the fixed
# cost per window is small in comparison.
_NATURAL_WINDOW_BYTES: Final = 4 << 20


class ShardSource:
    """Chunks of record files.

    Args:
        files: The shards.
        table: The chunks of the shards, in natural order.
        digest: Identifies the content.
        schema: Schema of the samples; None for records without a schema.
        access: How the shards are read.
    """

    def __init__(
        self,
        files: ShardFiles,
        table: ChunkTable,
        *,
        digest: str,
        schema: Schema | None,
        access: ShardAccess,
    ) -> None:
        self._files, self._table, self._schema, self._access = files, table, schema, access
        self.digest = digest
        self._start()

    def __getstate__(self) -> dict[str, object]:
        """Return the arguments only: every process computes the rest for itself."""
        names = ("_files", "_table", "_schema", "_access", "digest")
        return {name: self.__dict__[name] for name in names}

    def __setstate__(self, state: dict[str, object]) -> None:
        """Set the arguments and compute the rest."""
        self.__dict__.update(state)
        self._start()

    def _start(self) -> None:
        schema = self._schema
        self.num_samples = self._table.num_records
        self.num_bytes = self._table.raw_bytes
        self.natural_window_bytes = _NATURAL_WINDOW_BYTES
        decoder = decoder_of(schema, self._table.codec)
        self._chunks = SampleChunks(self._files, self._table, decoder, self._access)
        skipped = SkippedChunks(self._access.max_skipped)
        self._samples: FixedSamples | RaggedSamples
        if schema is not None and schema.is_fixed:
            self._samples = FixedSamples(self._chunks, schema, skipped)
        else:
            parser = PlainRecords() if schema is None else TypedRecords(schema)
            self._samples = RaggedSamples(self._chunks, parser, skipped)

    def load(self, spans: Sequence[Span], rows: Rows, memory: Memory) -> Loaded:
        """Read spans and return ``rows`` of their samples; see ``Source``."""
        return self._samples.load(spans, rows, memory)

    def expect(self, spans: Sequence[Span]) -> None:
        """Let the kernel begin to read spans; see ``Source``."""
        self._chunks.expect(spans)

    def output_bytes(self, window_bytes: int) -> int | None:
        """Return the bytes that ``load`` needs for a window of ``window_bytes``; see ``Source``."""
        return self._samples.output_bytes(window_bytes)

    def num_reread(self) -> int:
        """Return how many reads were repeated."""
        return self._files.num_retries

    def close(self) -> None:
        """Close files; a later load opens them again."""
        self._chunks.close()
