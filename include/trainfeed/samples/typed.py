"""The codec of a schema: samples or columns to records, and back."""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trainfeed.errors import FormatError, SampleShapeError
from trainfeed.samples.layout import (
    ColumnMemory,
    RecordLayout,
    items_dtype,
    record_places,
    records_of_columns,
    require_booleans,
)
from trainfeed.samples.schema import (
    Field,
    Schema,
    as_array,
    as_bytes,
    masked_rows,
)

# --- Records to samples, one by one or by chunks; every count and length is verified

Value: TypeAlias = NDArray[Any] | bytes | str | None


class SampleDecoder:
    """Decodes records of one schema.

    Args:
        schema: The schema.
        layout: The layout of its records.
    """

    def __init__(self, schema: Schema, layout: RecordLayout) -> None:
        self._layout = layout
        self._names = schema.names
        self._has_optional = bool(schema.optional)
        self._variable = layout.variable
        self._variable_names = [field.name for field in layout.variable]
        self._unaligned = layout.unaligned(0, 0)
        num_counts = len(layout.variable)
        # ``x`` skips the fixed part: unpacking a head gives only the counts.
        self._counts = struct.Struct(f"<{schema.fixed_dtype.itemsize}x{num_counts}I")
        self._items = items_dtype(schema)

    def decode(self, record: bytes | memoryview) -> dict[str, Value]:
        """Return the sample of a record, in memory of its own.

        Raises:
            FormatError: The record does not match the schema.
        """
        if len(record) < self._counts.size:
            raise FormatError(
                f"expected a record of at least {self._counts.size} bytes, got {len(record)}"
            )
        # A copy that can be written to: arrays over the bytes of the record would be read-only.
        head = bytearray(record[: self._counts.size])
        for place in self._layout.booleans:
            require_booleans(
                place.name, np.ndarray(place.item_shape, np.uint8, head, place.offset_bytes)
            )
        arrays = {
            name: np.ndarray(shape, dtype, head, offset_bytes)
            for name, offset_bytes, dtype, shape, _ in self._layout.places
        }
        # Records are packed, so fields may be unaligned. Other libraries refuse unaligned arrays,
        # and all code is slower on them.
        for name in self._unaligned:
            arrays[name] = arrays[name].copy()
        values: dict[str, Value] = {**arrays}
        counts = self._counts.unpack(head)
        values.update(self._variable_values(record, counts))
        if self._has_optional:
            named = dict(zip(self._variable_names, counts, strict=True))
            for name in self._layout.presence.absent_in(head, named):
                values[name] = None
        return {name: values[name] for name in self._names}

    def decode_records(self, framing: memoryview, num_records: int) -> dict[str, NDArray[Any]]:
        """Return the fields of all records of a chunk, for schemas of fixed size.

        Args:
            framing: Records with their lengths, as chunks hold them.
            num_records: Number of records in the chunk's header.

        Returns:
            Per field an array of shape ``(num_records, *field.shape)``, in memory of its own; for
            an optional field a masked array, whose data are zeros where it is masked.

        Raises:
            FormatError: The framing does not hold ``num_records`` records of this schema.
        """
        return self.columns_of(self.view_records(framing, num_records))

    def columns_of(self, records: NDArray[np.void]) -> dict[str, NDArray[Any]]:
        """Return the fields of records from ``view_records``, in memory of their own.

        Raises:
            FormatError: A presence bit is set beyond those of the optional fields.
        """
        items = records.view(self._items)
        return self._masked(
            {field.name: _column(items[field.name], field) for field in self._layout.fixed}, records
        )

    def iter_batches(
        self,
        records: NDArray[np.void],
        num_samples: int,
        memory: ColumnMemory,
        *,
        num_missing: int = 0,
    ) -> Iterator[tuple[dict[str, NDArray[Any]], int]]:
        """Yield the fields in batches; see ``TypedCodec.iter_batches``.

        Raises:
            FormatError: A presence bit is set beyond those of the optional fields.
        """
        items = records.view(self._items)
        fields = [items[field.name] for field in self._layout.fixed]
        for start, end in _part_bounds(len(records), memory.num_samples, num_missing):
            # A part is as large as one block, which fits into the cache of the processor.
            block, size = memory.take(), end - start
            for target, values in zip(block.items, fields, strict=True):
                target[:size] = values[start:end]
            columns = block.columns
            if self._has_optional:
                # New views: a masked array refers to its data array, and the block would not
                # notice a reference to one of its own columns.
                columns = {name: column[:size] for name, column in columns.items()}
                columns = self._masked(columns, records[start:end])
            for first in range(0, size, num_samples):
                last = min(first + num_samples, size)
                yield {name: column[first:last] for name, column in columns.items()}, last - first
            memory.give(block)

    def view_records(self, framing: memoryview, num_records: int) -> NDArray[np.void]:
        """Return all records of a chunk without copying them, for schemas of fixed size.

        Returns:
            Shape ``(num_records,)``, dtype ``schema.record_dtype``; a view into ``framing``.

        Raises:
            FormatError: The framing does not hold ``num_records`` records of this schema.
        """
        if self._variable:
            names = [field.name for field in self._variable]
            raise ValueError(f"records have no common size, the fields {names} vary")
        layout = self._layout
        layout.require_size(num_records, len(framing))
        framed = np.frombuffer(framing, layout.framed)
        layout.require_fixed(framed)
        records: NDArray[np.void] = framed["record"]
        return records

    def _masked(
        self, columns: dict[str, NDArray[Any]], records: NDArray[np.void]
    ) -> dict[str, NDArray[Any]]:
        """Return the columns with optional fields masked where they are absent."""
        self._layout.presence.require_known(records)
        for name, absent in self._layout.presence.absent(records).items():
            columns[name] = masked_rows(columns[name], absent)
        return columns

    def _variable_values(
        self, record: bytes | memoryview, counts: tuple[int, ...]
    ) -> dict[str, Value]:
        values = {}
        end = self._counts.size
        for field, count in zip(self._variable, counts, strict=True):
            start = end
            end += count * field.item_bytes
            # A count that is too large ends the loop; the comparison below then raises.
            if end > len(record):
                break
            value = values[field.name] = variable_value(field, record[start:end])
            if field.dtype == "bool":
                require_booleans(field.name, np.asarray(value).view(np.uint8))
        if end != len(record):
            raise FormatError(f"expected a record of {end} bytes by its counts, got {len(record)}")
        return values


