"""Samples in chunks of record files: of fixed size as arrays of rows, others by their places."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from trainfeed.core.thread_ties import new_lock
from trainfeed.errors import FormatError, TrainFeedError
from trainfeed.loader.chunks import (
    MISSING,
    ChunkFiles,
    SampleChunks,
    ShardAccess,
    SkippedChunks,
)
from trainfeed.loader.columns import (
    Columns,
    Dense,
    Ragged,
    Rows,
    SampleLayout,
    Scattered,
    addresses_in,
    count_rows,
)
from trainfeed.loader.memory import ALIGNMENT_BYTES, Memory, ThreadMemory
from trainfeed.loader.order import Span
from trainfeed.loader.windows import Loaded, count_spans, rows_before, try_each
from trainfeed.samples import LENGTH_BYTES, Field, RecordLayout, Schema, record_places
from trainfeed.versions.chunk_index import Chunk, ChunkTable
from trainfeed.versions.chunks import decoder_of

# --- Samples of fixed size: a chunk is an array of rows, and fields are views of it

# numpy gathers into a temporary array; pieces of this size are still in the cache when they are
# copied to the output.
_PIECE_BYTES: Final = 128 << 10


class RowDecoder:
    """Turns the framing of samples of one fixed schema into columns.

    Attributes:
        stride_bytes: Bytes of one sample, with its length word.
        layout: Offsets of the fields in these bytes.
    """

    def __init__(self, schema: Schema) -> None:
        self._fields = schema.fields
        self._num_optional = len(schema.optional)
        self._records = RecordLayout(schema)
        self.stride_bytes = self._records.framed.itemsize
        self.layout = _layout(self._records, schema)
        # Fields that are not aligned to their item size: other libraries refuse views of them, so
        # they are copied; most are small.
        self._awkward = self._records.unaligned(LENGTH_BYTES, self.stride_bytes)

    def num_view_bytes(self, num_samples: int) -> int:
        """Return the bytes of memory that ``views`` needs, including the framing."""
        copied = [num_samples * f.item_bytes for f in self._fields if f.name in self._awkward]
        return self._sum([num_samples * self.stride_bytes, *copied], num_samples)

    def num_gather_bytes(self, num_samples: int) -> int:
        """Return the bytes of memory that ``gather`` needs."""
        return self._sum([num_samples * f.item_bytes for f in self._fields], num_samples)

    def check(self, framing: NDArray[np.uint8]) -> None:
        """Refuse bytes that are not a sequence of samples of this schema.

        Raises:
            FormatError: A length, a boolean or a presence bit is impossible.
        """
        framed = framing.view(self._records.framed)
        self._records.require_fixed(framed)
        self._records.presence.require_known(framed["record"])

    def require_size(self, num_records: int, raw_bytes: int) -> None:
        """Refuse a framing whose size differs from that of ``num_records`` samples.

        Raises:
            FormatError: The size differs.
        """
        self._records.require_size(num_records, raw_bytes)

    def views(self, framing: NDArray[np.uint8], memory: Memory) -> Columns:
        """Return the columns as views of ``framing``, unaligned ones as copies in ``memory``."""
        records = framing.view(self._records.framed)["record"]

        def column(field: Field) -> NDArray[Any]:
            if field.name not in self._awkward:
                return records[field.name]
            out = memory.array((len(records), *field.item_shape), field.values_dtype)
            out[...] = records[field.name]
            return out

        return self._columns(records, slice(None), column, memory)

    def gather(self, framing: NDArray[np.uint8], rows: Rows, memory: Memory) -> Columns:
        """Return ``rows`` of the samples as contiguous arrays in ``memory``."""
        records = framing.view(self._records.framed)["record"]

        def column(field: Field) -> NDArray[Any]:
            values = records[field.name]
            out = memory.array(
                (count_rows(rows, len(values)), *field.item_shape), field.values_dtype
            )
            take(values, rows, out)
            return out

        return self._columns(records, rows, column, memory)

    def _columns(
        self,
        records: NDArray[np.void],
        rows: Rows,
        column: Callable[[Field], NDArray[Any]],
        memory: Memory,
    ) -> Columns:
        columns = {field.name: Dense(column(field)) for field in self._fields}
        if not self._num_optional:
            return dict(columns)
        for name, found in self._records.presence.absent(records[rows]).items():
            absent = memory.array(found.shape, bool)
            absent[...] = found
            columns[name] = Dense(columns[name].values, absent)
        return dict(columns)

    def _sum(self, sizes: list[int], num_samples: int) -> int:
        # One byte of mask per sample and optional field; every array starts at a multiple of 64
        # bytes.
        sizes = [*sizes, *[num_samples] * self._num_optional]
        return sum(-(-size // ALIGNMENT_BYTES) * ALIGNMENT_BYTES for size in sizes)


def take(values: NDArray[Any], rows: Rows, out: NDArray[Any]) -> None:
    """Copy ``rows`` of ``values`` to ``out``."""
    if isinstance(rows, slice):
        out[...] = values[rows]
        return
    piece = max(64, _PIECE_BYTES // max(1, values[:1].nbytes))
    for start in range(0, len(rows), piece):
        out[start : start + piece] = values[rows[start : start + piece]]


def _layout(records: RecordLayout, schema: Schema) -> SampleLayout:
    """Return the offsets of the fields in a framed sample, which begins with its length."""
    fields = tuple(
        place._replace(offset_bytes=LENGTH_BYTES + place.offset_bytes) for place in records.places
    )
    return SampleLayout(records.framed.itemsize, fields, (LENGTH_BYTES, schema.presence_bytes))


# --- Samples of variable size: the places of the records in a chunk, and of their fields

# Name of the only field of records without a schema.
RECORD: Final = "record"

_Item = TypeVar("_Item", bound=np.generic)


class FoundRecords(NamedTuple):
    """The places of the fields of the records in a buffer.

    Attributes:
        heads: Per record the bytes of its fixed part and counts, shape ``(n,)``; empty without a
            schema.
        ends: Per record the starts of its v variable fields, and the end of the last one, as
            offsets in the buffer, shape ``(n, v + 1)``. Without a schema the whole record is the
            one variable field.
    """

    heads: NDArray[np.void]
    ends: NDArray[np.int64]

    @property
    def num_bytes(self) -> int:
        """Size of the arrays in bytes."""
        return self.heads.nbytes + self.ends.nbytes

    def part(self, start: int, stop: int) -> FoundRecords:
        """Return the places of the records ``start`` to ``stop``."""
        return FoundRecords(self.heads[start:stop], self.ends[start:stop])


class FramedRecords(NamedTuple):
    """Records in a buffer.

    Attributes:
        buffer: Memory that contains the bytes of the records.
        found: The places of the records' fields in ``buffer``.
        is_mapped: Whether the buffer is a mapped file.
    """

    buffer: memoryview
    found: FoundRecords
    is_mapped: bool = False


class _RunKind(NamedTuple):
    """Type of the values of a ragged field; see ``Ragged``."""

    kind: str
    item_shape: tuple[int, ...] = ()


class RecordParser(Protocol):
    """Finds the fields of records, for many records at once."""

    def parse(self, buffer: memoryview, places: NDArray[np.int64]) -> FoundRecords:
        """Find the fields of the records of a buffer.

        Raises:
            FormatError: A record does not match the schema.
        """

    def blank(self, num_records: int) -> FoundRecords:
        """Return places for records that are missing: their fields are empty."""

    def columns(self, parts: Sequence[FramedRecords], rows: Rows) -> Columns:
        """Return ``rows`` of the records of all parts, numbered through from the first part on."""


class PlainRecords:
    """Records without a schema: one field, their bytes; see ``RecordParser``."""

    def parse(self, _buffer: memoryview, places: NDArray[np.int64]) -> FoundRecords:
        """Return the records as they are."""
        return FoundRecords(_NO_HEADS, places)

    def blank(self, num_records: int) -> FoundRecords:
        """Return places for records that are missing; see ``RecordParser``."""
        return FoundRecords(_NO_HEADS, np.zeros((num_records, 2), np.int64))

    def columns(self, parts: Sequence[FramedRecords], rows: Rows) -> Columns:
        """Return the records as ``{"record": …}``."""
        return {RECORD: _runs(parts, _picked(_places(parts), rows), _RunKind("bytes"))}


class TypedRecords:
    """Records of a schema in which the size of some fields varies."""

    def __init__(self, schema: Schema) -> None:
        self._names = schema.names
        self._layout = RecordLayout(schema)
        self._kinds = [_kind_of(field) for field in self._layout.variable]

    def parse(self, buffer: memoryview, places: NDArray[np.int64]) -> FoundRecords:
        """Find the fields of the records of a buffer; see ``RecordParser``."""
        heads, ends = self._layout.find(buffer, places)
        # As plain bytes: numpy concatenates and indexes these faster than structured dtypes.
        return FoundRecords(heads.view(f"V{heads.itemsize}"), ends)

    def blank(self, num_records: int) -> FoundRecords:
        """Return places for records that are missing; see ``RecordParser``."""
        heads = np.zeros(num_records, f"V{self._layout.head.itemsize}")
        return FoundRecords(heads, np.zeros((num_records, len(self._kinds) + 1), np.int64))

    def columns(self, parts: Sequence[FramedRecords], rows: Rows) -> Columns:
        """Return the fields in the order of the schema."""
        heads = _picked(np.concatenate([part.found.heads for part in parts]), rows)
        fixed = heads.view(self._layout.head)["fixed"]
        places = _picked(_places(parts), rows)
        absent = self._layout.presence.absent(fixed)
        found: Columns = {
            field.name: Dense(np.ascontiguousarray(fixed[field.name]), absent.get(field.name))
            for field in self._layout.fixed
        }
        for i, (field, kind) in enumerate(zip(self._layout.variable, self._kinds, strict=True)):
            # Column 0 is the number of the buffer; field i starts at column i + 1 and ends at i +
            # 2.
            own = places if len(self._kinds) == 1 else places[:, [0, i + 1, i + 2]]
            found[field.name] = _runs(parts, own, kind, absent.get(field.name))
        return {name: found[name] for name in self._names}


def _places(parts: Sequence[FramedRecords]) -> NDArray[np.int64]:
    """Return per record the number of its part, and its ends; shape ``(n, v + 2)``."""
    num_ends = parts[0].found.ends.shape[1]
    places = np.empty((sum(len(part.found.ends) for part in parts), 1 + num_ends), np.int64)
    end = 0
    for number, part in enumerate(parts):
        start, end = end, end + len(part.found.ends)
        # Column 0 selects the buffer; the other columns are byte offsets in that buffer.
        places[start:end, 0], places[start:end, 1:] = number, part.found.ends
    return places


def _picked(values: NDArray[_Item], rows: Rows) -> NDArray[_Item]:
    """Return rows of values; ``take`` is faster than indexing with an array."""
    return values[rows] if isinstance(rows, slice) else values.take(rows, 0)


def _runs(
    parts: Sequence[FramedRecords],
    places: NDArray[np.int64],
    kind: _RunKind,
    absent: NDArray[np.bool_] | None = None,
) -> Ragged:
    """Return one variable field of the records of all parts."""
    is_mapped = all(part.is_mapped for part in parts)
    return Ragged([part.buffer for part in parts], places, *kind, absent, is_mapped)


def _kind_of(field: Field) -> _RunKind:
    name = field.dtype if field.is_text else field.values_dtype.str
    return _RunKind(name, field.item_shape)


_NO_HEADS: Final[NDArray[np.void]] = np.empty(0, "V1")


# --- Samples of fixed size from chunks: as views, as gathered copies, or as addresses


class _Read(NamedTuple):
    """The result of reading spans.

    Attributes:
        num_samples: Number of samples before the first that cannot be read.
        mask: True for samples of a damaged chunk that was left out, shape ``(n,)``; None when no
            chunk may be left out.
        error: The reason why samples are missing at the end; None if all were read.
    """

    num_samples: int
    mask: NDArray[np.bool_] | None
    error: TrainFeedError | None

    def missing(self, rows: Rows) -> Columns:
        """Return the column that marks missing rows, if chunks may be left out."""
        return {} if self.mask is None else {MISSING: Dense(self.mask[rows])}


class FixedSamples:
    """Loads samples of fixed size.

    Args:
        chunks: Reads the chunks of the samples.
        schema: Schema of the samples.
        skipped: The damaged chunks that are left out.
    """

    def __init__(self, chunks: SampleChunks, schema: Schema, skipped: SkippedChunks) -> None:
        self._chunks = chunks
        self._skipped = skipped
        self._decoder = RowDecoder(schema)
        self._scratch = ThreadMemory()

    def output_bytes(self, window_bytes: int) -> int:
        """Return the bytes that ``load`` needs for a window of ``window_bytes``."""
        num_samples = window_bytes // self._decoder.stride_bytes
        decoder = self._decoder
        # The order of the rows is not known here, so room is needed for the larger of both ways.
        num_bytes = max(decoder.num_view_bytes(num_samples), decoder.num_gather_bytes(num_samples))
        return num_bytes + (num_samples + ALIGNMENT_BYTES if self._skipped.most else 0)

    def load(self, spans: Sequence[Span], rows: Rows, memory: Memory) -> Loaded:
        """Read spans and return ``rows`` of their samples; see ``Source``."""
        # Three ways: views of the framing for stored order; addresses if the batches gather
        # them later, which saves one copy; gathered copies otherwise.
        if isinstance(rows, slice):
            if rows.step in (None, 1):
                return self._views(spans, rows, memory)
        elif memory.is_lazy and not self._skipped.most:
            return self._scattered(spans, rows, memory)
        return self._gathered(spans, rows, memory)

    def _views(self, spans: Sequence[Span], rows: slice, memory: Memory) -> Loaded:
        """Return samples in stored order, as views of the framing."""
        num_samples, stride = count_spans(spans), self._decoder.stride_bytes
        memory.reserve(self._decoder.num_view_bytes(num_samples))
        framing = memory.array((num_samples * stride,), np.uint8)
        read = self._read(spans, framing)
        if read.error is not None:
            rows = rows_before(rows, read.num_samples, read.error)
        start, stop, _ = rows.indices(num_samples)
        # Samples of one size follow each other without gaps: sample i starts at byte i * stride.
        part = framing[start * stride : stop * stride]
        columns = self._decoder.views(part, memory) | read.missing(rows)
        return Loaded(columns, max(0, stop - start), read.error)

    def _gathered(self, spans: Sequence[Span], rows: Rows, memory: Memory) -> Loaded:
        """Return samples in any order, copied to arrays of their own."""
        num_samples = count_spans(spans)
        # The framing is needed only until the fields are gathered, so each thread reuses one
        # buffer.
        scratch = self._scratch.of(num_samples * self._decoder.stride_bytes)
        framing = np.frombuffer(scratch, np.uint8)
        read = self._read(spans, framing)
        if read.error is not None:
            rows = rows_before(rows, read.num_samples, read.error)
        num_rows = count_rows(rows, num_samples)
        memory.reserve(self._decoder.num_gather_bytes(num_rows))
        columns = self._decoder.gather(framing, rows, memory) | read.missing(rows)
        return Loaded(columns, num_rows, read.error)

    def _scattered(self, spans: Sequence[Span], rows: NDArray[np.int64], memory: Memory) -> Loaded:
        """Return samples in any order as addresses in the framing, or in mapped files."""
        stride = self._decoder.stride_bytes
        if all(self._chunks.is_mapped(self._info(span)) for span in spans):
            self._chunks.expect(spans)
            parts = [self._view(span) for span in spans]
        else:
            num_bytes = count_spans(spans) * stride
            memory.reserve(num_bytes)
            parts = [memory.array((num_bytes,), np.uint8)]
            read = self._read(spans, parts[0])
            if read.error is not None:
                rows_before(rows, read.num_samples, read.error)
        # One address per sample in stored order; ``rows`` puts the addresses into the window's
        # order. ``parts`` go along as owners: they keep the memory behind the addresses.
        addresses = np.concatenate([addresses_in(part, stride) for part in parts])[rows]
        return Loaded(Scattered(self._decoder.layout, addresses, parts), len(rows))

    def _read(self, spans: Sequence[Span], framing: NDArray[np.uint8]) -> _Read:
        """Read spans in order, up to the first that cannot be read."""
        self._chunks.expect(spans)
        done, stride = 0, self._decoder.stride_bytes
        missing = np.zeros(count_spans(spans), bool) if self._skipped.most else None

        def read(span: Span) -> None:
            nonlocal done
            start, end = done, done + span.stop - span.start
            out = framing[start * stride : end * stride]
            if missing is None:
                self._chunks.read_samples(span, self._info(span), out, self._decoder.check)
            else:
                missing[start:end] = not self._try_span(span, out)
            done = end

        error = try_each(spans, read)
        return _Read(done, missing, error)

    def _try_span(self, span: Span, out: NDArray[np.uint8]) -> bool:
        def read() -> None:
            self._chunks.read_samples(span, self._info(span), out, self._decoder.check)

        is_whole = self._skipped.attempt(span.chunk, self._chunks.info(span.chunk), read)
        if not is_whole:
            # A chunk that is left out reads as zeros: its rows stay, marked as missing.
            out[...] = 0
        return is_whole

    def _view(self, span: Span) -> NDArray[np.uint8]:
        """Return the bytes of a span in a mapped file."""
        stride = self._decoder.stride_bytes
        framing = self._chunks.view(span.chunk, self._info(span), self._decoder.check)
        return framing[span.start * stride : span.stop * stride]

    def _info(self, span: Span) -> Chunk:
        info = self._chunks.info(span.chunk)
        try:
            self._decoder.require_size(info.num_records, info.raw_bytes)
        except FormatError as error:
            raise self._chunks.located(error, span.chunk, info) from None
        return info


# --- Samples of variable size from chunks

# Enough for the places of some hundred thousand records.
_MAX_FOUND_BYTES: Final = 16 << 20
_NOTHING: Final = memoryview(b"")


class _Found:
    """The places of records in the chunks that were read last; threads may share the object."""

    def __init__(self) -> None:
        self._lock = new_lock()
        self._chunks: OrderedDict[int, FoundRecords] = OrderedDict()
        self._num_bytes = 0

    def get(self, chunk: int) -> FoundRecords | None:
        with self._lock:
            found = self._chunks.get(chunk)
            if found is not None:
                # The least recently used chunk is first in the dict, and is dropped first.
                self._chunks.move_to_end(chunk)
            return found

    def put(self, chunk: int, found: FoundRecords) -> None:
        with self._lock:
            if chunk in self._chunks or found.num_bytes > _MAX_FOUND_BYTES:
                return
            self._chunks[chunk] = found
            self._num_bytes += found.num_bytes
            while self._num_bytes > _MAX_FOUND_BYTES:
                self._num_bytes -= self._chunks.popitem(last=False)[1].num_bytes


class RaggedSamples:
    """Loads samples of variable size.

    Args:
        chunks: Reads the chunks of the samples.
        parser: Finds the fields of records.
        skipped: The damaged chunks that are left out.
    """

    def __init__(self, chunks: SampleChunks, parser: RecordParser, skipped: SkippedChunks) -> None:
        self._chunks = chunks
        self._skipped = skipped
        self._parser = parser
        self._found = _Found()

    def output_bytes(self, _window_bytes: int) -> None:
        """Return None: the size is not known before the samples are read."""

    def load(self, spans: Sequence[Span], rows: Rows, _memory: Memory) -> Loaded:
        """Read spans and return ``rows`` of their samples; see ``Source``."""
        parts: list[FramedRecords] = []
        missing: list[bool] = []

        def read(span: Span) -> None:
            records = self._try_records(span) if self._skipped.most else self._records(span)
            # A chunk that is left out yields blank records, so that rows keep their numbers.
            missing.extend([records is None] * (span.stop - span.start))
            parts.append(
                records or FramedRecords(_NOTHING, self._parser.blank(span.stop - span.start))
            )

        self._chunks.expect(spans)
        error = try_each(spans, read)
        if error is not None:
            # Samples before the damaged chunk are delivered first, then the error is raised.
            rows = rows_before(rows, len(missing), error)
        columns = self._parser.columns(parts, rows)
        num_rows = len(next(iter(columns.values())))
        if self._skipped.most:
            columns[MISSING] = Dense(np.array(missing)[rows])
        return Loaded(columns, num_rows, error)

    def _try_records(self, span: Span) -> FramedRecords | None:
        """Return the records of a span, None when its chunk is damaged and may be left out."""
        found: list[FramedRecords] = []
        self._skipped.attempt(
            span.chunk, self._chunks.info(span.chunk), lambda: found.append(self._records(span))
        )
        return found[0] if found else None

    def _records(self, span: Span) -> FramedRecords:
        """Return the records of a span."""
        chunk, info = span.chunk, self._chunks.info(span.chunk)
        if is_mapped := self._chunks.is_mapped(info):
            framing = self._chunks.view(chunk, info, _accept)
        else:
            framing = self._chunks.framing(span, info, _accept)
        # The places in a chunk are found once, while the windows that share the chunk are loaded;
        # the framing may be read again.
        found = None if self._chunks.always_verifies else self._found.get(chunk)
        if found is None:
            try:
                places = record_places(framing.data, info.num_records)
                found = self._parser.parse(framing.data, places)
            except FormatError as error:
                raise self._chunks.located(error, chunk, info) from None
            self._found.put(chunk, found)
        is_all = span.stop - span.start == info.num_records
        own = found if is_all else found.part(span.start, span.stop)
        return FramedRecords(framing.data, own, is_mapped)


def _accept(_framing: NDArray[np.uint8]) -> None:
    """Accept any framing: ``parse`` checks the records."""


# --- Record files as a source: published versions, and RecordIO files with their indexes

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
        files: ChunkFiles,
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

    @property
    def files(self) -> ChunkFiles:
        """The shards."""
        return self._files

    def output_bytes(self, window_bytes: int) -> int | None:
        """Return the bytes that ``load`` needs for a window of ``window_bytes``; see ``Source``."""
        return self._samples.output_bytes(window_bytes)

    def num_reread(self) -> int:
        """Return how often reads were repeated."""
        return self._files.num_retries

    def close(self) -> None:
        """Close files; a later load opens them again."""
        self._chunks.close()
