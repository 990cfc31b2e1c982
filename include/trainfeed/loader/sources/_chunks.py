"""Reads, verifies and decodes chunks of record files, whole or in part."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trainfeed.dataset.chunks import Chunk, ChunkDecoder
from trainfeed.errors import FormatError
from trainfeed.loader.columns import LentPool, ThreadMemory
from trainfeed.loader.files import ShardFiles
from trainfeed.loader.order import Span
from trainfeed.loader.sources._known_chunks import ChunkTable, KeptChunks, Verified, Verify
from trainfeed.recordio import Codec

__all__ = ["SampleChunks", "ShardAccess"]

_MAX_INFOS: Final = 4096


class ShardAccess(NamedTuple):
    """How shards are read.

    Attributes:
        verify: When checksums are compared.
        mapped: Whether uncompressed chunks may be mapped instead of read.
        max_skipped: Number of damaged chunks that may be left out.
    """

    verify: Verify = Verify.FIRST
    mapped: bool = False
    max_skipped: int = 0


class SampleChunks:
    """Reads chunks of shards; threads may share it.

    Args:
        files: The shards.
        table: The chunks of the shards.
        decoder: Decodes chunks.
        access: How shards are read.

    Attributes:
        info: Function from the number of a chunk to its entry in the index.
    """

    def __init__(
        self, files: ShardFiles, table: ChunkTable, decoder: ChunkDecoder, access: ShardAccess
    ) -> None:
        self._files, self._table, self._access = files, table, access
        self._decoder = decoder
        self._verified = Verified(access.verify, len(table.shard))
        self._scratch = ThreadMemory()
        self._pool = LentPool()
        self._kept = KeptChunks()
        self.info: Callable[[int], Chunk] = lru_cache(maxsize=_MAX_INFOS)(table.info)

    def is_mapped(self, info: Chunk) -> bool:
        """Return whether a chunk may be viewed in a mapped file, without a copy."""
        return self._access.mapped and info.codec is Codec.NONE

    @property
    def always_verifies(self) -> bool:
        """Whether every read verifies, so that no result of an earlier read may be used again."""
        return self._verified.always

    def located(self, error: FormatError, chunk: int, info: Chunk) -> FormatError:
        """Return an error with path and offset of the damaged chunk added."""
        error.path = self._files.paths[int(self._table.shard[chunk])]
        error.offset_bytes = info.offset_bytes
        return error

    def expect(self, spans: Sequence[Span]) -> None:
        """Let the kernel begin to read the chunks of spans, all at once; see ``ShardFiles``."""
        for span in spans:
            info, shard = self.info(span.chunk), int(self._table.shard[span.chunk])
            self._files.expect(shard, info.offset_bytes, info.head_bytes + info.stored_bytes)

    def view(
        self, chunk: int, info: Chunk, check: Callable[[NDArray[np.uint8]], None]
    ) -> NDArray[np.uint8]:
        """Return the framing of a mapped chunk without a copy; see ``read``."""
        shard, head_bytes = int(self._table.shard[chunk]), info.head_bytes
        stored = self._files.view(shard, info.offset_bytes, head_bytes + info.stored_bytes)
        framing = stored[head_bytes:]
        # Mapped files never change, so one verification is enough.
        if self._verified.is_new(chunk):
            self._decode(chunk, info, (stored[:head_bytes], framing, framing), check)
        return np.frombuffer(framing, np.uint8)

    def read(
        self,
        chunk: int,
        info: Chunk,
        out: NDArray[np.uint8],
        check: Callable[[NDArray[np.uint8]], None],
    ) -> None:
        """Read and decode a chunk into ``out``.

        Args:
            chunk: Number of the chunk.
            info: Entry of the chunk in the index.
            out: Receives the framing, ``info.raw_bytes`` bytes.
            check: Called with the framing when the checksum is compared; raises for impossible
                values.

        Raises:
            FormatError: The chunk is damaged.
            StorageError: The file system failed.
        """
        shard, head_bytes = int(self._table.shard[chunk]), info.head_bytes
        if info.codec is Codec.NONE:
            head = memoryview(bytearray(head_bytes))
            self._files.read(shard, info.offset_bytes, [head, out.data])
            self._decode(chunk, info, (head, out.data, out.data), check)
        else:
            stored = self._scratch.of(head_bytes + info.stored_bytes)
            self._files.read(shard, info.offset_bytes, [stored])
            parts = stored[:head_bytes], stored[head_bytes:], out.data
            self._decode(chunk, info, parts, check)

    def read_samples(
        self,
        span: Span,
        info: Chunk,
        out: NDArray[np.uint8],
        check: Callable[[NDArray[np.uint8]], None],
    ) -> None:
        """Read the samples of a span, all of one size, into ``out``; see ``read``."""
        if out.nbytes == info.raw_bytes:
            self.read(span.chunk, info, out, check)
            return
        # Samples of one size: the span's first byte in the framing follows from its number.
        start = span.start * (out.nbytes // (span.stop - span.start))
        kept = self._kept.find(span)
        # An uncompressed chunk that needs no verification is read in part, straight into ``out``.
        # Every other chunk is decoded whole and kept for the rest of its samples.
        if kept is None and info.codec is Codec.NONE and not self._verified.is_due(span.chunk):
            first_bytes = info.offset_bytes + info.head_bytes + start
            self._files.read(int(self._table.shard[span.chunk]), first_bytes, [out.data])
            return
        framing = self._framing(span, info, check) if kept is None else kept
        out[...] = framing[start : start + out.nbytes]

    def framing(
        self, span: Span, info: Chunk, check: Callable[[NDArray[np.uint8]], None]
    ) -> NDArray[np.uint8]:
        """Return the framing of the chunk that contains a span; see ``read``."""
        kept = self._kept.find(span)
        return self._framing(span, info, check) if kept is None else kept

    def close(self) -> None:
        """Close files and drop kept chunks; a later read opens the files again."""
        self._kept = KeptChunks()
        self._files.close()

    def _framing(
        self, span: Span, info: Chunk, check: Callable[[NDArray[np.uint8]], None]
    ) -> NDArray[np.uint8]:
        """Read a chunk, and keep it if the span is only a part of it."""
        framing = self._pool.lend(info.raw_bytes)[: info.raw_bytes]
        self.read(span.chunk, info, framing, check)
        self._kept.keep(span, framing, info.num_records)
        return framing

    def _decode(
        self,
        chunk: int,
        info: Chunk,
        parts: tuple[memoryview, memoryview, memoryview],
        check: Callable[[NDArray[np.uint8]], None],
    ) -> None:
        """Decode a chunk; ``parts`` are its head, its payload, and memory for the framing."""
        is_due = self._verified.is_due(chunk)
        head, payload, framing = parts
        try:
            self._decoder.decode(info, head, payload, framing, verify=is_due)
            if is_due:
                check(np.frombuffer(framing, np.uint8))
        except FormatError as error:
            raise self.located(error, chunk, info) from None
        self._verified.add(chunk)
