"""Parses many Examples to one array per field."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trainfeed.errors import FormatError
from trainfeed.tfrecord.examples._example import scan_example
from trainfeed.tfrecord.examples._feature_columns import FeatureColumn, Fields, columns_of
from trainfeed.tfrecord.examples._features import ListKind, RawFeature, check_packed
from trainfeed.tfrecord.examples._layout import Layout
from trainfeed.tfrecord.examples._lockstep import Lists, Structure

__all__ = ["BatchParser", "parse_examples", "parse_row"]

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
    bounds = np.concatenate([[0], np.cumsum(list(map(len, records)))])
    good, lists = structure.match(data, bounds)
    rows = np.frombuffer(data, np.uint8)
    group = np.array(left)[good]
    if not len(group):
        return left, 0
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
