"""The samples of a version as one sorted stream for each split, a chunk at a time.

The samples of a split lie in the order of their keys, over all shards: a shard holds a range of
keys. So two versions of one seed can be merged without sorting them again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainfeed.dataset import PositionFile, Version
from trainfeed.dataset.chunks import decoder_of
from trainfeed.dataset.order import position_hash, source_hash
from trainfeed.dataset.version import POSITIONS
from trainfeed.difference.records._sample_rows import SampleRows, objects
from trainfeed.errors import FormatError
from trainfeed.paths import open_plain
from trainfeed.recordio import split_records

__all__ = ["iter_split", "splits_of"]


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
    chunks = version.chunks(split)
    decoder = decoder_of(version.schema, {chunk.info.codec for chunk in chunks})
    paths = version.shard_paths(split)
    for chunk in chunks:
        path = paths[chunk.shard]
        try:
            with open_plain(path, follow=False) as file:
                framing = decoder.read(file, chunk.info)
            yield [bytes(record) for record in split_records(framing, chunk.info.num_records)]
        except FormatError as error:
            error.path = error.path or str(path)
            raise
