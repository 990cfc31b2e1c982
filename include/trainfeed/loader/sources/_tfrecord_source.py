"""Runs of records of TFRecord files as a source."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator, Sequence
from contextlib import suppress
from operator import ne
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trainfeed.errors import FormatError
from trainfeed.loader.columns import (
    ALIGNMENT_BYTES,
    Columns,
    Dense,
    FreshMemory,
    Memory,
    Ragged,
    Rows,
)
from trainfeed.loader.files import ShardFiles
from trainfeed.loader.order import Span
from trainfeed.loader.sources._framed_records import RECORD
from trainfeed.loader.sources._known_chunks import Verified, Verify
from trainfeed.loader.sources._source import Loaded, count_spans, rows_before, try_each
from trainfeed.loader.sources._tfrecord_places import FOOT_BYTES, HEAD_BYTES, RecordPlaces
from trainfeed.samples import Schema, absent_rows
from trainfeed.tfrecord import ExampleCodec, iter_records

__all__ = ["TFRecordSource"]

_CHUNK_BYTES: Final = 1 << 20


class TFRecordSource:
    """Runs of records of TFRecord files.

    Args:
        files: The files.
        fields: Fields of the Examples; None for plain records.
        places: Per file the places of its records.
        verify: When checksums are compared.
    """

    def __init__(
        self,
        files: ShardFiles,
        fields: Schema | None,
        places: Sequence[RecordPlaces],
        *,
        verify: Verify,
    ) -> None:
        self._files = files
        self._codec = None if fields is None else ExampleCodec(fields)
        digest = hashlib.sha256(b"tfrecord")
        starts, shards, firsts = [], [], [0]
        for shard, (bounds, checksums) in enumerate(places):
            digest.update(bounds.tobytes() + checksums.tobytes())
            cuts = _cuts(bounds)
            base = firsts[-1]
            firsts += [base + int(cut) for cut in cuts[1:]]
            shards += [shard] * (len(cuts) - 1)
            starts.append(bounds)
        # Per record of all files the start and end of its data; per chunk the number of its first
        # record. A chunk is a run of records of one file, about _CHUNK_BYTES long.
        self._places: NDArray[np.int64] = (
            np.concatenate(starts) if starts else np.empty((0, 2), np.int64)
        )
        self._shards, self._firsts = np.array(shards, np.int64), np.array(firsts, np.int64)
        self.num_samples: NDArray[np.int64] = np.diff(self._firsts)
        self.num_bytes = self._chunk_bytes()
        self.natural_window_bytes = 4 * _CHUNK_BYTES
        digest.update(self.num_samples.tobytes())
        self.digest = digest.hexdigest()[:16]
        self._verified = Verified(verify, len(self._shards))

    def load(self, spans: Sequence[Span], rows: Rows, memory: Memory, /) -> Loaded:
        """Read spans and return ``rows`` of their samples; see ``Source``."""
        sizes = [int(self.num_bytes[span.chunk]) for span in spans]
        # A worker's slot gets the values when they are packed; the raw records need no place in it.
        own = memory if memory.is_lazy else FreshMemory()
        own.reserve(sum(size + ALIGNMENT_BYTES for size in sizes))
        buffers: list[memoryview] = []

        def read(span: Span) -> None:
            data = own.array((sizes[len(buffers)],), np.uint8).data
            self._read(span.chunk, data)
            buffers.append(data)

        self.expect(spans)
        error = try_each(spans, read)
        spans = spans[: len(buffers)]
        if error is not None:
            rows = rows_before(rows, count_spans(spans), error)
        places = [
            np.column_stack(
                [
                    # Rows of (number of the buffer, start, end); places are relative to the
                    # chunk's first byte.
                    np.full(span.stop - span.start, i),
                    self._places_in(span.chunk)[span.start : span.stop],
                ]
            )
            for i, span in enumerate(spans)
        ]
        chosen = np.concatenate(places)[rows]
        if self._codec is None:
            columns: Columns = {RECORD: Ragged(buffers, chosen, "bytes")}
            return Loaded(columns, len(chosen), error)
        records = [buffers[b][start:end] for b, start, end in chosen.tolist()]
        arrays = None
        with suppress(FormatError):
            arrays = self._codec.decode_records(records)
        if arrays is None:
            good, error = self._first_bad(self._codec, records, chosen, spans)
            # Raises unless the rows before it are those of natural order.
            rows_before(rows, rows.start + good if isinstance(rows, slice) else 0, error)
            records = records[:good]
            arrays = self._codec.decode_records(records)
        return Loaded({name: _dense(array) for name, array in arrays.items()}, len(records), error)

    def _first_bad(
        self,
        codec: ExampleCodec,
        records: Sequence[memoryview],
        chosen: NDArray[np.int64],
        spans: Sequence[Span],
    ) -> tuple[int, FormatError]:
        """Return how many records come before the first that does not match, and its error.

        Args:
            codec: Decodes the records, of which one does not match.
            records: The records.
            chosen: For each record the number of its span, and start and end in the span's chunk.
            spans: The spans.
        """
        for row, record in enumerate(records):
            try:
                codec.decode(record)
            except FormatError as error:
                number, start = int(chosen[row, 0]), int(chosen[row, 1])
                chunk = spans[number].chunk
                shard = int(self._shards[chunk])
                # Places relative to the chunk become those in the file.
                start += self._range(chunk)[0]
                first = self._firsts[np.searchsorted(self._shards, shard)]
                last = self._firsts[np.searchsorted(self._shards, shard, "right")]
                of_file = self._places[first:last, 0]
                error.args = (f"record {np.searchsorted(of_file, start)}: {error.args[0]}",)
                error.path = self._files.paths[shard]
                error.offset_bytes = start + (error.offset_bytes or 0)
                return row, error
        raise AssertionError("the records match one by one, and not together")

    def expect(self, spans: Sequence[Span], /) -> None:
        """Let the kernel begin to read spans; see ``Source``."""
        for span in spans:
            start, end = self._range(span.chunk)
            self._files.expect(int(self._shards[span.chunk]), start, end - start)

    def output_bytes(self, _window_bytes: int, /) -> int | None:
        """Return None: the size is not known before the records are read."""
        return None

    def num_reread(self) -> int:
        """Return how many reads were repeated."""
        return self._files.num_retries

    def close(self) -> None:
        """Close files; a later load opens them again."""
        self._files.close()

    def _read(self, chunk: int, data: memoryview) -> None:
        """Fill ``data`` with a chunk."""
        start, _ = self._range(chunk)
        shard = int(self._shards[chunk])
        self._files.read(shard, start, [data])
        if self._verified.is_due(chunk):
            try:
                self._require_places(chunk, iter_records(io.BytesIO(data), compression=""))
            except FormatError as error:
                error.path = self._files.paths[shard]
                error.offset_bytes = start + (error.offset_bytes or 0)
                raise
            self._verified.add(chunk)

    def _require_places(self, chunk: int, records: Iterator[bytes]) -> None:
        """Read the records of a chunk, which verifies them; compare lengths with the index."""
        expected = np.diff(self._places_in(chunk))[:, 0].tolist()
        if (found := [len(record) for record in records]) != expected:
            # The first length that differs; if one list is a prefix of the other, its end.
            number = [*map(ne, found, expected), True].index(True)
            raise FormatError(
                f"expected {len(expected)} records with the lengths of the index, got {len(found)}"
                f" records, and another length from record {number} of these on; open the file"
                " again, with an empty index_folder"
            )

    def _range(self, chunk: int) -> tuple[int, int]:
        first, last = self._firsts[chunk], self._firsts[chunk + 1] - 1
        # Places are those of the data: a chunk also has the first record's header and the last
        # one's checksum.
        start = int(self._places[first, 0]) - HEAD_BYTES
        return start, int(self._places[last, 1]) + FOOT_BYTES

    def _places_in(self, chunk: int) -> NDArray[np.int64]:
        first, last = self._firsts[chunk], self._firsts[chunk + 1]
        return np.asarray(self._places[first:last] - self._range(chunk)[0])

    def _chunk_bytes(self) -> NDArray[np.int64]:
        ranges = [self._range(chunk) for chunk in range(len(self._shards))]
        return np.array([end - start for start, end in ranges], np.int64)


def _cuts(places: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the number of each chunk's first record, and at the end the number of records."""
    if not len(places):
        return np.zeros(1, np.int64)
    # A record belongs to the stretch of _CHUNK_BYTES in which it starts; a chunk starts where that
    # number changes.
    chunks = (places[:, 0] - HEAD_BYTES) // _CHUNK_BYTES
    return np.concatenate([[0], np.flatnonzero(np.diff(chunks)) + 1, [len(places)]])


def _dense(array: NDArray[Any]) -> Dense:
    if not isinstance(array, np.ma.MaskedArray):
        return Dense(array)
    return Dense(array.data, absent_rows(array))
