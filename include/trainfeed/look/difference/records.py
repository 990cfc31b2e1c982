"""Compares the samples of two versions of one interval, position by position."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trainfeed.core.canonical_json import JsonFields
from trainfeed.errors import FormatError, StorageError
from trainfeed.look.difference.samples import (
    Blocks,
    SampleRows,
    iter_split,
    merged,
    objects,
    reordered,
    splits_of,
)
from trainfeed.pipeline.quarantine_access import quarantine_of_version
from trainfeed.samples import Schema, TypedCodec, absent_rows, frame_records
from trainfeed.versions import PositionFile, Version
from trainfeed.versions.layout import POSITIONS
from trainfeed.versions.order import Uint64s, position_hash, source_hash

# --- The fields in which samples of one position differ, for many samples at once

_Mask = NDArray[np.bool_]


class FieldComparison:
    """Compares records of two schemas by the values of the fields that both have.

    Args:
        first: Schema of the one version.
        second: That of the other.

    Attributes:
        has_equal_schemas: Whether records with equal bytes are equal samples, and others are not.
    """

    def __init__(self, first: Schema, second: Schema) -> None:
        self._codecs = TypedCodec(first), TypedCodec(second)
        self._names = [name for name in first.names if name in second.names]
        self.has_equal_schemas = first == second

    def differing(
        self, first: NDArray[np.object_], second: NDArray[np.object_]
    ) -> Mapping[str, _Mask]:
        """Return, for each common field, which pairs of records differ in it; shape (n,).

        Raises:
            FormatError: A record does not match its schema.
        """
        if not len(first):
            return {name: np.zeros(0, bool) for name in self._names}
        columns, others = (
            codec.decode_columns(frame_records(records.tolist()), len(records))
            for codec, records in zip(self._codecs, (first, second), strict=True)
        )
        return {name: _differs(columns[name], others[name]) for name in self._names}

    def samples(self, first: bytes | None, second: bytes | None) -> tuple[Any, Any]:
        """Return the samples of two records; None for a record that is not there."""
        found = (
            None if record is None else codec.decode(record)
            for codec, record in zip(self._codecs, (first, second), strict=True)
        )
        one, other = found
        return one, other


def _differs(column: NDArray[Any], other: NDArray[Any]) -> _Mask:
    if "O" in {column.dtype.kind, other.dtype.kind}:
        pairs = zip(column.tolist(), other.tolist(), strict=True)
        return np.fromiter((not _same(a, b) for a, b in pairs), bool, len(column))
    absent, others = absent_rows(column), absent_rows(other)
    values = _values_differ(np.ma.getdata(column), np.ma.getdata(other))
    return np.asarray((absent != others) | (values & ~absent & ~others))


def _values_differ(column: NDArray[Any], other: NDArray[Any]) -> _Mask:
    num_rows = len(column)
    if column.shape != other.shape:
        return np.ones(num_rows, bool)
    if column.dtype == other.dtype:
        # By bytes: a NaN is equal to itself.
        first, second = (_bytes(each).reshape(num_rows, -1) for each in (column, other))
        return np.asarray((first != second).any(axis=1))
    differ = (column != other) & ~(np.isnan(column) & np.isnan(other))
    return np.asarray(differ.reshape(num_rows, -1).any(axis=1))


def _bytes(column: NDArray[Any]) -> NDArray[np.uint8]:
    return np.ascontiguousarray(column).reshape(len(column), -1).view(np.uint8)


def _same(first: Any, second: Any) -> bool:
    """Return whether two values of fields of variable size are equal."""
    if isinstance(first, np.ndarray) and isinstance(second, np.ndarray):
        if first.dtype == second.dtype:
            return first.shape == second.shape and first.tobytes() == second.tobytes()
        return bool(np.array_equal(first, second, equal_nan=True))
    return type(first) is type(second) and bool(first == second)


# --- What became of records in the version that lacks them: quarantined, or not

# The file is only for the account that builds.
UNKNOWN: Final = "unknown: the quarantine cannot be read"
_OTHER: Final = "not quarantined"


class Fates:
    """The quarantined records of a version, to look positions up; 24 bytes for each record.

    Args:
        version: The version.

    Raises:
        FormatError: The file of the quarantine is damaged.
    """

    def __init__(self, version: Version) -> None:
        self._reasons: list[str] = []
        self._is_known = True
        try:
            self._hashes, self._numbers = self._read(version)
        except StorageError:
            self._is_known = False

    def of(self, sources: Uint64s, offsets: NDArray[Any]) -> list[str]:
        """Return, for each record, ``quarantined: REASON`` or that it is not in the quarantine.

        Args:
            sources: Hashes of the source strings, shape (n,).
            offsets: Offsets, shape (n,).
        """
        if not self._is_known:
            return [UNKNOWN] * len(sources)
        hashes = position_hash(0, sources, offsets)
        places = self._hashes.searchsorted(hashes)
        places[places == len(self._hashes)] = 0
        found = self._hashes[places] == hashes if len(self._hashes) else np.zeros(len(hashes), bool)
        return [
            f"quarantined: {self._reasons[self._numbers[place]]}" if is_found else _OTHER
            for place, is_found in zip(places.tolist(), found.tolist(), strict=True)
        ]

    def _read(self, version: Version) -> tuple[Uint64s, NDArray[np.int32]]:
        names = np.array([source_hash(name) for name in version.manifest.sources], np.uint64)
        known: dict[str, int] = {}
        hashes, numbers = [np.empty(0, np.uint64)], [np.empty(0, np.int32)]
        for part in quarantine_of_version(version).positions():
            hashes.append(position_hash(0, names[part.sources], part.offsets))
            numbers.append(
                np.array([known.setdefault(each, len(known)) for each in part.reasons], np.int32)
            )
        self._reasons = list(known)
        joined = np.concatenate(hashes)
        order = np.argsort(joined)
        return joined[order], np.concatenate(numbers)[order]


# --- Pairs the samples of two versions that have the same position

_Rows = NDArray[np.intp]


class Pairs(NamedTuple):
    """Indices of rows on both sides.

    Attributes:
        first: Rows of the first side that have a partner.
        second: Their partners, in the same order.
        only_first: Rows of the first side without a partner.
        only_second: Rows of the second side without a partner.
    """

    first: _Rows
    second: _Rows
    only_first: _Rows
    only_second: _Rows


def paired(first: SampleRows, second: SampleRows, versions: tuple[Version, Version]) -> Pairs:
    """Pair the rows of two sides by source, offset and ordinal.

    Raises:
        FormatError: A version has a position twice.
    """
    num_first = len(first)
    sources, offsets, ordinals = (
        np.concatenate((getattr(first, name), getattr(second, name)))
        for name in ("sources", "offsets", "ordinals")
    )
    side = np.repeat((0, 1), (num_first, len(second)))
    order = np.lexsort((side, ordinals, offsets, sources))
    before, after = order[:-1], order[1:]
    same = (
        (sources[before] == sources[after])
        & (offsets[before] == offsets[after])
        & (ordinals[before] == ordinals[after])
    )
    if (twice := same & (side[before] == side[after])).any():
        version = versions[int(side[before[twice.argmax()]])]
        raise FormatError(
            "expected every position once, got one twice; compare the version: trainfeed verify",
            path=str(version.path / POSITIONS),
        )
    alone = np.ones(len(order), bool)
    alone[before[same]] = alone[after[same]] = False
    alone_first, alone_second = np.flatnonzero(alone[:num_first]), np.flatnonzero(alone[num_first:])
    return Pairs(before[same], after[same] - num_first, alone_first, alone_second)


# --- One sample that two versions do not have alike, and the counts of all of them

ChangeKind: TypeAlias = Literal["added", "removed", "changed", "moved"]


@dataclass(frozen=True)
class RecordChange(JsonFields, also=("position",), without=("source", "offset", "samples")):
    """A sample that two versions do not have alike.

    Attributes:
        kind: ``added`` or ``removed``: only the second or the first version has it. ``changed``:
            a field differs. ``moved``: it is the same, in another split.
        source: Source string of its record.
        offset: Offset of its record.
        ordinal: Its number among the samples of the record.
        splits: Its split in the first and in the second version; None where it is not.
        fields: Names of the fields that differ, of a changed sample.
        samples: The sample of the first and of the second version, field → value; None where it is
            not.
        fate: What became of its record in the version that lacks it; None for other kinds.
    """

    kind: ChangeKind
    source: str
    offset: int
    ordinal: int
    splits: tuple[str | None, str | None]
    fields: tuple[str, ...]
    samples: tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]
    fate: str | None

    @property
    def position(self) -> str:
        """The position of its record, as ``source@offset``."""
        return f"{self.source}@{self.offset}"

    def to_json(self) -> dict[str, Any]:
        """Return the change; bytes become ``{"hex": …}``, NaN and infinities text."""
        samples = [
            None if each is None else {name: _finite(value) for name, value in each.items()}
            for each in self.samples
        ]
        return {**super().to_json(), "samples": samples}


def _finite(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list):
        return [_finite(each) for each in value]
    if isinstance(value, bytes):
        return {"hex": value.hex()}
    is_special = isinstance(value, float) and not math.isfinite(value)
    return str(value) if is_special else value


@dataclass
class RecordCounts(JsonFields, without=("kinds",)):
    """Numbers of samples, which grow while two versions are compared.

    Attributes:
        equal: Samples that both versions have, with equal fields, in the same split.
        kinds: Kind of a change → samples.
        changed_and_moved: Those of ``changed`` that are in another split, too.
        fields: Field → changed samples in which it differs.
        moves: ``train → eval`` → samples that moved so, changed ones included.
        removed_fates: What became of the records of removed samples → samples.
        added_fates: What the records of added samples were in the first version → samples.
    """

    equal: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    changed_and_moved: int = 0
    fields: Counter[str] = field(default_factory=Counter)
    moves: Counter[str] = field(default_factory=Counter)
    removed_fates: Counter[str] = field(default_factory=Counter)
    added_fates: Counter[str] = field(default_factory=Counter)

    @property
    def has_changes(self) -> bool:
        """Whether any sample is not alike in both versions."""
        return self.kinds.total() > 0

    def to_json(self) -> dict[str, Any]:
        """Return the counts as JSON values."""
        names: tuple[ChangeKind, ...] = ("added", "removed", "changed", "moved")
        return {**super().to_json(), **{name: self.kinds[name] for name in names}}


# --- Compares the samples of two versions of one interval, position by position

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
