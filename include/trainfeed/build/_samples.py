"""Collects the samples of one split group and puts them into their final order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import xxhash
from numpy.typing import NDArray

from trainfeed.build._plan_file import Plan
from trainfeed.build._record import Record
from trainfeed.build._spill import SPILL_SCHEMA
from trainfeed.dataset import ValidLeaf
from trainfeed.dataset.identity import position_hash, source_hash
from trainfeed.dataset.order import LATE_SPLIT, SplitBounds, key_order, shard_starts, split_seed
from trainfeed.errors import MemoryLimitError
from trainfeed.samples import Field, Schema, TypedCodec
from trainfeed.spec import DatasetSpec

__all__ = ["SampleSorter"]

# What a sample costs besides its record while it waits to be sorted: list entries and key columns.
_OVERHEAD_BYTES = 200


class SampleSorter:
    """Encodes samples, assigns split and order key, and sorts.

    Args:
        spec: The data set.
        plan: The plan, for sources and shard counts.
    """

    def __init__(self, spec: DatasetSpec, plan: Plan) -> None:
        self._plan = plan
        self._limit_bytes = spec.resources.memory_bytes
        self._schema = Schema.from_json(plan.fields)
        self._codec = TypedCodec(self._schema)
        self._seed = spec.seed
        self._split_seed = split_seed(spec.name)
        self._by = [self._schema[name] for name in spec.split.by or ()]
        self._bounds = SplitBounds.from_shares(spec.split.millionths)
        self._separate_late = LATE_SPLIT in plan.shards
        self._index = {source: index for index, source in enumerate(plan.sources)}
        self._hashes = np.array([source_hash(source) for source in plan.sources], dtype=np.uint64)
        self._num_bytes = 0
        self._source_bytes = dict.fromkeys(plan.sources, 0)
        self._records: list[bytes] = []
        self._sources: list[int] = []
        self._offsets: list[int] = []
        self._ordinals: list[int] = []
        self._late: list[bool] = []
        self._field_hashes: list[int] = []

    def add(self, record: Record, samples: Sequence[Mapping[str, Any]], *, separate: bool) -> None:
        """Take the samples of one record.

        Args:
            record: The source record.
            samples: At least one.
            separate: Whether they belong to the split of late records.

        Raises:
            SampleShapeError: A sample and the schema disagree.
            MemoryLimitError: All samples together exceed ``resources.memory_bytes``.
        """
        source = self._index[record.source]
        encodings = [self._codec.encode(sample) for sample in samples]
        field_hash = self._hash_fields(samples[0]) if self._by else 0
        self._source_bytes[record.source] += len(record.value or b"")
        for ordinal, encoded in enumerate(encodings):
            self._num_bytes += len(encoded) + _OVERHEAD_BYTES
            self._records.append(encoded)
            self._sources.append(source)
            self._offsets.append(record.offset)
            self._ordinals.append(ordinal)
            self._late.append(separate)
            self._field_hashes.append(field_hash)
        if self._num_bytes > self._limit_bytes:
            raise MemoryLimitError(
                f"samples of one task exceed resources.memory_bytes = {self._limit_bytes} bytes at"
                f" {record.source} offset {record.offset}; raise it, or lower"
                " resources.records_per_task in dataset.yaml"
            )

    def ledger(self) -> dict[str, ValidLeaf]:
        """Return the account of the valid records, by source."""
        sources = np.array(self._sources, dtype=np.int32)
        offsets, ordinals = np.array(self._offsets, np.int64), np.array(self._ordinals, np.int32)
        leaves = {}
        for source, index in self._index.items():
            mine = sources == index
            leaves[source] = ValidLeaf.of(
                int(self._hashes[index]), offsets[mine], ordinals[mine], self._source_bytes[source]
            )
        return leaves

    def table(self) -> tuple[pa.Table, dict[str, list[int]]]:
        """Return the sorted samples, and per split the first row of every shard and the end.

        Returns:
            A table of ``SPILL_SCHEMA``, and split → row numbers, one more than there are shards.
        """
        sources = np.array(self._sources, dtype=np.int32)
        offsets, ordinals = np.array(self._offsets, np.int64), np.array(self._ordinals, np.int32)
        hashes = self._hashes[sources]
        keys = position_hash(self._seed, hashes, offsets, ordinals)
        splits = self._split_indices(hashes, offsets)
        # Two stable sorts: by key and position, then by split.
        order = key_order(keys, hashes, offsets, ordinals)
        order = order[np.argsort(splits[order], kind="stable")]
        names = self._plan.splits
        columns = [
            pa.DictionaryArray.from_arrays(pa.array(splits[order], pa.int32()), pa.array(names)),
            pa.array(keys[order]),
            pa.array(sources[order]),
            pa.array(offsets[order]),
            pa.array(ordinals[order]),
            pa.array([self._records[row] for row in order], pa.binary()),
        ]
        return (
            pa.Table.from_arrays(columns, schema=SPILL_SCHEMA),
            self._shard_rows(keys[order], splits[order]),
        )

    def _split_indices(
        self, hashes: NDArray[np.uint64], offsets: NDArray[np.int64]
    ) -> NDArray[np.int32]:
        if self._by:
            split_hashes = np.array(self._field_hashes, dtype=np.uint64)
        else:
            split_hashes = position_hash(self._split_seed, hashes, offsets)
        # From the order of the shares to that of all splits, the late one included.
        places = np.array([self._plan.splits.index(name) for name in self._bounds.names])
        indices = places[self._bounds.assign(split_hashes)].astype(np.int32)
        if self._separate_late:
            late = np.array(self._late, dtype=bool)
            indices[late] = self._plan.splits.index(LATE_SPLIT)
        return indices

    def _shard_rows(
        self, keys: NDArray[np.uint64], splits: NDArray[np.int32]
    ) -> dict[str, list[int]]:
        rows = {}
        for index, name in enumerate(self._plan.splits):
            start, end = (int(np.searchsorted(splits, i, side="left")) for i in (index, index + 1))
            starts = shard_starts(keys[start:end], self._plan.shards[name])
            rows[name] = [start + first for first in starts] + [end]
        return rows

    def _hash_fields(self, sample: Mapping[str, Any]) -> int:
        data = b"".join(_canonical_bytes(field, sample.get(field.name)) for field in self._by)
        return xxhash.xxh3_64_intdigest(data, seed=self._split_seed)


def _canonical_bytes(field: Field, value: Any) -> bytes:
    """Return a field's value as the split hash sees it: presence, then little-endian bytes."""
    if value is None:
        return b"\0"
    if field.dtype in {"bytes", "str"}:
        data = value.encode() if isinstance(value, str) else bytes(value)
        return b"\1" + len(data).to_bytes(4, "little") + data
    return b"\1" + np.asarray(value, dtype=np.dtype(field.dtype).newbyteorder("<")).tobytes()
