"""The index of a file: counting and random access without reading the data."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from typing import BinaryIO, Final, Self, SupportsIndex

import numpy as np
from crc32c import crc32c
from numpy.typing import NDArray

from trainfeed.errors import ChecksumError, ConfigError, FormatError, TruncatedError
from trainfeed.files import FilePath, SetWatch, os_errors, path_of
from trainfeed.tfrecord.format import (
    CHECKSUM,
    HEADER_BYTES,
    MAX_RECORD_BYTES,
    Compression,
    masked,
    open_file,
    read_at,
    sniff,
    unpack_header,
)

# Bytes that are read at once during the walk through the headers: many short records, or the start
# of a long one.
_WINDOW_BYTES: Final = 1 << 16


class TFRecordIndex:
    """The records of a file without compression, in file order.

    Attributes:
        offsets: Offsets of the records' headers, shape ``(n,)``, int64.
        sizes: Lengths of the records' data in bytes, shape ``(n,)``, int64.
    """

    def __init__(self, offsets: NDArray[np.int64], sizes: NDArray[np.int64]) -> None:
        self.offsets = offsets
        self.sizes = sizes

    @classmethod
    def load(cls, file: FilePath | BinaryIO) -> TFRecordIndex:
        """Read the headers of a file.

        Every length is verified by its checksum; data are neither read nor verified.

        Args:
            file: A path, or a seekable binary file, which is read from its first byte.

        Raises:
            TruncatedError: The file ends inside a record.
            ChecksumError: A length is damaged.
            ConfigError: The file is compressed, so records have no offsets in it.
        """
        with open_file(file) as opened:
            pairs = list(_walk(opened, path_of(file)))
        table = np.array(pairs, np.int64).reshape(len(pairs), 2)
        return cls(table[:, 0].copy(), table[:, 1].copy())

    @property
    def num_records(self) -> int:
        """Number of records in the file."""
        return len(self.offsets)

    def place(self, i: int) -> tuple[int, int]:
        """Return the offset of record ``i``, and the length of its data in bytes.

        Raises:
            IndexError: There is no record ``i``; negative numbers are not counted from the end.
        """
        if not 0 <= i < self.num_records:
            raise IndexError(f"expected a record number from 0 to {self.num_records - 1}, got {i}")
        return int(self.offsets[i]), int(self.sizes[i])


class TFRecordAccess:
    """An open file without compression whose records are read by number.

    Use the object as a context manager, or close it. Threads must not share it: give each thread
    its own.

    Args:
        path: The file.
        index: Index of the file; None loads it.
        max_record_bytes: Limit for the length of a record; a longer one is refused.

    Attributes:
        index: As above.

    Raises:
        NotFoundError: No file is at the path.
        ConfigError: The file is compressed, and no index was given.
        FormatError: The file has damaged headers, and no index was given; or it has another size
            than the manifest of its set says.
    """

    def __init__(
        self,
        path: FilePath,
        index: TFRecordIndex | None = None,
        *,
        max_record_bytes: int = MAX_RECORD_BYTES,
    ) -> None:
        SetWatch([path])
        self.index = TFRecordIndex.load(path) if index is None else index
        self._path = os.fspath(path)
        self._max_record_bytes = max_record_bytes
        self._closing = ExitStack()
        self._file: BinaryIO | None = self._closing.enter_context(open_file(path))

    def __len__(self) -> int:
        return self.index.num_records

    def get(self, i: SupportsIndex) -> bytes:
        """Return record ``i``.

        Raises:
            IndexError: There is no record ``i``; negative numbers are not counted from the end.
            ChecksumError: The record is damaged.
            FormatError: The file and the index differ, or the record is longer than allowed.
            ValueError: The file is closed.
        """
        if self._file is None:
            raise ValueError("the file is closed")
        number = operator.index(i)
        offset_bytes, num_bytes = self.index.place(number)
        try:
            return self._read(self._file, offset_bytes, num_bytes)
        except FormatError as error:
            error.path, error.offset_bytes = self._path, offset_bytes
            error.args = (f"record {number}: {error.args[0]}",)
            raise

    def get_many(self, ordinals: Iterable[SupportsIndex]) -> list[bytes]:
        """Return records in the requested order; an ordinal may be repeated.

        Records are read in the order of the file.

        Args:
            ordinals: A list, or an integer array of shape ``(n,)``.

        Raises:
            IndexError: An ordinal is out of range; nothing was read.
            ChecksumError: A record is damaged.
            FormatError: The file and the index differ, or a record is longer than allowed.
            ValueError: The file is closed.
        """
        numbers = [operator.index(i) for i in ordinals]
        # All numbers are checked before the first read.
        for number in (min(numbers), max(numbers)) if numbers else ():
            self.index.place(number)
        # In file order and once each: fewer seeks, and repeated records are read once.
        found = {number: self.get(number) for number in sorted(set(numbers))}
        return [found[number] for number in numbers]

    def close(self) -> None:
        """Close the file; safe to call twice."""
        self._file = None
        self._closing.close()

    def __enter__(self) -> Self:
        """Return the object itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        self.close()

    def _read(self, file: BinaryIO, offset_bytes: int, num_bytes: int) -> bytes:
        if num_bytes > self._max_record_bytes:
            raise FormatError(
                f"expected a record of at most {self._max_record_bytes} bytes, the index says"
                f" {num_bytes}; raise max_record_bytes if the file can be trusted"
            )
        whole_bytes = HEADER_BYTES + num_bytes + CHECKSUM.size
        data = read_at(file, offset_bytes, whole_bytes, self._path)
        if len(data) < whole_bytes:
            raise TruncatedError(f"expected a record of {whole_bytes} bytes, got {len(data)}")
        if unpack_header(data[:HEADER_BYTES], self._max_record_bytes) != num_bytes:
            raise FormatError(f"expected a record of {num_bytes} bytes as in the index")
        record = data[HEADER_BYTES : HEADER_BYTES + num_bytes]
        (stored,) = CHECKSUM.unpack_from(data, HEADER_BYTES + num_bytes)
        if (computed := masked(crc32c(record))) != stored:
            raise ChecksumError(f"expected masked CRC-32C {stored:#010x}, got {computed:#010x}")
        return record


