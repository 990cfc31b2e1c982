"""Parses many Examples to one array per field, without a step per sample."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trainfeed.errors import FormatError
from trainfeed.tfrecord.example import FeatureColumn, Fields, columns_of, scan_example
from trainfeed.tfrecord.wire import ListKind, RawFeature, check_packed, encode_varint

# --- Records that differ only in values, so that one parsed record gives the places in all

# Bits of a byte that must equal the template: all in tags, lengths and keys; none in values; in
# varints the continuation bit, so that every number takes the same bytes.
_ALL_BITS: Final = 0xFF
_NO_BITS: Final = 0
_CONTINUATION_BIT: Final = 0x80


class _ValuePlace(NamedTuple):
    """Place of a field in a record; ``kind`` is None if the field is absent."""

    kind: ListKind | None
    start: int
    end: int


class Layout:
    """The places of fields in all records with the layout of a template.

    Args:
        template: A record.
        columns: The fields.

    Attributes:
        places: Place of each column in a record.

    Raises:
        FormatError: The record is not an Example, or a column is not in one piece.
    """

    def __init__(self, template: bytes, columns: Sequence[FeatureColumn]) -> None:
        features = scan_example(template)
        self.places = [_place(column, features.get(column.name)) for column in columns]
        mask = np.full(len(template), _ALL_BITS, np.uint8)
        for feature in features.values():
            free = _CONTINUATION_BIT if feature.kind is ListKind.INT64 else _NO_BITS
            for i in range(feature.num_pieces):
                mask[feature.bounds[2 * i] : feature.bounds[2 * i + 1]] = free
        self._compared = np.flatnonzero(mask)
        self._mask = mask[self._compared]
        self._expected = np.frombuffer(template, np.uint8)[self._compared] & self._mask

    def matches(self, rows: NDArray[np.uint8]) -> NDArray[np.bool_]:
        """Return True for records that have this layout.

        Args:
            rows: The records as rows, shape ``(n, len(template))``.

        Returns:
            A mask of shape ``(n,)``.
        """
        found = rows[:, self._compared] & self._mask
        return np.asarray((found == self._expected).all(axis=1))


def _place(column: FeatureColumn, feature: RawFeature | None) -> _ValuePlace:
    if feature is None or feature.kind is None:
        return _ValuePlace(None, 0, 0)
    if feature.num_pieces == 1:
        return _ValuePlace(feature.kind, feature.bounds[0], feature.bounds[1])
    # An empty list of numbers may have no piece; a list that is not packed has many.
    if feature.num_pieces == 0 and feature.kind is not ListKind.BYTES:
        return _ValuePlace(feature.kind, 0, 0)
    raise column.refuse(f"{feature.num_pieces} values")


# --- Parses records of different lengths side by side: each step is done for all records at once

_FIELD_1: Final = 0x0A
_FIELD_2: Final = 0x12
# Bytes of a length as varint: lengths are below 2 GiB.
_MAX_LENGTH_BYTES: Final = 5
# Bytes appended to the last record, so that a lookup at the end of a damaged record stays in range.
_PADDING: Final = bytes(_MAX_LENGTH_BYTES + 1)

_Ints = NDArray[np.int64]


class Lists(NamedTuple):
    """The places of the lists of one feature.

    Attributes:
        kind: Kind of the lists; None for a feature without a list.
        starts: Starts of the lists in the joined records, shape ``(n,)``.
        ends: Ends of the lists in the joined records, shape ``(n,)``.
    """

    kind: ListKind | None
    starts: _Ints
    ends: _Ints


class Structure:
    """The keys of an Example, in order, and the kind of each list.

    Args:
        template: A record.

    Raises:
        FormatError: The record is not an Example.
    """

    def __init__(self, template: bytes) -> None:
        self._entries = [
            (key, _literal(_FIELD_1, key.encode()), feature.kind)
            for key, feature in scan_example(template).items()
        ]

    def match(self, data: bytes, bounds: _Ints) -> tuple[NDArray[np.bool_], dict[str, Lists]]:
        """Find the lists of records.

        Args:
            data: The records, joined.
            bounds: Start of each record, and the end of the last one, shape ``(n + 1,)``.

        Returns:
            A mask of the records that have this structure, shape ``(n,)``; and key → lists of
            these records.
        """
        walk = _Side(data, bounds)
        ends = walk.enter(_FIELD_1)
        walk.require(ends == bounds[1:])
        lists: dict[str, Lists] = {}
        for key, literal, kind in self._entries:
            entry_ends = walk.enter(_FIELD_1)
            walk.skip(literal)
            walk.require(walk.enter(_FIELD_2) == entry_ends)
            if kind is None:
                walk.require(walk.positions == entry_ends)
                starts = entry_ends
            else:
                starts = walk.enter_list(kind, entry_ends)
            walk.go_to(entry_ends)
            lists[key] = Lists(kind, starts, entry_ends)
        walk.require(walk.positions == ends)
        good = walk.good
        return good, {
            key: Lists(kind, starts[good], ends[good])
            for key, (kind, starts, ends) in lists.items()
        }


class _Side:
    """Positions in all records, which advance together.

    A record that is not as expected is only marked: its position stays within its bounds, and its
    results are dropped at the end.

    Attributes:
        positions: Current positions in the joined records, shape ``(n,)``.
        good: True for records that were as expected so far.
    """

    def __init__(self, data: bytes, bounds: _Ints) -> None:
        self._data = np.frombuffer(data + _PADDING, np.uint8)
        self._last = bounds[1:]
        self.positions = bounds[:-1]
        self.good = np.ones(len(bounds) - 1, bool)

    def require(self, found: NDArray[np.bool_]) -> None:
        """Mark the records that are not as expected."""
        self.good &= found

    def enter(self, tag: int) -> _Ints:
        """Step over a tag and a length; return the end of the content that follows."""
        self.require(self._data[self.positions] == tag)
        return self._step_over_length(self.positions + 1)

    def enter_list(self, kind: ListKind, ends: _Ints) -> _Ints:
        """Step over the tags and lengths before the only piece of a list; return its start."""
        self.require(self.enter(kind << 3 | 2) == ends)
        is_empty = self.positions == ends
        if kind is not ListKind.BYTES and is_empty.any():
            # An empty list of numbers may have no piece: then the list ends here, and the failed
            # step over the piece's tag and length is undone.
            before, good = self.positions, self.good.copy()
            self.require(self.enter(_FIELD_1) == ends)
            self.good |= good & is_empty
            self.positions = np.where(is_empty, before, self.positions)
        else:
            self.require(self.enter(_FIELD_1) == ends)
        return self.positions

    def skip(self, literal: NDArray[np.uint8]) -> None:
        """Step over bytes that are equal in all records."""
        after = self.positions + len(literal)
        # Clipped to the data: in the last record, if damaged, the literal may run past the end.
        places = np.minimum(self.positions[:, None] + np.arange(len(literal)), len(self._data) - 1)
        self.require((self._data[places] == literal).all(axis=1))
        self.go_to(after)

    def go_to(self, positions: _Ints) -> None:
        """Set the positions; positions after the end of a record are clipped and marked."""
        self.require(positions <= self._last)
        self.positions = np.minimum(positions, self._last)

    def _step_over_length(self, positions: _Ints) -> _Ints:
        byte = self._data[positions]
        lengths = (byte & 0x7F).astype(np.int64)
        more, shift, positions = byte > 0x7F, 7, positions + 1
        # The next byte of those varints that continue; all others get 0 and stay where they are.
        while more.any() and shift < 7 * _MAX_LENGTH_BYTES:
            byte = np.where(more, self._data[np.minimum(positions, len(self._data) - 1)], 0)
            lengths |= (byte & 0x7F).astype(np.int64) << shift
            positions = positions + more
            more, shift = byte > 0x7F, shift + 7
        self.require(np.logical_not(more))
        self.go_to(positions)
        ends = self.positions + lengths
        self.require(ends <= self._last)
        clipped: _Ints = np.minimum(ends, self._last)
        return clipped


def _literal(tag: int, content: bytes) -> NDArray[np.uint8]:
    return np.frombuffer(bytes([tag]) + encode_varint(len(content)) + content, np.uint8)


# --- Parses many Examples to one array per field

# For fewer records, making a structure or a layout costs more than it saves.
_MIN_RECORDS: Final = 4
_MIN_EQUAL_RECORDS: Final = 16
# A longer record is parsed faster than copied, and its layout would take much memory.
_MAX_TEMPLATE_BYTES: Final = 1 << 18
# Records with more layouts than this are too different: they are parsed in another way.
_MAX_LAYOUTS: Final = 8
# Number of record lengths for which a layout is remembered.
_MAX_KNOWN: Final = 16


def parse_examples(
    records: Iterable[bytes | bytearray | memoryview], fields: Fields
) -> dict[str, NDArray[Any]]:
    """Return fields of Examples as arrays.

    Parsing is fastest if records have the same layout, as records of fields of fixed size usually
    have. For many batches use ``ExampleCodec.decode_records``, which remembers layouts.

    Args:
        records: Records of Examples.
        fields: A ``trainfeed.samples.Schema``, an iterable of its fields, or a mapping from key
            to dtype and shape. Other features of the records are ignored.

    Returns:
        Field → array of shape ``(n, *shape)``, in memory of its own. An optional field of fixed
        size is a masked array, whose data are zeros where it is masked. Fields of variable length,
        bytes and str are arrays ``(n,)`` of objects: arrays, bytes, str, None where absent.

    Raises:
        FormatError: A record is not an Example, or lacks a field, or has another type in it;
            has the number of the record, from 0.
        ConfigError: A dtype or shape is unknown.
    """
    return BatchParser(columns_of(fields)).parse(records)


def parse_row(record: bytes, columns: Sequence[FeatureColumn]) -> list[NDArray[Any] | None]:
    """Return the fields of one record.

    Returns:
        Per column an array of shape ``(1, *shape)``; None for an absent column.

    Raises:
        FormatError: The record is not an Example, or does not match the fields.
    """
    features = scan_example(record)
    return [_row_value(column, record, features.get(column.name)) for column in columns]


class BatchParser:
    """Parses batches of records in three ways, from the fastest to the slowest.

    Records of one length are compared with a ``Layout``; the rest is walked through with a
    ``Structure``; records that match neither are parsed one by one. Threads may share the object.

    Args:
        columns: The fields.
    """

    def __init__(self, columns: Sequence[FeatureColumn]) -> None:
        self._columns = columns
        # By length of the record the latest layout, which the next batch probably has too.
        self._known: dict[int, Layout] = {}
        self._structures: list[Structure] = []

    def parse(self, records: Iterable[bytes | bytearray | memoryview]) -> dict[str, NDArray[Any]]:
        """Return the fields of records; see ``parse_examples``."""
        batch = list(map(bytes, records))
        targets = [_FieldTarget(column, len(batch)) for column in self._columns]
        # Layouts: equal bytes except for the values. Structures: equal features, lengths differ.
        # The rest is parsed one by one.
        left: list[int] = []
        for group in _equal_lengths(batch):
            left += self._put_layouts(batch, group, targets).tolist()
        left = self._put_structures(batch, sorted(left), targets)
        for index in left:
            try:
                values = parse_row(batch[index], self._columns)
            except FormatError as error:
                error.args = (f"record {index}: {error.args[0]}",)
                raise
            for target, value in zip(targets, values, strict=True):
                target.put([index], value)
        return {target.column.name: target.result() for target in targets}

    def _put_layouts(
        self, batch: Sequence[bytes], group: NDArray[np.int64], targets: Sequence[_FieldTarget]
    ) -> NDArray[np.int64]:
        """Parse records of one length by layouts; return the indices of the remaining records."""
        if len(group) < _MIN_EQUAL_RECORDS or len(batch[group[0]]) > _MAX_TEMPLATE_BYTES:
            return group
        # Records of one length, one below the other: a matrix with a row per record.
        data = b"".join(batch if len(group) == len(batch) else [batch[i] for i in group.tolist()])
        rows = np.frombuffer(data, np.uint8).reshape(len(group), -1)
        layout = self._known.get(rows.shape[1])
        for _ in range(_MAX_LAYOUTS):
            try:
                layout = layout or self._layout_of(batch[group[0]])
                matches = layout.matches(rows)
                _put_rows(layout, rows, group, matches, targets)
            except FormatError:
                # Parsing one by one finds the record with the error.
                return group
            # The next layout is made of the first record that did not match.
            group, rows, layout = group[~matches], rows[~matches], None
            if len(group) < _MIN_EQUAL_RECORDS:
                break
        return group

    def _put_structures(
        self, batch: Sequence[bytes], left: list[int], targets: Sequence[_FieldTarget]
    ) -> list[int]:
        """Parse records side by side by structures; return the indices of the remaining records."""
        long = [i for i in left if len(batch[i]) > _MAX_TEMPLATE_BYTES]
        if long:
            left = [i for i in left if len(batch[i]) <= _MAX_TEMPLATE_BYTES]
        # Structures of the batch before are tried first; those that match nothing are forgotten.
        known, self._structures = self._structures, []
        while len(left) >= _MIN_RECORDS and len(self._structures) < _MAX_LAYOUTS:
            try:
                structure = known.pop(0) if known else Structure(batch[left[0]])
                left, num_put = _put_structure(structure, batch, left, targets)
            except FormatError:
                # Parsing one by one finds the record with the error.
                break
            if num_put:
                self._structures.append(structure)
            elif not known:
                break
        return sorted(left + long)

    def _layout_of(self, template: bytes) -> Layout:
        if len(self._known) >= _MAX_KNOWN:
            self._known.clear()
        layout = self._known[len(template)] = Layout(template, self._columns)
        return layout


class _FieldTarget:
    """The array of a column while it is being filled."""

    def __init__(self, column: FeatureColumn, num_records: int) -> None:
        self.column = column
        self._num_records = num_records
        self._absent = np.zeros(num_records, bool)
        self._values: NDArray[Any] | None = None

    def put(self, indices: Sequence[int] | NDArray[np.int64], values: NDArray[Any] | None) -> None:
        """Set the values of the records at ``indices``; None if they lack the column."""
        if values is None:
            self._absent[indices] = True
        elif self.column.is_fixed and len(indices) == self._num_records:
            # All records at once, so they are in order, and the array can be used as it is.
            self._values = values
        elif self.column.is_fixed:
            self._allocated()[indices] = values
        else:
            target = self._allocated()
            for index, row in zip(indices, values, strict=True):
                target[index] = row

    def result(self) -> NDArray[Any]:
        """Return the array."""
        values = self._allocated()
        if not self.column.optional or values.dtype == object:
            return values
        # One mask value per record, broadcast over its values without a copy.
        absent = self._absent.reshape(-1, *(1 for _ in self.column.shape))
        return np.ma.MaskedArray(values, np.broadcast_to(absent, values.shape))

    def _allocated(self) -> NDArray[Any]:
        if self._values is None:
            if self.column.is_text or not self.column.is_fixed:
                self._values = np.full(self._num_records, None, object)
            else:
                shape = (self._num_records, *self.column.item_shape)
                self._values = np.zeros(shape, self.column.dtype)
        return self._values


def _equal_lengths(records: Sequence[bytes]) -> Iterator[NDArray[np.int64]]:
    """Yield for each length the indices of the records of this length, ascending."""
    if len(set(map(len, records))) <= 1:
        yield np.arange(len(records))
        return
    lengths = np.fromiter(map(len, records), np.int64, len(records))
    # Stable, so that records of one length stay in order.
    order = np.argsort(lengths, kind="stable")
    yield from np.split(order, np.flatnonzero(np.diff(lengths[order])) + 1)


def _put_rows(
    layout: Layout,
    rows: NDArray[np.uint8],
    group: NDArray[np.int64],
    matches: NDArray[np.bool_],
    targets: Sequence[_FieldTarget],
) -> None:
    """Put the records that match a layout into the targets; none of them on an error."""
    num_matches = np.count_nonzero(matches)
    if not num_matches:
        return
    if num_matches < len(rows):
        rows, group = rows[matches], group[matches]
    values = [
        _column_values(target.column, place.kind, rows[:, place.start : place.end])
        for target, place in zip(targets, layout.places, strict=True)
    ]
    for target, value in zip(targets, values, strict=True):
        target.put(group, value)


def _put_structure(
    structure: Structure, batch: Sequence[bytes], left: list[int], targets: Sequence[_FieldTarget]
) -> tuple[list[int], int]:
    """Put the records that have a structure into the targets; none of them on an error.

    Returns:
        The indices of the other records, and the number of records with the structure.
    """
    records = [batch[i] for i in left]
    data = b"".join(records)
    # Record i lies in bytes bounds[i] to bounds[i + 1] of ``data``.
    bounds = np.concatenate([[0], np.cumsum(list(map(len, records)))])
    good, lists = structure.match(data, bounds)
    rows = np.frombuffer(data, np.uint8)
    group = np.array(left)[good]
    if not len(group):
        return left, 0
    # Before any value is put: an error must leave the targets as they were.
    _check_ignored(data, lists, targets)
    values = []
    for target in targets:
        found = lists.get(target.column.name)
        if found is None or found.kind is None:
            values.append(_column_values(target.column, None, rows[:0, np.newaxis]))
        else:
            values.append(target.column.ragged_values(found.kind, rows, found.starts, found.ends))
    for target, value in zip(targets, values, strict=True):
        target.put(group, value)
    return [index for index, is_good in zip(left, good.tolist(), strict=True) if not is_good], len(
        group
    )


def _check_ignored(data: bytes, lists: dict[str, Lists], targets: Sequence[_FieldTarget]) -> None:
    """Check the ignored features too, as parsing one by one does.

    Raises:
        FormatError: A list does not end with a whole number.
    """
    for key in lists.keys() - {target.column.name for target in targets}:
        found = lists[key]
        if found.kind in (ListKind.FLOAT, ListKind.INT64):
            for start, end in zip(found.starts.tolist(), found.ends.tolist(), strict=True):
                check_packed(data, start, end, found.kind)


def _column_values(
    column: FeatureColumn, kind: ListKind | None, rows: NDArray[np.uint8]
) -> NDArray[Any] | None:
    if kind is not None:
        return column.values(kind, rows)
    if column.optional:
        return None
    raise column.refuse("nothing")


def _row_value(
    column: FeatureColumn, record: bytes, feature: RawFeature | None
) -> NDArray[Any] | None:
    if feature is None or feature.kind is None:
        return _column_values(column, None, np.empty((1, 0), np.uint8))
    if feature.kind is ListKind.BYTES and feature.num_pieces != 1:
        raise column.refuse(f"{feature.num_pieces} values of bytes")
    content = np.frombuffer(feature.content(record), np.uint8)
    return _column_values(column, feature.kind, content[np.newaxis])