def _column(values: NDArray[Any], field: Field) -> NDArray[Any]:
    """Return a copy of a column of ``items_dtype`` with the dtype and shape of the field."""
    column = values.copy()
    if column.dtype is field.values_dtype or column.dtype.kind != "V":
        return column
    return column.view(field.values_dtype).reshape(len(values), *field.item_shape)


def _part_bounds(
    num_records: int, part_records: int, num_missing: int
) -> Iterator[tuple[int, int]]:
    """Yield start and end of parts; the first has ``num_missing`` records unless that is 0."""
    start, end = 0, num_missing or part_records
    while start < num_records:
        yield start, min(end, num_records)
        start, end = end, end + part_records


def variable_value(field: Field, data: bytes | memoryview) -> Value:
    """Return the value of a field of variable size, in memory of its own.

    Raises:
        FormatError: Text is not UTF-8.
    """
    if field.dtype == "bytes":
        return bytes(data)
    if field.dtype == "str":
        try:
            return str(data, "utf-8")
        except UnicodeDecodeError as error:
            raise FormatError(f"field {field.name!r} holds no UTF-8: {error}") from error
    return np.frombuffer(bytearray(data), field.values_dtype).reshape(-1, *field.item_shape)


# --- Chunks of records of different lengths to columns; fixed fields without a step per record


