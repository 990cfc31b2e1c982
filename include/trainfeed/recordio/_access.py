"""Records by their ordinals, in any order."""

from __future__ import annotations

import operator
from array import array
from collections.abc import Iterable
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Final, Self, SupportsIndex

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from trainfeed.errors import FormatError
from trainfeed.paths import FilePath, SetWatch
from trainfeed.recordio._byte_source import MappedFile, open_source
from trainfeed.recordio._chunk import ChunkBuffers, ChunkReader
from trainfeed.recordio._chunk_index import RecordIndex
from trainfeed.recordio._framing import record_bounds
from trainfeed.recordio._recordio_format import HEADER_BYTES, LENGTH, MAX_RAW_BYTES, Codec, located

__all__ = ["RandomAccess"]

# Marks of a chunk that has no usable stride:
_UNSEEN: Final = 0  # not verified yet, or compressed
_UNEVEN: Final = -1  # verified; its records differ in size


class RandomAccess:
    """An open file whose records are read by number.

    The object keeps the chunk that was decoded last, so neighbouring records cost nothing. After
    an uncompressed chunk was verified once, only the requested records of it are read. Use the
    object as a context manager, or close it. Threads must not share it: give each thread its own.

    Args:
        path: The file.
        index: The index of the file, or of one of its chunks; None loads it. Ordinals count from
            the first record of the index.
        mapped: Map the file instead of reading it; see ``MappedFile`` for when that is wise.
        max_raw_bytes: Limit for the bytes of a chunk's framing; a larger chunk is refused.

    Attributes:
        index: As above.

    Raises:
        NotFoundError: No file is at the path.
        FormatError: The file has damaged headers, and no index was given; or it has another size
            than the manifest of its set says.
    """

    def __init__(
        self,
        path: FilePath,
        index: RecordIndex | None = None,
        *,
        mapped: bool = False,
        max_raw_bytes: int = MAX_RAW_BYTES,
    ) -> None:
        SetWatch([path])
        self.index = RecordIndex.load(path) if index is None else index
        chunks = self.index.chunks
        self._ends = np.cumsum([chunk.num_records for chunk in chunks], dtype=np.int64)
        self._firsts = self._ends - np.array([chunk.num_records for chunk in chunks], np.int64)
        self._payloads = np.array(
            [chunk.offset_bytes + HEADER_BYTES for chunk in chunks], dtype=np.int64
        )
        self._strides = np.full(len(chunks), _UNSEEN, dtype=np.int64)
        self._known_bounds: dict[int, array[int]] = {}
        self._number: int | None = None
        self._framing = memoryview(b"")
        self._bounds: array[int] = array("Q")
        self._closing = ExitStack()
        file = self._closing.enter_context(MappedFile(path)) if mapped else path
        self._source = self._closing.enter_context(open_source(file))
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
        reader = self._open_reader()
        return self._record(reader, *self.index.locate(operator.index(i)))

    def get_many(self, ordinals: Iterable[SupportsIndex]) -> list[bytes]:
        """Return records in the requested order; an ordinal may be repeated.

        Each chunk is read and decoded once, in the order of the file.

        Args:
            ordinals: A list, or an integer array of shape ``(n,)``.

        Raises:
            IndexError: An ordinal is out of range; nothing was read.
            ChecksumError: A chunk is damaged.
            FormatError: The file and the index differ.
            ValueError: The file is closed.
        """
        reader = self._open_reader()
        numbers, places = self._locate(ordinals)
        if (rows := self._mapped_rows(numbers, places)) is not None:
            # tolist() turns items of a void dtype into bytes.
            records: list[bytes] = rows.view(f"V{rows.shape[1]}")[:, 0].tolist()
            return records
        return self._get(reader, numbers, places)

    def gather(self, ordinals: Iterable[SupportsIndex]) -> NDArray[np.uint8]:
        """Return records of one size as the rows of an array, in the requested order.

        Args:
            ordinals: A list, or an integer array of shape ``(n,)``.

        Returns:
            Shape ``(n, record_bytes)``, in memory of its own; ``(0, 0)`` for no ordinals.

        Raises:
            IndexError: An ordinal is out of range; nothing was read.
            ChecksumError: A chunk is damaged.
            FormatError: The records differ in size, or the file and the index differ.
            ValueError: The file is closed.
        """
        reader = self._open_reader()
        numbers, places = self._locate(ordinals)
        if not len(numbers):
            return np.empty((0, 0), np.uint8)
        if (rows := self._mapped_rows(numbers, places)) is not None:
            return rows
        records = self._get(reader, numbers, places)
        sizes = set(map(len, records))
        if len(sizes) > 1:
            raise FormatError(
                f"expected records of one size, they have {min(sizes)} to {max(sizes)} bytes",
                path=self._source.path,
            )
        return np.frombuffer(bytearray().join(records), np.uint8).reshape(len(records), -1)

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

    def _open_reader(self) -> ChunkReader:
        if self._reader is None:
            raise ValueError("the file is closed")
        return self._reader

    def _locate(
        self, ordinals: Iterable[SupportsIndex]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the number of each record's chunk and its place in it, both of shape ``(n,)``."""
        values: Any = ordinals
        if not (isinstance(ordinals, np.ndarray) and ordinals.dtype.kind in "iu"):
            values = [operator.index(i) for i in ordinals]
        exact: NDArray[Any] = np.asarray(values)
        for value in (exact.min(), exact.max()) if exact.size else ():
            # Checks the smallest and the largest ordinal before anything is read; raises
            # IndexError.
            self.index.locate(int(value))
        wanted = exact.astype(np.int64)
        numbers = np.searchsorted(self._ends, wanted, side="right")
        return numbers, wanted - self._firsts[numbers]

    def _mapped_rows(
        self, numbers: NDArray[np.int64], places: NDArray[np.int64]
    ) -> NDArray[np.uint8] | None:
        """Return records as rows; None unless all are mapped, verified, and of one size."""
        strides = self._strides[numbers]
        stride = int(strides[0]) if len(strides) else _UNSEEN
        if stride <= LENGTH.size or np.any(strides != stride):
            return None
        if (view := self._source.view(0, self._source.num_bytes())) is None:
            return None
        # A record of an uncompressed chunk: start of the payload, ``place`` strides (length word
        # and data), one length word.
        starts = self._payloads[numbers] + places * stride + LENGTH.size
        return _rows_at(view, starts, stride - LENGTH.size)

    def _get(
        self, reader: ChunkReader, numbers: NDArray[np.int64], places: NDArray[np.int64]
    ) -> list[bytes]:
        records = [b""] * len(numbers)
        number_of, place_of = numbers.tolist(), places.tolist()
        # By chunk, so that each chunk is decoded once; ``rank`` is the place in the result.
        for rank in np.argsort(numbers, kind="stable").tolist():
            records[rank] = self._record(reader, number_of[rank], place_of[rank])
        return records

    def _record(self, reader: ChunkReader, number: int, place: int) -> bytes:
        if number != self._number:
            if stride := int(self._strides[number]):
                start, end = place * stride, (place + 1) * stride
                if stride == _UNEVEN:
                    start, end = self._known_bounds[number][place : place + 2]
                first = int(self._payloads[number]) + LENGTH.size
                return self._stored(first + start, end - start - LENGTH.size)
            self._decode(reader, number)
        start, end = self._bounds[place : place + 2]
        return bytes(self._framing[start + LENGTH.size : end])

    def _stored(self, offset_bytes: int, num_bytes: int) -> bytes:
        """Return bytes of a chunk that was verified before."""
        if (view := self._source.view(offset_bytes, num_bytes)) is not None:
            return bytes(view)
        data = bytearray(num_bytes)
        self._source.read_into(offset_bytes, memoryview(data))
        return bytes(data)

    def _decode(self, reader: ChunkReader, number: int) -> None:
        chunk = self.index.chunks[number]
        # Reading overwrites the buffers, also when it fails: the kept chunk is no longer valid.
        self._number = None
        with located(self._source.path, chunk.offset_bytes, number):
            self._framing = reader.read_known(chunk)
            self._bounds = record_bounds(self._framing, chunk.num_records)
        self._number = number
        if chunk.codec is Codec.NONE:
            self._strides[number] = stride = _stride_of(self._bounds)
            if stride == _UNEVEN:
                self._known_bounds[number] = self._bounds


def _stride_of(bounds: array[int]) -> int:
    """Return the distance between records; ``_UNEVEN`` if distances differ."""
    steps = np.diff(np.frombuffer(bounds, np.uint64))
    return int(steps[0]) if np.all(steps == steps[0]) else _UNEVEN


def _rows_at(data: memoryview, starts: NDArray[np.int64], num_bytes: int) -> NDArray[np.uint8]:
    """Return ``num_bytes`` bytes at each of ``starts``, shape ``(n, num_bytes)``."""
    flat = np.frombuffer(data, np.uint8)
    # Row k is the bytes from k on: rows overlap, and indexing copies the chosen ones only.
    rows = as_strided(flat, (flat.size - num_bytes + 1, num_bytes), (1, 1), writeable=False)
    return rows[starts]
