"""The samples of versions as sorted streams of arrays, in bounded memory, whatever their order."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, BinaryIO, Final, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from trainfeed.errors import FormatError
from trainfeed.files import os_errors
from trainfeed.readers.split_chunks import SplitChunks
from trainfeed.recordio import split_records
from trainfeed.versions import PositionFile, Version
from trainfeed.versions.layout import POSITIONS
from trainfeed.versions.order import Uint64s, position_hash, source_hash

# --- Samples with their positions, as arrays: the unit in which two versions are compared


@dataclass(frozen=True, slots=True)
class SampleRows:
    """Samples of one version; arrays of shape (n,).

    Attributes:
        keys: Order keys, uint64.
        sources: Hashes of the source strings, uint64.
        offsets: Offsets of the records, int64.
        ordinals: Ordinals among the samples of a record, int32.
        splits: Indices into the sorted names of the version's splits, int16.
        records: The stored records, as objects of type bytes.
    """

    keys: Uint64s
    sources: Uint64s
    offsets: NDArray[Any]
    ordinals: NDArray[Any]
    splits: NDArray[Any]
    records: NDArray[np.object_]

    def __len__(self) -> int:
        return len(self.keys)

    def taken(self, rows: NDArray[Any] | slice) -> SampleRows:
        """Return the rows at some indices."""
        return SampleRows(*(column[rows] for column in self._columns()))

    def _columns(self) -> tuple[NDArray[Any], ...]:
        return (
            self.keys,
            self.sources,
            self.offsets,
            self.ordinals,
            self.splits,
            self.records,
        )


def joined_rows(parts: Sequence[SampleRows]) -> SampleRows:
    """Return the rows of all parts, one part behind the other; no part gives no row."""
    if not parts:
        keys = np.empty(0, np.uint64)
        return SampleRows(
            keys,
            keys,
            np.empty(0, np.int64),
            np.empty(0, np.int32),
            np.empty(0, np.int16),
            np.empty(0, object),
        )
    if len(parts) == 1:
        return parts[0]
    columns = zip(*(part._columns() for part in parts), strict=True)  # noqa: SLF001 - of this class
    return SampleRows(*(np.concatenate(column) for column in columns))


def objects(values: Sequence[object]) -> NDArray[np.object_]:
    """Return values as an array of objects, shape (n,), also where they are sequences."""
    found = np.empty(len(values), object)
    found[:] = values
    return found


# --- Two versions in step: the samples of both in ranges of keys, each range whole on both sides

# Blocks of one stream in ascending order of keys.
Blocks: TypeAlias = Iterator[SampleRows]


def merged(
    first: Sequence[Blocks], second: Sequence[Blocks]
) -> Iterator[tuple[SampleRows, SampleRows]]:
    """Yield the samples of two versions in ranges of keys; a range may be empty on one side.

    Args:
        first: The streams of one version.
        second: Those of the other.

    Raises:
        FormatError: A stream does not ascend.
    """
    sides = [[_Stream(blocks) for blocks in side] for side in (first, second)]
    streams = [stream for side in sides for stream in side]
    while open_streams := [stream for stream in streams if not stream.is_ended]:
        bound = min(stream.last for stream in open_streams)
        yield _taken(sides, bound)
        for stream in open_streams:
            if stream.last == bound:
                stream.extend()
    yield _taken(sides, None)


def _taken(sides: list[list[_Stream]], bound: np.uint64 | None) -> tuple[SampleRows, SampleRows]:
    first, second = (joined_rows([stream.below(bound) for stream in side]) for side in sides)
    return first, second


class _Stream:
    """One stream: the rows in memory, and the blocks that follow."""

    def __init__(self, blocks: Blocks) -> None:
        self._blocks = blocks
        self._rows = joined_rows([])
        self.is_ended = False
        self.last = np.uint64(0)
        self.extend()

    def extend(self) -> None:
        """Read the next block that has rows, or notice the end."""
        while (block := next(self._blocks, None)) is not None and not len(block):
            pass
        if block is None:
            self.is_ended = True
            return
        if block.keys[0] < self.last or (block.keys[1:] < block.keys[:-1]).any():
            raise FormatError(
                "expected samples in the order of their keys, got others; compare the versions:"
                " trainfeed verify"
            )
        self._rows = joined_rows([self._rows, block])
        self.last = block.keys[-1]

    def below(self, bound: np.uint64 | None) -> SampleRows:
        """Take the rows with keys below a bound, or all."""
        count = len(self._rows) if bound is None else int(self._rows.keys.searchsorted(bound))
        taken, self._rows = self._rows.taken(slice(count)), self._rows.taken(slice(count, None))
        return taken


# --- The samples of a version as one sorted stream for each split, a chunk at a time


def splits_of(version: Version) -> list[str]:
    """Return the names of a version's splits, sorted."""
    return sorted(version.manifest.splits)


