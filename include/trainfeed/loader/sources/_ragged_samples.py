"""Samples of variable size from chunks."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from trainfeed.errors import FormatError
from trainfeed.loader.columns import Dense, Memory, Rows
from trainfeed.loader.order import Span
from trainfeed.loader.sources._chunks import SampleChunks
from trainfeed.loader.sources._framed_records import FoundRecords, FramedRecords, RecordParser
from trainfeed.loader.sources._skips import MISSING, SkippedChunks
from trainfeed.loader.sources._source import Loaded, rows_before, try_each
from trainfeed.samples import record_places
from trainfeed.thread_ties import new_lock

__all__ = ["RaggedSamples"]

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
            missing.extend([records is None] * (span.stop - span.start))
            parts.append(
                records or FramedRecords(_NOTHING, self._parser.blank(span.stop - span.start))
            )

        self._chunks.expect(spans)
        error = try_each(spans, read)
        if error is not None:
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
