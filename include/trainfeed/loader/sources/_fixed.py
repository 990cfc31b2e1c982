"""Samples of fixed size from chunks: as views, as gathered copies, or as addresses."""

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
        """Return samples in stored order, as views of the framing."""
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
        """Return samples in any order, copied to arrays of their own."""
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