class VariableDecoder:
    """Decodes chunks of a schema with fields of variable size.

    Args:
        schema: The schema.
        layout: The layout of its records.
    """

    def __init__(self, schema: Schema, layout: RecordLayout) -> None:
        self._names = schema.names
        self._layout = layout

    def columns(
        self, framing: memoryview, num_records: int, *, copy: bool
    ) -> dict[str, NDArray[Any]]:
        """Return the fields of all records of a chunk; see ``TypedCodec.decode_columns``.

        Raises:
            FormatError: The framing does not hold ``num_records`` records of this schema.
        """
        layout = self._layout
        heads, ends = layout.find(framing, record_places(framing, num_records))
        fixed = heads["fixed"]
        absent = layout.presence.absent(fixed)
        columns: dict[str, NDArray[Any]] = {}
        for field in layout.fixed:
            column = fixed[field.name].copy()
            missing = absent.get(field.name)
            columns[field.name] = column if missing is None else masked_rows(column, missing)
        for i, field in enumerate(layout.variable):
            # The values of a variable field start where those of the one before it end.
            bounds, missing = ends[:, i : i + 2], absent.get(field.name)
            values = _values(field, framing, bounds, copy=copy)
            if missing is not None:
                values[missing] = None
            columns[field.name] = values
        return {name: columns[name] for name in self._names}


def _values(
    field: Field, framing: memoryview, bounds: NDArray[np.int64], *, copy: bool
) -> NDArray[Any]:
    """Return the values between the bounds, shape ``(n, 2)``, as objects."""
    starts, ends = bounds.T.tolist()
    parts: Iterator[Any] = map(framing.__getitem__, map(slice, starts, ends))
    if copy and field.dtype == "bytes":
        parts = map(bytes, parts)
    elif field.dtype != "bytes":
        parts = (variable_value(field, part) for part in parts)
    # fromiter, not np.array: numpy would treat values that are sequences as further dimensions.
    return np.fromiter(parts, object, len(bounds))


# --- Samples to records, by functions that are made once per schema: they run for every sample

_CODES: Final = {
    "bool": "?", "int8": "b", "int16": "h", "int32": "i", "int64": "q",
    "uint8": "B", "uint16": "H", "uint32": "I", "uint64": "Q",
    "float16": "e", "float32": "f", "float64": "d",
}  # fmt: skip
# Lists whose items all have these types need no check of each item. A list of ints with a bool
# among them does: bool is a subclass of int, so exact types are compared.
_LISTS: Final = (list, tuple)
_PLAIN: Final = {
    "b": frozenset({bool}),
    "i": frozenset({int}),
    "u": frozenset({int}),
    "f": frozenset({float, int}),
}

# Errors of the direct call for values of a wrong type or range.
_REFUSALS: Final = (SampleShapeError, KeyError, TypeError, ValueError, OverflowError, struct.error)

_Encode: TypeAlias = Callable[[Mapping[str, Any]], bytes]
_Pack: TypeAlias = Callable[..., bytes]
_Fixed: TypeAlias = Callable[[Any], Any]
_Variable: TypeAlias = Callable[[Any], tuple[int, bytes]]


class _FixedField(NamedTuple):
    """The part of a field of fixed size in the ``struct`` call.

    Attributes:
        code: The field's part of the format.
        absent: The argument for an absent field.
        convert: Function from a value to the argument.
    """

    code: str
    absent: Any
    convert: _Fixed


