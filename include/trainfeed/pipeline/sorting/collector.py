"""Collects the samples of one task in memory, and sorts each run before it is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from trainfeed.pipeline.plans import Plan
from trainfeed.pipeline.sorting.spill_files import (
    SPILL_SCHEMA,
    RecordColumn,
    hashes_of,
    sample_order,
)
from trainfeed.pipeline.tasks import RUN_COPIES, SAMPLE_BYTES
from trainfeed.samples import Schema
from trainfeed.specification import DatasetSpec
from trainfeed.versions import ValidLeaf
from trainfeed.versions.order import (
    LATE_SPLIT,
    SplitBounds,
    Uint64s,
    position_hash,
    shard_starts,
    split_seed,
)

_DTYPES: Final = (np.uint64, np.int32, np.int64, np.int32, np.int16)


@dataclass(frozen=True)
class SampleBlock:
    """Samples of one source, any number of records.

    Attributes:
        source: The source string.
        offsets: Offset of every sample's record, int64 of shape (n,).
        ordinals: Number of every sample within its record, int32 of shape (n,).
        stamps: Timestamp of every sample's record in milliseconds, int64 of shape (n,).
        records: The encoded samples, large binary of n rows.
        field_hashes: Split hash of every sample, uint64 of shape (n,); None when single records
            are split.
        num_bytes: Source bytes of the records.
    """

    source: str
    offsets: NDArray[np.int64]
    ordinals: NDArray[np.int32]
    stamps: NDArray[np.int64]
    records: pa.Array
    field_hashes: Uint64s | None
    num_bytes: int


class SampleSorter:
    """Assigns split and order key to samples, and sorts them run by run.

    Args:
        spec: The data set.
        plan: The plan, for sources and shard counts.
        limit_bytes: Memory that a run may take, sorting it included.
        late_before: Source string → time in milliseconds before which records are late, for the
            sources whose late records have a split of their own.

    Attributes:
        valid: Account of the valid records so far, by source.
    """

    def __init__(
        self, spec: DatasetSpec, plan: Plan, limit_bytes: int, late_before: Mapping[str, int]
    ) -> None:
        self._plan = plan
        self._late_before = late_before
        self._limit_bytes = limit_bytes // RUN_COPIES
        self._seed = spec.seed
        self._split_seed = split_seed(spec.name)
        self._bounds = SplitBounds.from_shares(spec.split.millionths)
        # Index of a split among the shares → its index among all splits, which include ``late``.
        self._places = np.array(
            [plan.splits.index(name) for name in self._bounds.names], dtype=np.int16
        )
        self._index = {source: index for index, source in enumerate(plan.sources)}
        self._hashes = hashes_of(plan.sources)
        self._column = RecordColumn.of(Schema.from_json(plan.fields))
        self._blocks: list[tuple[NDArray[Any], ...]] = []
        self._records: list[pa.Array] = []
        self._num_bytes = 0
        self.valid = dict.fromkeys(plan.sources, ValidLeaf())

    def has_room(self, block: SampleBlock) -> bool:
        """Return whether the current run has room for the samples; else it is written first."""
        return not self._num_bytes or self._num_bytes + _bytes_of(block) <= self._limit_bytes

    def add(self, block: SampleBlock) -> None:
        """Take samples into the current run."""
        index = self._index[block.source]
        number = int(self._hashes[index])
        self.valid[block.source] += ValidLeaf.of(
            number, block.offsets, block.ordinals, block.num_bytes
        )
        keys = position_hash(self._seed, number, block.offsets, block.ordinals)
        sources = np.full(len(keys), index, dtype=np.int32)
        splits = self._split_indices(block, number)
        # Blocks stay apart until the run is sorted: joining them at each call would be quadratic.
        self._blocks.append((keys, sources, block.offsets, block.ordinals, splits))
        self._records.append(block.records)
        self._num_bytes += _bytes_of(block)

    def run(self) -> tuple[pa.Table, dict[str, list[int]]]:
        """Return the samples of the run in their order, and begin the next run.

        Returns:
            A table of ``SPILL_SCHEMA``; and split → the first row of every shard, and the end.
        """
        keys, sources, offsets, ordinals, splits = self._columns()
        records = self._records
        self._blocks, self._records, self._num_bytes = [], [], 0
        # Sorted by key first; the stable sort by split keeps the order within every split.
        order = sample_order(keys, self._hashes, sources, offsets, ordinals)
        order = order[np.argsort(splits[order], kind="stable")]
        splits, keys = splits[order], keys[order]
        record = self._column.gather(records, order)
        columns = [
            pa.array(keys),
            pa.array(sources[order]),
            pa.array(offsets[order]),
            pa.array(ordinals[order]),
            pc.binary_length(record),
            record,
        ]
        table = pa.table(columns, schema=SPILL_SCHEMA)
        return table, self._shard_rows(keys, splits)

    def _columns(self) -> list[NDArray[Any]]:
        """Return key, source, offset, ordinal and split of all samples of the run."""
        # The empty arrays give the dtypes to a run without blocks.
        empty = [np.empty(0, dtype) for dtype in _DTYPES]
        return [np.concatenate(parts) for parts in zip(empty, *self._blocks, strict=True)]

    def _split_indices(self, block: SampleBlock, source: int) -> NDArray[np.int16]:
        hashes = block.field_hashes
        if hashes is None:
            hashes = position_hash(self._split_seed, source, block.offsets)
        indices = self._places[self._bounds.assign(hashes)]
        late_before = self._late_before.get(block.source)
        if late_before is not None:
            # The stamp -1 means that a record has none; such a record is not late.
            is_late = (block.stamps >= 0) & (block.stamps < late_before)
            indices[is_late] = self._plan.splits.index(LATE_SPLIT)
        return indices

    def _shard_rows(
        self, keys: NDArray[np.uint64], splits: NDArray[np.int16]
    ) -> dict[str, list[int]]:
        rows = {}
        for index, name in enumerate(self._plan.splits):
            # ``splits`` ascends, and so do the keys within a split: both searches are binary.
            start, end = (int(np.searchsorted(splits, i, side="left")) for i in (index, index + 1))
            starts = shard_starts(keys[start:end], self._plan.shards[name])
            rows[name] = [start + first for first in starts] + [end]
        return rows


def _bytes_of(block: SampleBlock) -> int:
    return int(block.records.nbytes) + len(block.offsets) * SAMPLE_BYTES
