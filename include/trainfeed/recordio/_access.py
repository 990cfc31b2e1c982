"""Records by their ordinals, in any order."""

from __future__ import annotations

import operator
from array import array
from collections.abc import Iterable
from contextlib import ExitStack
from types import TracebackType
from typing import Self, SupportsIndex

from trainfeed.recordio._chunk import ChunkBuffers, ChunkReader
from trainfeed.recordio._files import FilePath, open_source
from trainfeed.recordio._format import LENGTH, MAX_RAW_BYTES, located
from trainfeed.recordio._framing import record_bounds
from trainfeed.recordio._index import RecordIndex

__all__ = ["RandomAccess"]


class RandomAccess:
    """An open file whose records are read by number.

    Keeps the chunk that was decoded last, so neighbours cost nothing. Use it as a context manager,
    or close it. Not for two threads at once: give each its own.

    Args:
        path: The file.
        index: Its index, or that of one of its chunks; None to load it. Ordinals count from the
            first record of the index.
        max_raw_bytes: Refuse a chunk whose framing is longer.

    Attributes:
        index: As above.

    Raises:
        NotFoundError: No file is at the path.
        FormatError: The file has damaged headers, and no index was given.
    """

    def __init__(
        self,
        path: FilePath,
        index: RecordIndex | None = None,
        *,
        max_raw_bytes: int = MAX_RAW_BYTES,
    ) -> None:
        self.index = RecordIndex.load(path) if index is None else index
        self._number: int | None = None
        self._framing = memoryview(b"")
        self._bounds: array[int] = array("Q")
        self._closing = ExitStack()
        self._source = self._closing.enter_context(open_source(path))
        self._reader: ChunkReader | None = ChunkReader(self._source, ChunkBuffers(), max_raw_bytes)

    def __len__(self) -> int:
        return self.index.num_records

    def get(self, i: SupportsIndex) -> bytes:
        """Return record ``i``.

        Raises:
            IndexError: There is no record ``i``; negative numbers are not counted from the end.
            ChecksumError: The chunk is damaged.
            FormatError: The file and the index differ.
            ValueError: The file is closed.
        """
        return self.get_many([i])[0]

    def get_many(self, ordinals: Iterable[SupportsIndex]) -> list[bytes]:
        """Return records in the order asked for, repeated ones repeatedly.

        Each chunk is read and decoded once, in the order of the file.

        Args:
            ordinals: A list, or an integer array of shape ``(n,)``.

        Raises:
            IndexError: There is no such record; nothing was read.
            ChecksumError: A chunk is damaged.
            FormatError: The file and the index differ.
            ValueError: The file is closed.
        """
        if self._reader is None:
            raise ValueError("the file is closed")
        places = [self.index.locate(operator.index(i)) for i in ordinals]
        records = [b""] * len(places)
        for rank in sorted(range(len(places)), key=places.__getitem__):
            number, place = places[rank]
            if number != self._number:
                self._decode(self._reader, number)
            start, end = self._bounds[place : place + 2]
            records[rank] = bytes(self._framing[start + LENGTH.size : end])
        return records

    def close(self) -> None:
        """Close the file; safe to call twice."""
        self._reader = None
        self._closing.close()

    def __enter__(self) -> Self:
        """Return the object itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the file."""
        self.close()

    def _decode(self, reader: ChunkReader, number: int) -> None:
        chunk = self.index.chunks[number]
        # The buffers are overwritten, also when this fails half-way.
        self._number = None
        with located(self._source.path, chunk.offset_bytes, number):
            self._framing = reader.read_known(chunk)
            self._bounds = record_bounds(self._framing, chunk.num_records)
        self._number = number