class SampleEncoder:
    """Encodes samples of one schema."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._names = frozenset(schema.names)
        self._bits = [(field.name, 1 << i) for i, field in enumerate(schema.optional)]
        plans = {field.name: _fixed_field(field) for field in schema if field.is_fixed}
        codes = "".join(plan.code for plan in plans.values())
        self._fixed = [
            (name, _or_absent(plan.convert, plan.absent, schema[name]))
            for name, plan in plans.items()
        ]
        self._variable = [
            (field.name, _or_absent(_variable_field(field), (0, b""), field))
            for field in schema
            if not field.is_fixed
        ]
        presence = f"{schema.presence_bytes}s" if schema.optional else ""
        # One format for the whole head: presence bits, fixed fields, counts; ``<`` also turns
        # padding off.
        self._pack = struct.Struct(f"<{presence}{codes}{len(self._variable)}I").pack
        self._encode: _Encode = self._encode_optional if schema.optional else self._encode_required
        if not schema.optional and not self._variable:
            self._encode = _fixed_encoder(schema, self._fixed, self._pack)

    def encode(self, sample: Mapping[str, Any]) -> bytes:
        """Return the record of a sample.

        Raises:
            SampleShapeError: Sample and schema disagree.
        """
        try:
            return self._encode(sample)
        except _REFUSALS as refusal:
            cause = refusal
        # The direct call does not say which field is wrong: the values are checked again, one by
        # one.
        self._explain(sample)
        raise SampleShapeError(f"sample does not fit a record: {cause}") from cause

    def _encode_required(self, sample: Mapping[str, Any]) -> bytes:
        if len(sample) != len(self._names):
            raise KeyError
        fixed = [convert(sample[name]) for name, convert in self._fixed]
        variable = [convert(sample[name]) for name, convert in self._variable]
        head = self._pack(*fixed, *[count for count, _ in variable])
        return b"".join([head, *[data for _, data in variable]])

    def _encode_optional(self, sample: Mapping[str, Any]) -> bytes:
        if not self._names.issuperset(sample):
            raise KeyError
        get = sample.get
        present = 0
        for name, bit in self._bits:
            if get(name) is not None:
                present |= bit
        fixed = [convert(get(name)) for name, convert in self._fixed]
        variable = [convert(get(name)) for name, convert in self._variable]
        presence = present.to_bytes(self._schema.presence_bytes, "little")
        head = self._pack(presence, *fixed, *[count for count, _ in variable])
        return b"".join([head, *[data for _, data in variable]])

    def _explain(self, sample: Mapping[str, Any]) -> None:
        """Raise the error of the first field with a wrong value; return if there is none."""
        if not isinstance(sample, Mapping):
            raise SampleShapeError(
                f"expected a mapping from field to value, got a {type(sample).__name__}"
            )
        if unknown := [name for name in sample if name not in self._names]:
            raise SampleShapeError(
                f"expected the fields {list(self._schema.names)}, got also {unknown}"
            )
        for field in self._schema:
            if sample.get(field.name) is None:
                if not field.optional:
                    got = "None" if field.name in sample else "nothing"
                    raise SampleShapeError(
                        f"field {field.name!r}: expected {field}, got {got}; return a value, or"
                        " make the field optional"
                    )
            elif field.is_text:
                as_bytes(field, sample[field.name])
            else:
                as_array(field, sample[field.name])


def _fixed_encoder(schema: Schema, fixed: Sequence[tuple[str, _Fixed]], pack: _Pack) -> _Encode:
    """Return ``encode`` for required fields of fixed size.

    Two or three fields are written out. Of others, the types of all values are compared at once.
    """
    count, names, converts = len(fixed), *zip(*fixed, strict=True)
    if count in _WRITTEN_OUT:
        return _WRITTEN_OUT[count](pack, names, converts)
    arrays = [(i, convert) for i, convert in enumerate(converts) if schema[names[i]].shape]
    natural = [bytes if schema[name].shape else _natural_type(schema[name]) for name in names]

    def encode(sample: Mapping[str, Any]) -> bytes:
        if len(sample) != count:
            raise KeyError
        values = [*map(sample.__getitem__, names)]
        for i, convert in arrays:
            values[i] = convert(values[i])
        if [*map(type, values)] != natural:
            values = [*map(operator.call, converts, map(sample.__getitem__, names))]
        return pack(*values)

    return encode


def _two_fields(pack: _Pack, names: Sequence[str], converts: Sequence[_Fixed]) -> _Encode:
    (first, second), (to_first, to_second) = names, converts

    def encode(sample: Mapping[str, Any]) -> bytes:
        if len(sample) != 2:
            raise KeyError
        return pack(to_first(sample[first]), to_second(sample[second]))

    return encode


def _three_fields(pack: _Pack, names: Sequence[str], converts: Sequence[_Fixed]) -> _Encode:
    (first, second, third), (to_first, to_second, to_third) = names, converts

    def encode(sample: Mapping[str, Any]) -> bytes:
        if len(sample) != 3:
            raise KeyError
        return pack(to_first(sample[first]), to_second(sample[second]), to_third(sample[third]))

    return encode


_WRITTEN_OUT: Final = {2: _two_fields, 3: _three_fields}


def _or_absent(convert: Callable[[Any], Any], absent: Any, field: Field) -> Callable[[Any], Any]:
    """Return ``convert``, for an optional field with None mapped to ``absent``."""
    if not field.optional:
        return convert
    return lambda value: absent if value is None else convert(value)


def _fixed_field(field: Field) -> _FixedField:
    if not field.shape:
        return _FixedField(_CODES[field.dtype], 0, _scalar(field))
    num_values = math.prod(field.item_shape)
    # An array is one string of bytes in the ``struct`` call: packing its values one by one would
    # be slower.
    num_bytes = num_values * field.values_dtype.itemsize
    return _FixedField(f"{num_bytes}s", bytes(num_bytes), _fixed_array(field, num_values))


def _natural_type(field: Field) -> type:
    """Return the type that struct takes directly; it refuses numbers that are out of range."""
    return {"b": bool, "f": float}.get(field.values_dtype.kind, int)


def _scalar(field: Field) -> _Fixed:
    natural, same = _natural_type(field), field.values_dtype.type

    def convert(value: Any) -> Any:
        if type(value) is natural or type(value) is same:
            return value
        return as_array(field, value).item()

    return convert


def _fixed_array(field: Field, num_values: int) -> _Fixed:
    dtype, shape = field.values_dtype, field.item_shape
    pack = struct.Struct(f"<{num_values}{_CODES[field.dtype]}").pack
    plain, is_vector, ndarray = _PLAIN[dtype.kind], len(shape) == 1, np.ndarray

    def convert(value: Any) -> bytes:
        if type(value) is ndarray and value.dtype == dtype and value.shape == shape:
            # The common case: bytes of the array as they are, in C order.
            return value.tobytes()
        if is_vector and type(value) in _LISTS and plain.issuperset(map(type, value)):
            return pack(*value)
        return as_array(field, value).tobytes()

    return convert


def _variable_field(field: Field) -> _Variable:
    return _text(field) if field.is_text else _variable_array(field)


def _text(field: Field) -> _Variable:
    is_str = field.dtype == "str"

    def convert(value: Any) -> tuple[int, bytes]:
        data = value.encode() if is_str and type(value) is str else as_bytes(field, value)
        return len(data), data

    return convert


def _variable_array(field: Field) -> _Variable:
    dtype, rest = field.values_dtype, field.item_shape
    num_dimensions = 1 + len(rest)
    code, plain = _CODES[field.dtype], _PLAIN[dtype.kind]

    def convert(value: Any) -> tuple[int, bytes]:
        kind = type(value)
        if kind is np.ndarray:
            if value.dtype == dtype and value.ndim == num_dimensions and value.shape[1:] == rest:
                return len(value), value.tobytes()
        elif not rest and kind in _LISTS and plain.issuperset(map(type, value)):
            return len(value), struct.pack(f"<{len(value)}{code}", *value)
        array = as_array(field, value)
        return len(array), array.tobytes()

    return convert


# --- The codec of a schema: samples or columns to records, and back


class TypedCodec:
    """Encodes and decodes the samples of one schema; threads may share the object.

    Args:
        schema: The schema.
    """

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._encoder = SampleEncoder(schema)
        layout = RecordLayout(schema)
        self._decoder = SampleDecoder(schema, layout)
        self._variable = None if schema.is_fixed else VariableDecoder(schema, layout)

    @property
    def encoder(self) -> Callable[[Mapping[str, Any]], bytes]:
        """``encode`` without a further call, for loops over samples."""
        return self._encoder.encode

    def encode(self, sample: Mapping[str, Any]) -> bytes:
        """Return the record of a sample.

        Args:
            sample: Mapping from field to value: an array, a number, nested lists of numbers, bytes
                or str. An optional field may be None or missing.

        Raises:
            SampleShapeError: A field is missing or unknown, has another shape or type, or a number
                cannot be stored: an integer out of range, a fraction or a boolean in place of an
                integer, a finite float that becomes infinite.
        """
        return self._encoder.encode(sample)

    def decode(self, record: bytes | memoryview) -> dict[str, Value]:
        """Return the sample of a record, in memory of its own.

        Returns:
            Mapping from field to an array of the field's shape, ``()`` for a number; to bytes or
            str; or to None for an absent optional field.

        Raises:
            FormatError: The record does not match the schema.
        """
        return self._decoder.decode(record)

    def encode_columns(self, columns: Mapping[str, NDArray[Any]]) -> NDArray[np.void]:
        """Return the records of many samples, for schemas of fixed size.

        Args:
            columns: Mapping from field to an array of shape ``(n, *field.shape)``. An optional
                field may be missing, or a masked array in which whole rows are masked.

        Returns:
            Shape ``(n,)``, dtype ``schema.record_dtype``; the bytes of an item equal the result of
            ``encode`` for that sample.

        Raises:
            SampleShapeError: See ``encode``; or the columns differ in length.
        """
        return records_of_columns(self.schema, columns)

    def decode_records(self, framing: memoryview, num_records: int) -> dict[str, NDArray[Any]]:
        """Return the fields of all records of a chunk, for schemas of fixed size.

        Args:
            framing: Records with their lengths, as chunks hold them.
            num_records: Number of records in the chunk's header.

        Returns:
            Per field an array of shape ``(num_records, *field.shape)``, in memory of its own; for
            an optional field a masked array, whose data are zeros where it is masked.

        Raises:
            FormatError: The framing does not hold ``num_records`` records of this schema.
        """
        return self._decoder.decode_records(framing, num_records)

    def decode_columns(
        self, framing: memoryview, num_records: int, *, copy: bool = True
    ) -> dict[str, NDArray[Any]]:
        """Return the fields of all records of a chunk, for any schema.

        Args:
            framing: Records with their lengths, as chunks hold them.
            num_records: Number of records in the chunk's header.
            copy: False gives values of bytes as memoryviews of ``framing``.

        Returns:
            Fields of fixed size as in ``decode_records``. A field of variable size is an object
            array of shape ``(num_records,)`` of arrays, bytes or str, None where absent. Without
            ``copy=False`` all values have memory of their own.

        Raises:
            FormatError: The framing does not hold ``num_records`` records of this schema.
        """
        if self._variable is None:
            return self._decoder.decode_records(framing, num_records)
        return self._variable.columns(framing, num_records, copy=copy)

    def view_records(self, framing: memoryview, num_records: int) -> NDArray[np.void]:
        """Return all records of a chunk without copying them, for schemas of fixed size.

        Args:
            framing: Records with their lengths, as chunks hold them.
            num_records: Number of records in the chunk's header.

        Returns:
            Shape ``(num_records,)``, dtype ``schema.record_dtype``; a view into ``framing``, valid
            as long as that is. Lengths and booleans were verified.

        Raises:
            FormatError: The framing does not hold ``num_records`` records of this schema.
        """
        return self._decoder.view_records(framing, num_records)

    def columns_of(self, records: NDArray[np.void]) -> dict[str, NDArray[Any]]:
        """Return the fields of records from ``view_records``, or of a slice of them.

        Args:
            records: Shape ``(n,)``.

        Returns:
            Per field a contiguous array of shape ``(n, *field.shape)``, in memory of its own; for
            an optional field a masked array, whose data are zeros where it is masked.

        Raises:
            FormatError: A presence bit is set beyond those of the optional fields.
        """
        return self._decoder.columns_of(records)

    def iter_batches(
        self,
        records: NDArray[np.void],
        num_samples: int,
        memory: ColumnMemory,
        *,
        num_missing: int = 0,
    ) -> Iterator[tuple[dict[str, NDArray[Any]], int]]:
        """Cut records into batches; faster than a call of ``columns_of`` for each batch.

        Args:
            records: Records from ``view_records``, shape ``(n,)``.
            num_samples: Samples of a batch. A block of ``memory`` must hold a multiple of it, or
                all of ``records``.
            memory: Memory for the columns; blocks are used again when no array refers to them.
            num_missing: Samples of the first batch if it is smaller than the others; otherwise 0.

        Yields:
            Columns as in ``columns_of`` for ``num_samples`` records, fewer at the end, and their
            number.

        Raises:
            FormatError: A presence bit is set beyond those of the optional fields.
        """
        return self._decoder.iter_batches(records, num_samples, memory, num_missing=num_missing)