def iter_split(
    version: Version, positions: PositionFile, split: str, seed: int
) -> Iterator[SampleRows]:
    """Yield the samples of a split, chunk by chunk.

    Args:
        version: The version.
        positions: Its positions.
        split: Name of the split.
        seed: Seed of the keys; the keys ascend if it is the seed of the version.

    Raises:
        FormatError: A shard is not the one that was published.
        NotFoundError: A shard is missing.
    """
    names = version.manifest.sources
    hashes = np.array([source_hash(name) for name in names], np.uint64)
    number = splits_of(version).index(split)
    places = _Places(positions, split)
    for records in _records(version, split):
        sources, offsets, ordinals = places.take(len(records), version)
        hashed = hashes[sources]
        keys = position_hash(seed, hashed, offsets, ordinals)
        splits = np.full(len(records), number, np.int16)
        yield SampleRows(keys, hashed, offsets, ordinals, splits, objects(records))


class _Places:
    """The positions of a split, cut as its chunks are."""

    def __init__(self, positions: PositionFile, split: str) -> None:
        self._parts = positions.rows(split)
        self._rows: tuple[NDArray[Any], ...] = ()

    def take(self, count: int, version: Version) -> tuple[NDArray[Any], ...]:
        """Return sources, offsets and ordinals of the next samples."""
        while not self._rows or len(self._rows[0]) < count:
            part = next(self._parts, None)
            if part is None:
                path = str(version.path / POSITIONS)
                raise FormatError("expected a position for every sample, got fewer", path=path)
            pairs = zip(self._rows or [column[:0] for column in part], part, strict=True)
            self._rows = tuple(np.concatenate(pair) for pair in pairs)
        taken = tuple(column[:count] for column in self._rows)
        self._rows = tuple(column[count:] for column in self._rows)
        return taken


def _records(version: Version, split: str) -> Iterator[list[bytes]]:
    with closing(SplitChunks([version], split)) as chunks:
        chunks.begin()
        for chunk in chunks.of(version):
            framing = chunks.framing(version, chunk)
            yield [bytes(record) for record in split_records(framing, chunk.info.num_records)]


# --- The samples of a version in the order of another seed: sorted through temporary files

_PREFIX: Final = "trainfeed-diff-"
_FILE_BYTES: Final = 64 << 20
_MOST_FILES: Final = 256
_SCHEMA: Final = pa.schema(
    {
        "keys": pa.uint64(),
        "sources": pa.uint64(),
        "offsets": pa.int64(),
        "ordinals": pa.int32(),
        "splits": pa.int16(),
        "records": pa.large_binary(),
    }
)


def reordered(
    streams: Sequence[Blocks], num_bytes: int, keys: tuple[int, int] = (0, 1 << 64)
) -> Iterator[SampleRows]:
    """Yield the samples of streams in ascending order of their keys.

    The samples lie in files of ``TMPDIR`` meanwhile, which have no names, and which take about
    ``num_bytes`` of space.

    Args:
        streams: Streams in any order.
        num_bytes: Size of all records.
        keys: Range of their keys, half-open.

    Raises:
        StorageError: ``TMPDIR`` refused or failed.
    """
    num_files = min(max(num_bytes // _FILE_BYTES, 1), _MOST_FILES)
    first, end = keys
    edges = [first + (end - first) * n // num_files for n in range(num_files + 1)]
    with ExitStack() as stack:
        with os_errors(tempfile.gettempdir()):
            files = [
                stack.enter_context(tempfile.TemporaryFile(prefix=_PREFIX))
                for _ in range(num_files)
            ]
            _scatter(streams, files, np.array(edges[1:-1], np.uint64))
        for file, span in zip(files, pairwise(edges), strict=True):
            size = file.tell()
            # Samples of one key cannot be divided.
            if size > 2 * _FILE_BYTES and span[1] - span[0] > 1:
                yield from reordered([_blocks(file)], size, span)
            else:
                yield _sorted(file)


def _scatter(
    streams: Sequence[Blocks], files: Sequence[BinaryIO], starts: NDArray[np.uint64]
) -> None:
    with ExitStack() as stack:
        writers = [stack.enter_context(pa.ipc.new_stream(file, _SCHEMA)) for file in files]
        for block in (block for stream in streams for block in stream):
            numbers = starts.searchsorted(block.keys, side="right")
            for number in np.unique(numbers).tolist():
                writers[number].write_batch(_batch(block.taken(numbers == number)))


def _batch(rows: SampleRows) -> pa.RecordBatch:
    columns = [pa.array(getattr(rows, field.name), field.type) for field in _SCHEMA]
    return pa.RecordBatch.from_arrays(columns, schema=_SCHEMA)


def _blocks(file: BinaryIO) -> Iterator[SampleRows]:
    file.seek(0)
    for batch in pa.ipc.open_stream(file):
        yield _rows(pa.Table.from_batches([batch]))


def _sorted(file: BinaryIO) -> SampleRows:
    file.seek(0)
    rows = _rows(pa.ipc.open_stream(file).read_all())
    return rows.taken(np.argsort(rows.keys, kind="stable"))


def _rows(table: pa.Table) -> SampleRows:
    records = objects(table["records"].to_pylist())
    columns = {name: table[name].to_numpy() for name in _SCHEMA.names if name != "records"}
    return SampleRows(**columns, records=records)
