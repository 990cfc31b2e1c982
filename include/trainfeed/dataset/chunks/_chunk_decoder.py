"""The one place that asks which format a data set is in: what decodes its chunks is chosen once."""

from __future__ import annotations

from collections.abc import Container
from typing import BinaryIO, Protocol

from trainfeed.dataset.chunks._chunk_kinds import EXAMPLES, Chunk
from trainfeed.errors import FormatError
from trainfeed.recordio import ChunkInfo, decode_payload, read_chunk
from trainfeed.samples import Schema

__all__ = ["ChunkDecoder", "RecordIOChunks", "decoder_of"]


class ChunkDecoder(Protocol):
    """Turns the chunks of a set into the framing of typed records; threads may share it."""

    def read(self, file: BinaryIO, chunk: Chunk) -> memoryview:
        """Read a chunk from a seekable file; return the framing, in memory of its own.

        Raises:
            TruncatedError: The file ends before the chunk does.
            FormatError: It is not the chunk of the index.
        """

    def decode(
        self, chunk: Chunk, head: memoryview, payload: memoryview, out: memoryview, *, verify: bool
    ) -> None:
        """Decode a chunk that was read already.

        Args:
            chunk: The chunk. What was read must agree with it in every number.
            head: Its first ``chunk.head_bytes``.
            payload: The ``chunk.stored_bytes`` that follow them.
            out: Gets the framing, ``chunk.raw_bytes``; of a chunk that is stored as it is, the
                payload is the framing, and ``out`` is not touched.
            verify: Whether to compare the checksum of the index.

        Raises:
            ChecksumError: The bytes are not those that were published.
            FormatError: What was read and the index differ.
        """


class RecordIOChunks:
    """Decodes chunks of RecordIO; see ``ChunkDecoder``."""

    def read(self, file: BinaryIO, chunk: Chunk) -> memoryview:
        """Read a chunk from a seekable file; return the framing, in memory of its own."""
        return read_chunk(file, _of_recordio(chunk))

    def decode(
        self, chunk: Chunk, head: memoryview, payload: memoryview, out: memoryview, *, verify: bool
    ) -> None:
        """Decode a chunk that was read already."""
        decode_payload(_of_recordio(chunk), head, payload, out, verify=verify)


def decoder_of(schema: Schema | None, codecs: Container[int]) -> ChunkDecoder:
    """Return what decodes the chunks of a set.

    Args:
        schema: That of the samples; None for records without one.
        codecs: The numbers in the column ``codec`` of the set's index, each of them. A set of
            several versions may have both formats.

    Raises:
        FormatError: There are runs of Examples, and no schema.
    """
    if EXAMPLES not in codecs:
        return RecordIOChunks()
    if schema is None:
        raise FormatError("expected a schema beside runs of Examples, got none")
    # The only way from reading a data set to TFRecord.
    from trainfeed.dataset.chunks.examples import ExampleRunDecoder

    return ExampleRunDecoder(schema)


def _of_recordio(chunk: Chunk) -> ChunkInfo:
    if not isinstance(chunk, ChunkInfo):
        raise TypeError(f"expected a chunk of RecordIO, got {type(chunk).__name__}")
    return chunk
