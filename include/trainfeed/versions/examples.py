"""Shards of data sets in TFRecord, in runs of Examples, which correspond to chunks of RecordIO."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO, Final

import numpy as np
from isal import isal_zlib
from numpy.typing import NDArray

from trainfeed.errors import ChecksumError, FormatError, SampleShapeError, TruncatedError
from trainfeed.files import path_of, write_all
from trainfeed.recordio import (
    MAX_RAW_BYTES,
    ChunkFraming,
    ChunkInfo,
    ChunkLimits,
    decode_payload,
    read_chunk,
)
from trainfeed.samples import Schema, TypedCodec, frame_records, rows_or_none
from trainfeed.tfrecord import ExampleCodec, TFRecordWriter, iter_records
from trainfeed.versions.chunk_index import Chunk, ExampleRun

# The value of ``RecordWriter``, so that runs hold the same records as its chunks.
_QUANTUM_RECORDS: Final = 256


class ExampleRunWriter:
    """Writes typed records as Examples; equal records give equal bytes. For one thread at a time.

    Args:
        file: Gets the runs from its position on and stays open.
        schema: Schema of the records.
        max_chunk_bytes: Bytes of typed records at which a run ends; see ``RecordWriter``.

    Attributes:
        chunks: The runs written so far; all of them after ``close``.
    """

    def __init__(self, file: BinaryIO, schema: Schema, *, max_chunk_bytes: int) -> None:
        self.chunks: list[ExampleRun] = []
        self._file = file
        self._offset_bytes = file.tell()
        self._typed, self._examples = TypedCodec(schema), ExampleCodec(schema)
        self._pending = ChunkFraming(ChunkLimits(max_chunk_bytes, MAX_RAW_BYTES, _QUANTUM_RECORDS))
        self._num_written = 0

    @property
    def num_records(self) -> int:
        """Number of records given, also of those not yet in a run."""
        return self._num_written + self._pending.num_records

    def write(self, record: bytes) -> None:
        """Add a typed record.

        Raises:
            FormatError: The record is too long, as it is or as an Example.
            StorageError: The file refused the bytes.
        """
        while not self._pending.append(record):
            self._write_run()

    def write_array(self, records: NDArray[np.void]) -> None:
        """Add typed records of one size.

        Args:
            records: Shape ``(n,)``; the bytes of an item are a record.

        Raises:
            FormatError: The records are too long, as they are or as Examples.
            StorageError: The file refused the bytes.
        """
        items = np.ascontiguousarray(records).view(f"V{records.itemsize}")
        # ``extend`` takes as many records as the run has room for.
        while len(items := items[self._pending.extend(items) :]):
            self._write_run()

    def close(self) -> None:
        """Write the last run. Without records the file keeps its length.

        Raises:
            StorageError: The file refused the bytes.
        """
        if self._pending.num_records:
            self._write_run(last=True)

    def _write_run(self, *, last: bool = False) -> None:
        framing, num_records = self._pending.take(last=last)
        stored = self._stored(framing, num_records)
        write_all(self._file, stored)
        run = ExampleRun(
            offset_bytes=self._offset_bytes,
            stored_bytes=len(stored),
            raw_bytes=len(framing),
            num_records=num_records,
            crc32=isal_zlib.crc32(stored),
        )
        self.chunks.append(run)
        self._offset_bytes += run.stored_bytes
        self._num_written += num_records

    def _stored(self, framing: memoryview, num_records: int) -> memoryview:
        buffer = io.BytesIO()
        writer = TFRecordWriter(buffer)
        columns = self._typed.decode_columns(framing, num_records)
        for record in self._examples.encode_columns(columns):
            writer.write(record)
        writer.close()
        return buffer.getbuffer()


class ExampleRunDecoder:
    """Turns runs into the framing of typed records; threads may share it. See ``ChunkDecoder``.

    It decodes chunks of RecordIO, too: a range of intervals may have versions from before its
    data set changed to TFRecord.

    Args:
        schema: Schema of the records.
    """

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._typed, self._examples = TypedCodec(schema), ExampleCodec(schema)

    def read(self, file: BinaryIO, chunk: Chunk) -> memoryview:
        """Read a run from a seekable file and return the framing, in new memory.

        Raises:
            TruncatedError: The file ends before the run does.
            FormatError: The run is not that of the index.
        """
        if isinstance(chunk, ChunkInfo):
            return read_chunk(file, chunk)
        try:
            file.seek(chunk.offset_bytes)
            stored = file.read(chunk.stored_bytes)
            if len(stored) < chunk.stored_bytes:
                raise TruncatedError(
                    f"expected {chunk.stored_bytes} bytes of records, the file has {len(stored)}",
                    offset_bytes=chunk.offset_bytes,
                )
            return self.framing(chunk, stored)
        except FormatError as error:
            error.path = path_of(file)
            raise

    def decode(
        self, chunk: Chunk, head: memoryview, payload: memoryview, out: memoryview, *, verify: bool
    ) -> None:
        """Decode a run whose bytes were read before; its head is empty.

        Raises:
            ChecksumError: The bytes are not those that were published.
            FormatError: The records are no Examples of the schema, or their number is wrong.
        """
        if isinstance(chunk, ChunkInfo):
            decode_payload(chunk, head, payload, out, verify=verify)
        else:
            out[:] = self.framing(chunk, payload, verify=verify)

    def framing(
        self, run: ExampleRun, stored: bytes | memoryview, *, verify: bool = True
    ) -> memoryview:
        """Return the framing of the typed records of a run, in new memory.

        Args:
            run: The run; the bytes must agree with all its numbers.
            stored: ``run.stored_bytes`` of its file. The checksums in the records are always
                compared.
            verify: Whether to compare the checksum of the index.

        Raises:
            ChecksumError: The bytes are not those that were published.
            FormatError: The records are no Examples of the schema, or their number is wrong.
        """
        try:
            return self._framing(run, stored, verify=verify)
        except FormatError as error:
            error.offset_bytes = run.offset_bytes + (error.offset_bytes or 0)
            raise

    def _framing(self, run: ExampleRun, stored: bytes | memoryview, *, verify: bool) -> memoryview:
        if verify and (crc32 := isal_zlib.crc32(stored)) != run.crc32:
            raise ChecksumError(f"expected CRC-32 {run.crc32:#010x}, got {crc32:#010x}")
        records = list(iter_records(io.BytesIO(stored), compression=""))
        if len(records) != run.num_records:
            raise FormatError(
                f"expected {run.num_records} records as in the index, got {len(records)}"
            )
        try:
            framing = self._typed_framing(self._examples.decode_records(records))
        except SampleShapeError as error:
            raise FormatError(f"expected samples of the schema: {error}") from error
        if len(framing) != run.raw_bytes:
            raise FormatError(
                f"expected {run.raw_bytes} bytes of framing as in the index, got {len(framing)}"
            )
        return framing

    def _typed_framing(self, columns: Mapping[str, NDArray[Any]]) -> memoryview:
        if not self._schema.is_fixed:
            return frame_records([self._typed.encode(sample) for sample in _samples(columns)])
        return frame_records(self._typed.encode_columns(columns))


def _samples(columns: Mapping[str, NDArray[Any]]) -> Iterator[dict[str, Any]]:
    """Yield the samples of columns, with None for absent fields."""
    for sample in zip(*map(rows_or_none, columns.values()), strict=True):
        yield dict(zip(columns, sample, strict=True))
