"""Record files as a source: published versions, and RecordIO files with their indexes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trainfeed.dataset.examples import EXAMPLES, Chunk, ExampleRun, ExampleRunDecoder
from trainfeed.errors import FormatError, TrainFeedError
from trainfeed.loader._columns import Rows, count_rows
from trainfeed.loader._files import ShardFiles
from trainfeed.loader._framed import (
    PlainRecords,
    RecordParser,
    Records,
    TypedRecords,
    record_places,
)
from trainfeed.loader._memory import BufferPool, Memory
from trainfeed.loader._order import Span
from trainfeed.loader._rows import RowDecoder
from trainfeed.loader._source import Loaded, count_spans
from trainfeed.recordio import ChunkInfo, Codec, decode_payload
from trainfeed.samples import Schema

__all__ = ["ChunkTable", "ShardAccess", "ShardSource", "Verify"]

_HEADER_BYTES: Final = 20
# One object of CephFS, and enough for any other server; on local disks it makes what a window
# costs besides its bytes small.
_NATURAL_WINDOW_BYTES: Final = 4 << 20
_MAX_FREE_BUFFERS: Final = 16


class Verify(StrEnum):
    """When checksums are compared: always, the first time that a process reads a chunk, never."""

    ALWAYS = "always"
    FIRST = "first"
    NEVER = "never"


@dataclass(frozen=True, eq=False)
class ChunkTable:
    """The chunks of all shards, as columns of shape ``(num_chunks,)``; see ``ChunkInfo``."""

    shard: NDArray[np.int32]
    offset_bytes: NDArray[np.int64]
    stored_bytes: NDArray[np.int64]
    raw_bytes: NDArray[np.int64]
    num_records: NDArray[np.int64]
    crc32: NDArray[np.uint32]
    codec: NDArray[np.int32]

    @classmethod
    def of(cls, chunks: Sequence[tuple[int, Chunk]]) -> ChunkTable:
        """Make a table of shard numbers and chunks; those without records are left out."""
        kept = [(shard, info) for shard, info in chunks if info.num_records]

        def column(get: Callable[[Chunk], int], dtype: Any) -> NDArray[Any]:
            return np.array([get(info) for _, info in kept], dtype)

        return cls(
            shard=np.array([shard for shard, _ in kept], np.int32),
            offset_bytes=column(lambda info: info.offset_bytes, np.int64),
            stored_bytes=column(lambda info: info.stored_bytes, np.int64),
            raw_bytes=column(lambda info: info.raw_bytes, np.int64),
            num_records=column(lambda info: info.num_records, np.int64),
            crc32=column(lambda info: info.crc32, np.uint32),
            codec=column(lambda info: info.codec, np.int32),
        )

    def info(self, chunk: int) -> Chunk:
        """Return one chunk."""
        codec = int(self.codec[chunk])
        place = {
            "offset_bytes": int(self.offset_bytes[chunk]),
            "stored_bytes": int(self.stored_bytes[chunk]),
            "raw_bytes": int(self.raw_bytes[chunk]),
            "num_records": int(self.num_records[chunk]),
            "crc32": int(self.crc32[chunk]),
        }
        return ExampleRun(**place) if codec == EXAMPLES else ChunkInfo(**place, codec=Codec(codec))


class ShardAccess(NamedTuple):
    """How shards are read.

    Attributes:
        verify: When checksums are compared.
        mapped: Whether chunks that are stored as they are may be mapped, not read.
    """

    verify: Verify = Verify.FIRST
    mapped: bool = False


class _Scratch(threading.local):
    """Memory that a thread uses again for every chunk, and nobody else sees."""

    def __init__(self) -> None:
        self._arrays: dict[str, NDArray[np.uint8]] = {}

    def array(self, purpose: str, num_bytes: int) -> NDArray[np.uint8]:
        have = self._arrays.get(purpose)
        if have is None or have.nbytes < num_bytes:
            have = self._arrays[purpose] = np.empty(num_bytes + num_bytes // 8, np.uint8)
        return have[:num_bytes]


class ShardSource:
    """Chunks of record files.

    Args:
        files: The shards.
        table: Their chunks, in natural order.
        digest: Identifies the content.
        schema: That of the samples; None for records without one.
        access: How they are read.
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
        """Leave out what was computed: every process computes it for itself."""
        names = ("_files", "_table", "_schema", "_access", "digest")
        return {name: self.__dict__[name] for name in names}

    def __setstate__(self, state: dict[str, object]) -> None:
        """Compute the rest."""
        self.__dict__.update(state)
        self._start()

    def _start(self) -> None:
        schema = self._schema
        self.num_samples = self._table.num_records
        self.num_bytes = self._table.raw_bytes
        self.natural_window_bytes = _NATURAL_WINDOW_BYTES
        self._rows = RowDecoder(schema) if schema is not None and schema.is_fixed else None
        self._runs = None if schema is None else ExampleRunDecoder(schema)
        self._parser: RecordParser = PlainRecords() if schema is None else TypedRecords(schema)
        self._verified = np.zeros(len(self._table.shard), bool)
        self._scratch = _Scratch()
        self._pool = BufferPool(_MAX_FREE_BUFFERS)

    def load(self, spans: Sequence[Span], rows: Rows, memory: Memory) -> Loaded:
        """Read spans and return ``rows`` of their samples; see ``Source``."""
        if self._rows is not None:
            return self._load_fixed(self._rows, spans, rows, memory)
        parts: list[Records] = []
        error = _try_each(spans, lambda span: parts.append(self._records(span)))
        if error is not None:
            rows = _rows_before(rows, count_spans(spans[: len(parts)]), error)
        columns = self._parser.columns(parts, rows)
        return Loaded(columns, len(next(iter(columns.values()))), error)

    def output_bytes(self, window_bytes: int) -> int | None:
        """Return how much memory ``load`` needs for so many bytes of chunks; see ``Source``."""
        if self._rows is None:
            return None
        num_samples = window_bytes // self._rows.stride_bytes
        return max(self._rows.num_view_bytes(num_samples), self._rows.num_gather_bytes(num_samples))

    def num_reread(self) -> int:
        """Return how often a read was tried again."""
        return self._files.num_retries

    def close(self) -> None:
        """Close files; loading opens them again."""
        self._files.close()

    def _load_fixed(
        self, decoder: RowDecoder, spans: Sequence[Span], rows: Rows, memory: Memory
    ) -> Loaded:
        num_samples, stride = count_spans(spans), decoder.stride_bytes
        in_order = isinstance(rows, slice) and rows.step in (None, 1)
        is_lazy = memory.is_lazy and not isinstance(rows, slice)
        if in_order or is_lazy:
            memory.reserve(decoder.num_view_bytes(num_samples))
            framing = memory.array((num_samples * stride,), np.uint8)
        else:
            framing = self._scratch.array("window", num_samples * stride)
        done = 0

        def read(span: Span) -> None:
            nonlocal done
            end = done + span.stop - span.start
            self._read_span(decoder, span, framing[done * stride : end * stride])
            done = end

        error = _try_each(spans, read)
        if error is not None:
            rows = _rows_before(rows, done, error)
        num_rows = count_rows(rows, num_samples)
        if isinstance(rows, slice) and in_order:
            start = rows.indices(num_samples)[0]
            part = framing[start * stride : (start + num_rows) * stride]
            return Loaded(decoder.views(part, memory), num_rows, error)
        if is_lazy and not isinstance(rows, slice):
            return Loaded(decoder.permuted(framing, rows), num_rows, error)
        memory.reserve(decoder.num_gather_bytes(num_rows))
        return Loaded(decoder.gather(framing, rows, memory), num_rows, error)

    def _read_span(self, decoder: RowDecoder, span: Span, out: NDArray[np.uint8]) -> None:
        info = self._table.info(span.chunk)
        if info.raw_bytes != info.num_records * decoder.stride_bytes:
            raise FormatError(
                f"expected {info.num_records} records of {decoder.stride_bytes - 4} bytes each, got"
                f" {info.raw_bytes} bytes with the lengths",
                path=self._files.paths[self._table.shard[span.chunk]],
                offset_bytes=info.offset_bytes,
            )
        whole = out.nbytes == info.raw_bytes
        stride = decoder.stride_bytes
        if not whole and info.codec is Codec.NONE and not self._is_unverified(span.chunk):
            first_bytes = info.offset_bytes + _HEADER_BYTES + span.start * stride
            self._files.read(int(self._table.shard[span.chunk]), first_bytes, [out.data])
            return
        target = out if whole else self._scratch.array("chunk", info.raw_bytes)
        self._read(span.chunk, info, target, decoder.check)
        if not whole:
            out[...] = target[span.start * stride : span.stop * stride]

    def _read(
        self,
        chunk: int,
        info: Chunk,
        out: NDArray[np.uint8],
        check: Callable[[NDArray[np.uint8]], None],
    ) -> None:
        """Read and decode a chunk into ``out``."""
        if isinstance(info, ExampleRun):
            self._read_run(chunk, info, out)
            return
        shard = int(self._table.shard[chunk])
        if info.codec is Codec.NONE:
            header = memoryview(bytearray(_HEADER_BYTES))
            payload = out.data
            self._files.read(shard, info.offset_bytes, [header, payload])
        else:
            stored = self._scratch.array("stored", _HEADER_BYTES + info.stored_bytes).data
            self._files.read(shard, info.offset_bytes, [stored])
            header, payload = stored[:_HEADER_BYTES], stored[_HEADER_BYTES:]
        first = self._is_unverified(chunk)
        try:
            decode_payload(info, header, payload, out.data, verify=first)
            if first:
                check(out)
        except FormatError as error:
            raise self._located(error, chunk, info) from None
        self._verified[chunk] = True

    def _read_run(self, chunk: int, run: ExampleRun, out: NDArray[np.uint8]) -> None:
        if self._runs is None:
            raise FormatError("expected a schema beside runs of Examples, got none")
        stored = self._scratch.array("stored", run.stored_bytes).data
        self._files.read(int(self._table.shard[chunk]), run.offset_bytes, [stored])
        try:
            out.data[:] = self._runs.framing(run, stored, verify=self._is_unverified(chunk))
        except FormatError as error:
            raise self._located(error, chunk, run) from None
        self._verified[chunk] = True

    def _records(self, span: Span) -> Records:
        """Return the records of a span of a chunk with records of variable size."""
        info = self._table.info(span.chunk)
        if self._access.mapped and isinstance(info, ChunkInfo) and info.codec is Codec.NONE:
            shard = int(self._table.shard[span.chunk])
            stored = self._files.view(shard, info.offset_bytes, _HEADER_BYTES + info.stored_bytes)
            framing = self._decode_mapped(span.chunk, info, stored)
        else:
            buffer = self._pool.lend(info.raw_bytes)[: info.raw_bytes]
            self._read(span.chunk, info, buffer, lambda _: None)
            framing = buffer.data
        try:
            places = record_places(framing, info.num_records)
            records = self._parser.parse(framing, places)
        except FormatError as error:
            raise self._located(error, span.chunk, info) from None
        return records.part(span.start, span.stop)

    def _decode_mapped(self, chunk: int, info: ChunkInfo, stored: memoryview) -> memoryview:
        header, payload = stored[:_HEADER_BYTES], stored[_HEADER_BYTES:]
        try:
            first = self._is_unverified(chunk)
            framing = decode_payload(info, header, payload, payload, verify=first)
        except FormatError as error:
            raise self._located(error, chunk, info) from None
        self._verified[chunk] = True
        return framing

    def _is_unverified(self, chunk: int) -> bool:
        if self._access.verify is Verify.FIRST:
            return not self._verified[chunk]
        return self._access.verify is Verify.ALWAYS

    def _located(self, error: FormatError, chunk: int, info: Chunk) -> FormatError:
        error.path = self._files.paths[int(self._table.shard[chunk])]
        error.offset_bytes = info.offset_bytes
        return error


def _try_each(spans: Sequence[Span], read: Callable[[Span], None]) -> TrainFeedError | None:
    """Read spans up to the first that cannot be read; return what is wrong with that."""
    for span in spans:
        try:
            read(span)
        except TrainFeedError as error:
            return error
    return None


def _rows_before(rows: Rows, num_good: int, error: TrainFeedError) -> slice:
    """Return those rows that lie before what cannot be read.

    Raises:
        TrainFeedError: They are permuted, so that none comes surely before it.
    """
    if not isinstance(rows, slice) or rows.start >= num_good:
        raise error
    return slice(rows.start, num_good, rows.step)
