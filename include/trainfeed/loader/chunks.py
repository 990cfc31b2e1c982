"""Chunks of record files: read, verified, decoded, kept or left out as damaged."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from trainfeed.core.thread_ties import new_lock
from trainfeed.errors import FormatError
from trainfeed.loader.memory import LentPool, ThreadMemory
from trainfeed.loader.order import Span
from trainfeed.recordio import Codec
from trainfeed.versions.chunk_index import Chunk, ChunkTable
from trainfeed.versions.chunks import ChunkDecoder

if TYPE_CHECKING:
    from trainfeed.remote.shards import Way

# --- The chunks of a set: which are verified, and decoded ones that are kept

# Decoded chunks that two windows share, kept for the second window. Enough for one chunk of usual
# size per pair of neighbouring lanes.
_MAX_KEPT_BYTES: Final = 16 << 20


class Verify(StrEnum):
    """When checksums are compared: always, the first time that a process reads a chunk, never."""

    ALWAYS = "always"
    FIRST = "first"
    NEVER = "never"


class Verified:
    """The chunks that this process has verified; threads may share the object.

    Args:
        verify: When checksums are compared.
        num_chunks: Number of chunks of the set.

    Attributes:
        always: Whether every read verifies, so that no result of an earlier read may be used again.
    """

    def __init__(self, verify: Verify, num_chunks: int) -> None:
        self.always = verify is Verify.ALWAYS
        self._never = verify is Verify.NEVER
        # No lock: writing one byte is atomic, and two threads may at worst verify a chunk twice.
        self._is_known = np.zeros(num_chunks, bool)

    def is_due(self, chunk: int) -> bool:
        """Return whether checksum and content of a chunk must be verified."""
        return not self._never and self.is_new(chunk)

    def is_new(self, chunk: int) -> bool:
        """Return whether a chunk was not read before, or every read counts as the first."""
        return self.always or not self._is_known[chunk]

    def add(self, chunk: int) -> None:
        """Note that a chunk was read, and verified if ``is_due`` asked for that."""
        self._is_known[chunk] = True


class KeptChunks:
    """Decoded chunks with samples that no window has requested yet.

    Lanes are cut by record, so two neighbouring lanes share a chunk, which would be decoded twice.
    The chunks whose last use is longest ago are dropped when the kept bytes pass a limit.
    """

    def __init__(self) -> None:
        self._lock = new_lock()
        # Per chunk the framing, and the number of its samples that were not requested yet.
        self._chunks: OrderedDict[int, tuple[NDArray[np.uint8], int]] = OrderedDict()
        self._num_bytes = 0

    def find(self, span: Span) -> NDArray[np.uint8] | None:
        """Return the framing of a kept chunk, and drop it once all its samples were requested."""
        with self._lock:
            found = self._chunks.pop(span.chunk, None)
            if found is None:
                return None
            framing, num_left = found
            self._num_bytes -= framing.nbytes
            # The lock is reentrant. ``keep`` puts the chunk back at the end, unless no samples are
            # left.
            self.keep(span, framing, num_left)
            return framing

    def keep(self, span: Span, framing: NDArray[np.uint8], num_left: int) -> None:
        """Keep the framing of a chunk that had ``num_left`` samples left before this span.

        If another thread has decoded and kept the same chunk meanwhile, the span counts for that.
        """
        with self._lock:
            if (kept := self._chunks.pop(span.chunk, None)) is not None:
                framing, num_left = kept
                self._num_bytes -= framing.nbytes
            num_left -= span.stop - span.start
            if num_left <= 0 or framing.nbytes > _MAX_KEPT_BYTES:
                return
            self._chunks[span.chunk] = framing, num_left
            self._num_bytes += framing.nbytes
            while self._num_bytes > _MAX_KEPT_BYTES:
                self._num_bytes -= self._chunks.popitem(last=False)[1][0].nbytes


# --- Damaged chunks that are left out, up to an allowed number

_LOG: Final = logging.getLogger(__name__)

# Name of an extra field: True in rows that only hold the place of a missing sample. So the other
# rows keep their positions until a batch is handed over.
MISSING: Final = "\0missing"


class SkippedChunks:
    """The damaged chunks that are left out; threads may share the object.

    Args:
        most: Largest number of them. With 0 the first damaged chunk is an error.

    Attributes:
        most: As above.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._lock = new_lock()
        self._chunks: set[int] = set()

    def attempt(self, chunk: int, info: Chunk, read: Callable[[], object]) -> bool:
        """Read a chunk; return whether it is whole.

        Raises:
            FormatError: The chunk is damaged, and no further chunk may be left out.
        """
        if chunk in self._chunks:
            return False
        try:
            read()
        except FormatError as error:
            self._note(chunk, info, error)
            return False
        return True

    def _note(self, chunk: int, info: Chunk, error: FormatError) -> None:
        with self._lock:
            if chunk in self._chunks:  # another thread read it at the same time
                return
            if len(self._chunks) >= self.most:
                if self.most:
                    error.add_note(f"{self.most} chunks were left out before, no more may be")
                raise error
            self._chunks.add(chunk)
        _LOG.warning(
            "left out a chunk of %d samples that take %d bytes: %s",
            info.num_records,
            info.stored_bytes,
            str(error),  # a kept log record must not keep the error, and with it the loader
        )


# --- Reads, verifies and decodes chunks of record files, whole or in part

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


class ChunkFiles(Protocol):
    """The shards of a set: files of this machine, or at a store behind its cache.

    Attributes:
        paths: Paths or URIs of the shards.
        num_retries: Number of repetitions of reads.
    """

    paths: list[str]
    num_retries: int

    @property
    def way(self) -> Way | None:
        """What fetches chunks ahead along a plan; None for files of this machine."""

    def read(self, shard: int, offset_bytes: int, out: Sequence[memoryview], /) -> None:
        """Fill all of ``out`` from ``offset_bytes`` on; see ``ShardFiles``."""

    def view(self, shard: int, offset_bytes: int, num_bytes: int, /) -> memoryview:
        """Return a part of a shard."""

    def expect(self, shard: int, offset_bytes: int, num_bytes: int, /) -> None:
        """Let a part of a shard be read ahead, where that helps."""

    def discard(self, shard: int, offset_bytes: int, /) -> bool:
        """Drop a copy that cannot be decoded; return whether it is worth another read."""

    def close(self) -> None:
        """Close files; a later read opens them again."""


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
        self, files: ChunkFiles, table: ChunkTable, decoder: ChunkDecoder, access: ShardAccess
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
        try:
            self._read(chunk, info, out, check)
        except FormatError:
            if not self._files.discard(int(self._table.shard[chunk]), info.offset_bytes):
                raise
            self._read(chunk, info, out, check)

    def _read(
        self,
        chunk: int,
        info: Chunk,
        out: NDArray[np.uint8],
        check: Callable[[NDArray[np.uint8]], None],
    ) -> None:
        shard, head_bytes = int(self._table.shard[chunk]), info.head_bytes
        if info.codec is Codec.NONE:
            # One vectored read: the header into a small buffer, the payload directly into ``out``.
            # Nothing is copied.
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
        # The pool reuses the buffer when the last array that views it is freed, not before.
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
            # The checksum protects against damage; ``check`` compares the content with the schema.
            if is_due:
                check(np.frombuffer(framing, np.uint8))
        except FormatError as error:
            raise self.located(error, chunk, info) from None
        self._verified.add(chunk)
