"""Chunks of a data set's shards, in RecordIO or TFRecord.

A reader of one format never imports the other one.
"""

from __future__ import annotations

from collections.abc import Container
from typing import BinaryIO, Protocol

from trainfeed.errors import FormatError
from trainfeed.recordio import ChunkInfo, decode_payload, read_chunk
from trainfeed.samples import Schema
from trainfeed.versions.chunk_index import EXAMPLES, Chunk

# --- Chooses the decoder for the chunks of a data set: the only place that asks for its format


class ChunkDecoder(Protocol):
    """Turns the chunks of a set into the framing of typed records; threads may share a decoder."""

    def read(self, file: BinaryIO, chunk: Chunk) -> memoryview:
        """Read a chunk from a seekable file and return the framing, in new memory.

        Raises:
            TruncatedError: The file ends before the chunk does.
            FormatError: The chunk is not that of the index.
        """

    def decode(
        self, chunk: Chunk, head: memoryview, payload: memoryview, out: memoryview, *, verify: bool
    ) -> None:
        """Decode a chunk whose bytes were read before.

        Args:
            chunk: The chunk; the bytes must agree with all its numbers.
            head: The first ``chunk.head_bytes``.
            payload: The ``chunk.stored_bytes`` that follow.
            out: Gets the framing, ``chunk.raw_bytes``. For a chunk stored without compression,
                ``payload`` is the framing, and ``out`` stays unchanged.
            verify: Whether to compare the checksum of the index.

        Raises:
            ChecksumError: The bytes are not those that were published.
            FormatError: The bytes and the index differ.
        """


class RecordIOChunks:
    """Decodes chunks of RecordIO; see ``ChunkDecoder``."""

    def read(self, file: BinaryIO, chunk: Chunk) -> memoryview:
        """Read a chunk from a seekable file and return the framing, in new memory."""
        return read_chunk(file, _of_recordio(chunk))

    def decode(
        self, chunk: Chunk, head: memoryview, payload: memoryview, out: memoryview, *, verify: bool
    ) -> None:
        """Decode a chunk whose bytes were read before."""
        decode_payload(_of_recordio(chunk), head, payload, out, verify=verify)


def decoder_of(schema: Schema | None, codecs: Container[int]) -> ChunkDecoder:
    """Return the decoder for the chunks of a set.

    Args:
        schema: Schema of the samples; None for records without one.
        codecs: All numbers in the column ``codec`` of the set's index. A set of several versions
            may have both formats.

    Raises:
        FormatError: The set has runs of Examples, and there is no schema.
    """
    if EXAMPLES not in codecs:
        return RecordIOChunks()
    if schema is None:
        raise FormatError("expected a schema beside runs of Examples, got none")
    # Among readers of data sets, only this line leads to an import of TFRecord.
    from trainfeed.versions.examples import ExampleRunDecoder

    return ExampleRunDecoder(schema)


def _of_recordio(chunk: Chunk) -> ChunkInfo:
    if not isinstance(chunk, ChunkInfo):
        raise TypeError(f"expected a chunk of RecordIO, got {type(chunk).__name__}")
    return chunk
