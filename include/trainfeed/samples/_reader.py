"""Record files as batches of arrays, a chunk at a time and without a step per sample."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trainfeed.errors import ConfigError, FormatError
from trainfeed.paths import FilePath, expand_paths, path_of
from trainfeed.recordio import (
    MAX_RAW_BYTES,
    BufferPool,
    ChunkPlace,
    MappedFile,
    ReadableFile,
    RecordIndex,
    read_chunks,
)
from trainfeed.samples._codec import TypedCodec
from trainfeed.samples._schema import Schema

__all__ = ["SampleReader"]

# What is copied at once. Larger blocks leave the processor's cache, smaller ones cost more calls.
_BLOCK_BYTES: Final = 1 << 18

_Columns = dict[str, NDArray[Any]]


class SampleReader:
    """The samples of record files as batches of arrays, in order, again and again.

    Strict: the first thing that is wrong with a file ends the iteration with an error. The headers
    of all files are read once, when they are first needed.

    Args:
        paths: As for ``trainfeed.recordio.RecordScanner``.
        schema: The schema of the samples.
        threads: How many chunks are read and decompressed at once.
        mapped: Map the files instead of reading them; see ``trainfeed.recordio.MappedFile`` for
            when that is wise.
        copy: False leaves values of bytes where they are, as memoryviews, which keep memory of a
            chunk each, or the map.
        max_raw_bytes: Refuse a chunk whose framing is longer.

    Attributes:
        paths: The files, in the order in which they are read.
        schema: As above.

    Raises:
        NotFoundError: A part matches no file; names the part.
        ConfigError: ``threads`` is below 1.
    """

    def __init__(
        self,
        paths: FilePath | Sequence[FilePath],
        schema: Schema,
        *,
        threads: int = 1,
        mapped: bool = False,
        copy: bool = True,
        max_raw_bytes: int = MAX_RAW_BYTES,
    ) -> None:
        if threads < 1:
            raise ConfigError(f"expected at least 1 thread, got {threads}")
        self.paths = expand_paths(paths)
        self.schema = schema
        self._codec = TypedCodec(schema)
        self._threads = threads
        self._mapped = mapped
        self._copy = copy
        self._max_raw_bytes = max_raw_bytes
        self._pool = BufferPool()

    @property
    def num_samples(self) -> int:
        """How many samples the files hold."""
        return sum(place.info.num_records for place in self._places)

    def iter_batches(self, num_samples: int) -> Iterator[_Columns]:
        """Read all files in batches of ``num_samples``, the last one smaller.

        Batches go across chunks and files. Fastest where chunks hold a multiple of ``num_samples``.

        Yields:
            Field to array of shape ``(num_samples, *field.shape)``, contiguous and the caller's
            own; see ``TypedCodec.decode_columns``. Batches may share memory with each other, so one
            that is held may keep that of its neighbours.

        Raises:
            TruncatedError: A file ends inside a chunk.
            BadMagicError: No chunk starts where one should.
            ChecksumError: A payload is damaged.
            UnsupportedCodecError: This version has no codec of a chunk.
            FormatError: A chunk does not hold what it promises, or is larger than allowed.
        """
        if num_samples < 1:
            raise ValueError(f"expected batches of at least 1 sample, got {num_samples}")
        left: list[_Columns] = []
        num_left = 0
        for block, num_rows in self._blocks(num_samples):
            start = 0
            if num_left:
                start = min(num_samples - num_left, num_rows)
                left.append(_rows(block, 0, start))
                num_left += start
                if num_left < num_samples:
                    continue
                yield _joined(left)
                left, num_left = [], 0
            end = num_rows - (num_rows - start) % num_samples
            for first in range(start, end, num_samples):
                yield _rows(block, first, first + num_samples)
            if end < num_rows:
                left, num_left = [_rows(block, end, num_rows)], num_rows - end
        if left:
            yield _joined(left)

    @cached_property
    def _places(self) -> list[ChunkPlace]:
        files: list[ReadableFile] = [
            MappedFile(path) if self._mapped else path for path in self.paths
        ]
        return [
            ChunkPlace(file, info, number)
            for file in files
            for number, info in enumerate(RecordIndex.load(file).chunks)
        ]

    def _blocks(self, batch_size: int) -> Iterator[tuple[_Columns, int]]:
        """Yield columns in memory of their own, and how many samples they hold."""
        codec, is_fixed = self._codec, self.schema.is_fixed
        num_done = 0
        for place, framing in read_chunks(
            self._places,
            threads=self._threads,
            lend=is_fixed or self._copy,
            max_raw_bytes=self._max_raw_bytes,
            pool=self._pool,
        ):
            num_records = place.info.num_records
            with _located(place):
                if is_fixed:
                    records = codec.view_records(framing, num_records)
                    bounds = _bounds(records, batch_size, -num_done % batch_size)
                    for columns, (start, end) in zip(
                        codec.iter_columns(records, bounds), bounds, strict=True
                    ):
                        yield columns, end - start
                else:
                    columns = codec.decode_columns(framing, num_records, copy=self._copy)
                    yield columns, num_records
            num_done += num_records


def _bounds(records: NDArray[np.void], batch_size: int, num_missing: int) -> list[tuple[int, int]]:
    """Cut a chunk's records where batches end, some batches at once.

    Args:
        records: Shape ``(n,)``.
        batch_size: Records per batch.
        num_missing: How many the batch lacks that the chunk before has begun.
    """
    block_size = max(_BLOCK_BYTES // (batch_size * records.itemsize), 1) * batch_size
    starts = list(range(num_missing, len(records), block_size))
    if num_missing and len(records):
        starts.insert(0, 0)
    return list(zip(starts, [*starts[1:], len(records)], strict=True))


@contextmanager
def _located(place: ChunkPlace) -> Iterator[None]:
    """Add file and byte offset to what is wrong with the samples of a chunk."""
    try:
        yield
    except FormatError as error:
        if error.offset_bytes is None:
            error.path, error.offset_bytes = path_of(place.file), place.info.offset_bytes
            error.args = (f"chunk {place.number}: {error.args[0]}",)
        raise


def _rows(columns: _Columns, start: int, end: int) -> _Columns:
    return {name: column[start:end] for name, column in columns.items()}


def _joined(parts: list[_Columns]) -> _Columns:
    if len(parts) == 1:
        return parts[0]
    return {name: _concatenated([part[name] for part in parts]) for name in parts[0]}


def _concatenated(columns: list[NDArray[Any]]) -> NDArray[Any]:
    if isinstance(columns[0], np.ma.MaskedArray):
        joined: NDArray[Any] = np.ma.concatenate(columns)  # type: ignore[no-untyped-call]
        return joined
    return np.concatenate(columns)
