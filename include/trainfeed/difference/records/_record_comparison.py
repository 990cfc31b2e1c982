"""Compares the samples of two versions of one interval, position by position."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from trainfeed.dataset import PositionFile, Version
from trainfeed.dataset.order import source_hash
from trainfeed.difference.records._changed_fields import FieldComparison
from trainfeed.difference.records._fates import Fates
from trainfeed.difference.records._merged_samples import Blocks, merged
from trainfeed.difference.records._paired_rows import Pairs, paired
from trainfeed.difference.records._record_change import ChangeKind, RecordChange, RecordCounts
from trainfeed.difference.records._sample_rows import SampleRows, objects
from trainfeed.difference.records._samples_in_order import iter_split, splits_of
from trainfeed.difference.records._samples_reordered import reordered

__all__ = ["RecordComparison"]

_Rows = NDArray[np.intp]
_NONE: Final = np.empty(0, np.intp)


class RecordComparison:
    """The samples of two versions, compared by their positions.

    Versions of one seed are merged as they lie, with a chunk of each split in memory. Otherwise the
    second version is sorted by the seed of the first one, through temporary files.

    Args:
        first: A version with positions.
        second: Another version with positions.
        seeds: The seeds of both; None where a seed is not known.

    Attributes:
        counts: The samples compared so far.

    Raises:
        NotFoundError: A version was published without positions.
        ChecksumError: A file of positions is not the one that was published.
    """

    def __init__(
        self, first: Version, second: Version, seeds: tuple[int | None, int | None]
    ) -> None:
        self._versions = first, second
        self._seeds = seeds
        self._positions = PositionFile(first), PositionFile(second)
        self._fields = FieldComparison(first.schema, second.schema)
        names = {*first.manifest.sources, *second.manifest.sources}
        self._sources = {source_hash(name): name for name in names}
        self._fates: dict[int, Fates] = {}
        self.counts = RecordCounts()

    def changes(self, most: int | None) -> Iterator[RecordChange]:
        """Compare all samples, and yield those that are not alike; call it once.

        Args:
            most: How many are yielded of each kind; all are counted. None for all.

        Raises:
            FormatError: A file differs from the published one; the error names it.
            NotFoundError: A file is missing.
            StorageError: A file cannot be read, or the temporary folder refused or failed.
        """
        seed = self._seeds[0] if self._seeds[0] is not None else 0
        sides = [self._streams(number, seed) for number in (0, 1)]
        for first, second in merged(*sides):
            yield from self._compared(first, second, most)

    def _streams(self, number: int, seed: int) -> list[Blocks]:
        version = self._versions[number]
        streams = [
            iter_split(version, self._positions[number], split, seed)
            for split in splits_of(version)
        ]
        if self._seeds[number] == seed:
            return streams
        splits = [chunk for split in splits_of(version) for chunk in version.chunks(split)]
        return [reordered(streams, sum(chunk.info.raw_bytes for chunk in splits))]

    def _compared(
        self, first: SampleRows, second: SampleRows, most: int | None
    ) -> Iterator[RecordChange]:
        pairs = paired(first, second, self._versions)
        changed, by_field = self._changed(first, second, pairs)
        is_moved = self._is_moved(first, second, pairs)
        moved = is_moved & ~changed
        self.counts.equal += int((~changed & ~is_moved).sum())
        self.counts.changed_and_moved += int((changed & is_moved).sum())
        for name, mask in by_field.items():
            self.counts.fields[name] += int(mask.sum())
        found: list[tuple[ChangeKind, _Rows, _Rows]] = [
            ("removed", pairs.only_first, _NONE),
            ("added", _NONE, pairs.only_second),
            ("changed", pairs.first[changed], pairs.second[changed]),
            ("moved", pairs.first[moved], pairs.second[moved]),
        ]
        for kind, ours, theirs in found:
            yield from self._told(kind, first.taken(ours), second.taken(theirs), most)

    def _changed(
        self, first: SampleRows, second: SampleRows, pairs: Pairs
    ) -> tuple[NDArray[np.bool_], dict[str, NDArray[np.bool_]]]:
        """Return which pairs differ; and for those that do, field → which differ in it."""
        ours, theirs = first.records[pairs.first], second.records[pairs.second]
        if not self._fields.has_equal_schemas:
            by_field = self._fields.differing(ours, theirs)
            changed = np.zeros(len(ours), bool)
            for mask in by_field.values():
                changed |= mask
            return changed, {name: mask[changed] for name, mask in by_field.items()}
        changed = (ours != theirs).astype(bool)
        return changed, dict(self._fields.differing(ours[changed], theirs[changed]))

    def _is_moved(self, first: SampleRows, second: SampleRows, pairs: Pairs) -> NDArray[np.bool_]:
        ours, theirs = self._splits(0, first, pairs.first), self._splits(1, second, pairs.second)
        is_moved = np.asarray(ours != theirs, bool)
        for move in zip(ours[is_moved], theirs[is_moved], strict=True):
            self.counts.moves[" → ".join(move)] += 1
        return is_moved

    def _splits(self, number: int, rows: SampleRows, chosen: _Rows) -> NDArray[np.object_]:
        names = np.array(splits_of(self._versions[number]), object)
        return names[rows.splits[chosen]] if len(chosen) else np.empty(0, object)

    def _told(
        self, kind: ChangeKind, first: SampleRows, second: SampleRows, most: int | None
    ) -> Iterator[RecordChange]:
        """Count changes of one kind, and yield as many as are still wanted."""
        rows = first if len(first) else second
        told = self.counts.kinds[kind]
        self.counts.kinds[kind] += len(rows)
        fates = self._fates_of(kind, rows)
        for row in range(len(rows) if most is None else min(len(rows), max(most - told, 0))):
            records = tuple(side.records[row] if len(side) else None for side in (first, second))
            samples = self._fields.samples(*records)
            yield RecordChange(
                kind,
                self._sources[int(rows.sources[row])],
                int(rows.offsets[row]),
                int(rows.ordinals[row]),
                self._splits_of_row(first, second, row),
                self._fields_of_row(kind, records),
                samples,
                fates[row] if fates else None,
            )

    def _splits_of_row(
        self, first: SampleRows, second: SampleRows, row: int
    ) -> tuple[str | None, str | None]:
        ours, theirs = (
            splits_of(version)[side.splits[row]] if len(side) else None
            for version, side in zip(self._versions, (first, second), strict=True)
        )
        return ours, theirs

    def _fields_of_row(
        self, kind: ChangeKind, records: tuple[bytes | None, ...]
    ) -> tuple[str, ...]:
        if kind != "changed":
            return ()
        ours, theirs = (objects([record]) for record in records)
        return tuple(name for name, mask in self._fields.differing(ours, theirs).items() if mask[0])

    def _fates_of(self, kind: ChangeKind, rows: SampleRows) -> list[str]:
        """Return and count what became of records in the version that lacks their samples."""
        if kind not in {"removed", "added"} or not len(rows):
            return []
        lacking = 1 if kind == "removed" else 0
        if lacking not in self._fates:
            self._fates[lacking] = Fates(self._versions[lacking])
        fates = self._fates[lacking].of(rows.sources, rows.offsets)
        (self.counts.removed_fates if lacking else self.counts.added_fates).update(fates)
        return fates
