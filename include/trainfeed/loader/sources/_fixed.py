"""Samples of fixed size from chunks: as views, gathered, or where they lie."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trainfeed.dataset.chunks import Chunk
from trainfeed.errors import FormatError, TrainFeedError
from trainfeed.loader.columns import (
    ALIGNMENT_BYTES,
    Columns,
    Dense,
    Memory,
    Rows,
    Scattered,
    ThreadMemory,
    addresses_in,
    count_rows,
)
from trainfeed.loader.order import Span
from trainfeed.loader.sources._chunks import SampleChunks
from trainfeed.loader.sources._rows import RowDecoder
from trainfeed.loader.sources._skips import MISSING, SkippedChunks
from trainfeed.loader.sources._source import Loaded, count_spans, rows_before, try_each
from trainfeed.samples import Schema

__all__ = ["FixedSamples"]


class _Read(NamedTuple):
    """What came of reading spans.

    Attributes:
        num_samples: How many came, up to the first that cannot be read.
        mask: Which of all are missing because they may be; None when none may be.
        error: Why not all came.
    """

    num_samples: int
    mask: NDArray[np.bool_] | None
    error: TrainFeedError | None

    def missing(self, rows: Rows) -> Columns:
        """Return the column that says which rows are missing, if any may be."""
        return {} if self.mask is None else {MISSING: Dense(self.mask[rows])}


class FixedSamples:
    """Loads samples of fixed size.

    Args:
        chunks: Where they are.
        schema: Theirs.
        skipped: Which chunks are left out.
    """

    def __init__(self, chunks: SampleChunks, schema: Schema, skipped: SkippedChunks) -> None:
        self._chunks = chunks
        self._skipped = skipped
        self._decoder = RowDecoder(schema)
        self._scratch = ThreadMemory()

    def output_bytes(self, window_bytes: int) -> int:
        """Return how much memory ``load`` needs for so many bytes of chunks."""
        num_samples = window_bytes // self._decoder.stride_bytes
        decoder = self._decoder
        num_bytes = max(decoder.num_view_bytes(num_samples), decoder.num_gather_bytes(num_samples))
        return num_bytes + (num_samples + ALIGNMENT_BYTES if self._skipped.most else 0)

    def load(self, spans: Sequence[Span], rows: Rows, memory: Memory) -> Loaded:
        """Read spans and return ``rows`` of their samples; see ``Source``."""
        if isinstance(rows, slice):
            if rows.step in (None, 1):
                return self._views(spans, rows, memory)
        elif memory.is_lazy and not self._skipped.most:
            return self._scattered(spans, rows, memory)
        return self._gathered(spans, rows, memory)

    def _views(self, spans: Sequence[Span], rows: slice, memory: Memory) -> Loaded:
        """Return samples one after another, as views of what was read."""
        num_samples, stride = count_spans(spans), self._decoder.stride_bytes
        memory.reserve(self._decoder.num_view_bytes(num_samples))
        framing = memory.array((num_samples * stride,), np.uint8)
        read = self._read(spans, framing)
        if read.error is not None:
            rows = rows_before(rows, read.num_samples, read.error)
        start, stop, _ = rows.indices(num_samples)
        part = framing[start * stride : stop * stride]
        columns = self._decoder.views(part, memory) | read.missing(rows)
        return Loaded(columns, max(0, stop - start), read.error)

    def _gathered(self, spans: Sequence[Span], rows: Rows, memory: Memory) -> Loaded:
        """Return any samples as arrays of their own."""
        num_samples = count_spans(spans)
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
        """Return any samples as places in what was read, or in the files themselves."""
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
        addresses = np.concatenate([addresses_in(part, stride) for part in parts])[rows]
        return Loaded(Scattered(self._decoder.layout, addresses, parts), len(rows))

    def _read(self, spans: Sequence[Span], framing: NDArray[np.uint8]) -> _Read:
        """Read spans one after another, up to the first that cannot be read."""
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
            out[...] = 0
        return is_whole

    def _view(self, span: Span) -> NDArray[np.uint8]:
        """Return the samples of a span where they are mapped."""
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