class TFRecordRange:
    """The records ``[start, start + length)`` of a file, like a slice of the list of all records.

    The object can be iterated again.

    Args:
        path: The file.
        index: Index of the file.
        start: Number of the first record; below 0 counts as 0.
        length: Number of records; a number below 0, or after the end, means up to the end.
        max_record_bytes: Limit for the length of a record; a longer one is refused.
    """

    def __init__(
        self,
        path: FilePath,
        index: TFRecordIndex,
        *,
        start: int = 0,
        length: int = -1,
        max_record_bytes: int = MAX_RECORD_BYTES,
    ) -> None:
        self._path = path
        self._index = index
        first = min(max(start, 0), index.num_records)
        left = index.num_records - first
        self._ordinals = range(first, first + (left if length < 0 else min(length, left)))
        self._max_record_bytes = max_record_bytes

    def __iter__(self) -> Iterator[bytes]:
        """Read the range.

        Raises:
            TruncatedError: The file ends inside a record.
            ChecksumError: A record is damaged.
            FormatError: The file and the index differ, or a record is longer than allowed.
        """
        with TFRecordAccess(
            self._path, self._index, max_record_bytes=self._max_record_bytes
        ) as records:
            yield from map(records.get, self._ordinals)


def _walk(file: BinaryIO, path: str | None) -> Iterator[tuple[int, int]]:
    """Yield the offset of each record, and the length of its data in bytes."""
    with os_errors(path):
        end_bytes = file.seek(0, os.SEEK_END)
    window, window_bytes, offset_bytes, number, size = b"", 0, 0, 0, 0
    try:
        while offset_bytes < end_bytes:
            # Place of the header in the window; beyond its end if the record before was longer
            # than the window.
            place = offset_bytes - window_bytes
            header = window[place : place + HEADER_BYTES]
            if len(header) < HEADER_BYTES:
                # After a long record only a header is read: a whole window would hold data only.
                want_bytes = _WINDOW_BYTES if size < _WINDOW_BYTES else HEADER_BYTES
                window = read_at(file, offset_bytes, want_bytes, path)
                window_bytes, header = offset_bytes, window[:HEADER_BYTES]
                if not number:
                    _require_plain(header)
            size = _size(header, end_bytes - offset_bytes)
            yield offset_bytes, size
            offset_bytes, number = offset_bytes + HEADER_BYTES + size + CHECKSUM.size, number + 1
    except FormatError as error:
        error.path, error.offset_bytes = path, offset_bytes
        error.args = (f"record {number}: {error.args[0]}",)
        raise


def _size(header: bytes, left_bytes: int) -> int:
    if len(header) < HEADER_BYTES:
        raise TruncatedError(
            f"expected a header of {HEADER_BYTES} bytes, the file has {len(header)}"
        )
    # No limit except the end of the file: the data after a header are not read.
    size = unpack_header(header, max_record_bytes=1 << 64)
    if HEADER_BYTES + size + CHECKSUM.size > left_bytes:
        raise TruncatedError(
            f"expected a record of {HEADER_BYTES + size + CHECKSUM.size} bytes, the file has"
            f" {left_bytes}"
        )
    return size


def _require_plain(head: bytes) -> None:
    if (compression := sniff(head)) is not Compression.NONE:
        raise ConfigError(
            f"expected a file without compression, this one is {compression}; read it with"
            " TFRecordReader, or write it again without compression"
        )
