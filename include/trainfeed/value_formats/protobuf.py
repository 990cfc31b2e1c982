"""Values of Protobuf as Arrow columns, all messages of a schema at once.

A message is a sequence of tags and values. Writers write fields in the order of their numbers, so
one pass over the fields of the schema reads the messages of a batch, each field for all messages
that have it next; what stands in another order takes a further pass. Strict: a field that is not in
the writer's schema, a value of another wire type, and bytes behind the end are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from trainfeed.value_formats.datums import (
    VARINT,
    Cursor,
    Positions,
    binary_column,
    by_owner,
    item_cursor,
    refuse_owners,
    spread,
    text_column,
)
from trainfeed.value_formats.framed import DatumReader, SchemaError, WriterSchema
from trainfeed.value_formats.proto_schema import (
    ProtoEnum,
    ProtoField,
    ProtoFile,
    ProtoMessage,
    parse_proto,
)

_KIND: Final = "PROTOBUF"
_MOST_DEPTH: Final = 64
# Messages of one file are a few levels deep; a path in a value has as many indexes.
_MOST_INDEXES: Final = 16
_VARINT, _FIXED64, _SLICE, _FIXED32 = 0, 1, 2, 5
_WIRE_BITS: Final = 3
_END: Final = -1

_ARROW: Final[Mapping[str, pa.DataType]] = {
    **dict.fromkeys(("int32", "sint32", "sfixed32"), pa.int32()),
    **dict.fromkeys(("int64", "sint64", "sfixed64"), pa.int64()),
    **dict.fromkeys(("uint32", "fixed32"), pa.uint32()),
    **dict.fromkeys(("uint64", "fixed64"), pa.uint64()),
    "bool": pa.bool_(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "bytes": pa.binary(),
    "enum": pa.string(),
}
_WIRE: Final[Mapping[str, int]] = {
    **dict.fromkeys(("string", "bytes", "message"), _SLICE),
    **dict.fromkeys(("fixed64", "sfixed64", "double"), _FIXED64),
    **dict.fromkeys(("fixed32", "sfixed32", "float"), _FIXED32),
}
_FIXED: Final[Mapping[str, str]] = {
    "fixed64": "<u8", "sfixed64": "<i8", "double": "<f8", "fixed32": "<u4", "sfixed32": "<i4",
    "float": "<f4",
}  # fmt: skip
# Arrow type of the writer's field → those of a reader's field that hold all of its values.
_WIDER: Final[Mapping[pa.DataType, tuple[pa.DataType, ...]]] = {
    pa.int32(): (pa.int64(), pa.float64()),
    pa.uint32(): (pa.int64(), pa.uint64(), pa.float64()),
    pa.float32(): (pa.float64(),),
    pa.string(): (pa.binary(),),
    pa.binary(): (pa.string(),),
}


class ProtobufFormat:
    """Values of Protobuf.

    Args:
        text: The reader's schema, a ``.proto`` file without imports but those of Protobuf itself.
        message: Full name of the message; None for the only one at the top.

    Raises:
        SchemaError: The schema is not valid, has no such message, or has a type that is no column.
    """

    def __init__(self, text: str, message: str | None) -> None:
        file = parse_proto(text)
        self._message = _chosen(file, message)
        self._type = _struct(self._message, ())

    @property
    def type(self) -> pa.DataType:
        """The Arrow type of a value."""
        return self._type

    def datum_reader(self, writer: WriterSchema) -> DatumReader:
        """Return what reads the values of a writer.

        Raises:
            SchemaError: The writer's schema is not valid.
        """
        if writer.kind != _KIND:
            raise SchemaError(f"expected a schema of Protobuf, got one of kind {writer.kind}")
        return _Indexed(parse_proto(writer.text, writer.references), self._message, self._type)


def _chosen(file: ProtoFile, name: str | None) -> ProtoMessage:
    if name is not None:
        if name not in file.named:
            known = ", ".join(file.named) or "none"
            raise SchemaError(f"expected the message {name} in the schema, got {known}")
        return file.named[name]
    if len(file.messages) != 1:
        told = ", ".join(each.name for each in file.messages) or "none"
        raise SchemaError(f"expected one message at the top, or message: NAME, got {told}")
    return file.messages[0]


class _Indexed:
    """Reads which message of its file a value is, and then the message."""

    def __init__(self, file: ProtoFile, reader: ProtoMessage, arrow: pa.DataType) -> None:
        self._file = file
        self._reader = reader
        self._arrow = arrow
        self._steps: dict[tuple[int, ...], _Message | str] = {}

    def read(self, cursor: Cursor) -> pa.Array:
        paths = self._paths(cursor)
        parts: list[tuple[Positions | None, pa.Array]] = []
        good = paths[cursor.why == 0]
        # Nearly all topics have one message: sorting takes long.
        is_one = len(good) and (good == good[0]).all()
        for path in good[:1] if is_one else np.unique(good, axis=0):
            rows = np.flatnonzero((paths == path).all(axis=1) & (cursor.why == 0))
            part = cursor.at(rows)
            step = self._step(tuple(int(each) for each in path if each >= 0))
            if isinstance(step, str):
                part.refuse(np.ones(len(part), np.bool_), step)
            else:
                parts.append((rows, step.read(part)))
            cursor.put(rows, part)
        return spread(parts, len(cursor), self._arrow)

    def _paths(self, cursor: Cursor) -> NDArray[np.int64]:
        """Read the indexes of each value, int64 of shape (n, most); -1 behind the last one."""
        count = cursor.varints("message indexes")
        cursor.refuse((count < 0) | (count > _MOST_INDEXES), "expected the indexes of a message")
        count = np.where(cursor.why == 0, count, 0)
        paths = np.full((len(cursor), max(1, int(count.max(initial=0)))), -1, np.int64)
        # No index at all stands for the first message.
        paths[count == 0, 0] = 0
        for place in range(paths.shape[1]):
            rows = np.flatnonzero((count > place) & (cursor.why == 0))
            if len(rows):
                part = cursor.at(rows)
                paths[rows, place] = part.varints("message indexes")
                cursor.put(rows, part)
        wrong = np.logical_or.reduce(paths < -1, axis=1)
        cursor.refuse(wrong, "expected the indexes of a message")
        return paths

    def _step(self, path: tuple[int, ...]) -> _Message | str:
        if path not in self._steps:
            try:
                self._steps[path] = self._made(self._file.at(path))
            except SchemaError as error:
                self._steps[path] = str(error)
        return self._steps[path]

    def _made(self, writer: ProtoMessage) -> _Message:
        if writer.short_name != self._reader.short_name:
            raise SchemaError(f"expected {self._reader.name}, got a {writer.name}")
        return _Steps().message(writer, self._reader, "")


# --- Arrow types of a reader's schema


def _struct(message: ProtoMessage, within: tuple[ProtoMessage, ...]) -> pa.DataType:
    if message in within:
        raise SchemaError(
            f"a message {message.name} that holds itself is no column; leave the field out of the"
            " reader's schema"
        )
    inside = (*within, message)
    return pa.struct([pa.field(each.name, _column(each, inside)) for each in message.fields])


def _column(each: ProtoField, within: tuple[ProtoMessage, ...]) -> pa.DataType:
    if each.message is not None and each.message.is_entry:
        key, value = (_column(part, within) for part in each.message.fields)
        return pa.map_(key, value)
    single = _ARROW[each.kind] if each.message is None else _struct(each.message, within)
    return pa.list_(single) if each.is_repeated else single


# --- Steps of single values


class _Step(Protocol):
    def read(self, cursor: Cursor) -> pa.Array: ...


class _Varint:
    """A whole number, a bool or an enum, as a varint."""

    def __init__(self, path: str, kind: str, enum: ProtoEnum | None) -> None:
        self._path = path
        self._kind = kind
        self._enum = enum

    def read(self, cursor: Cursor) -> pa.Array:
        kind, path = self._kind, self._path
        if kind in {"sint32", "sint64"}:
            return self._narrowed(cursor, cursor.varints(path), _ARROW[kind])
        values = cursor.unsigned_varints(path)
        if kind == "bool":
            cursor.refuse(values > 1, f"{path}: expected a bool of 0 or 1")
            return pa.array(values != 0)
        if kind in {"uint32", "uint64"}:
            return self._narrowed(cursor, values, _ARROW[kind])
        if kind == "enum":
            numbers = self._narrowed(cursor, values.view(np.int64), pa.int32())
            return self._names(numbers.to_numpy())
        return self._narrowed(cursor, values.view(np.int64), _ARROW[kind])

    def _narrowed(self, cursor: Cursor, values: NDArray[Any], arrow: pa.DataType) -> pa.Array:
        if arrow.bit_width == 32 and len(values):
            limits = np.iinfo(arrow.to_pandas_dtype())
            beyond = (values < limits.min) | (values > limits.max)
            cursor.refuse(beyond, f"{self._path}: expected a number of 32 bits")
        packed = values.astype(arrow.to_pandas_dtype())
        return pa.Array.from_buffers(arrow, len(values), [None, pa.py_buffer(packed)])

    def _names(self, numbers: NDArray[np.int32]) -> pa.Array:
        """Return the names of an enum; a number that it does not have is its text."""
        known = {} if self._enum is None else self._enum.names
        distinct, places = np.unique(numbers, return_inverse=True)
        names = [known.get(number, str(number)) for number in distinct.tolist()]
        return pa.array(names, pa.string()).take(pa.array(places))


class _Fixed:
    def __init__(self, path: str, kind: str) -> None:
        self._path = path
        self._dtype = _FIXED[kind]
        self._size = np.dtype(self._dtype).itemsize
        self._arrow = _ARROW[kind]

    def read(self, cursor: Cursor) -> pa.Array:
        values = cursor.datums.words(self._dtype)[cursor.pos]
        cursor.skip(self._size, self._path)
        return pa.Array.from_buffers(self._arrow, len(values), [None, pa.py_buffer(values)])


class _Bytes:
    def __init__(self, path: str, *, is_text: bool) -> None:
        self._path = path
        self._is_text = is_text

    def read(self, cursor: Cursor) -> pa.Array:
        start, end = cursor.slices(self._path, zigzag=False)
        if self._is_text:
            return text_column(cursor, start, end, self._path)
        return binary_column(cursor, start, end)


class _Inner:
    """A message inside of a message."""

    def __init__(self, path: str, message: _Message) -> None:
        self._path = path
        self._message = message

    def read(self, cursor: Cursor) -> pa.Array:
        start, end = cursor.slices(self._path, zigzag=False)
        inner = Cursor(cursor.datums, start.copy(), end.copy(), cursor.why)
        if cursor.datums.depth >= _MOST_DEPTH:
            everyone = np.ones(len(cursor), np.bool_)
            cursor.refuse(everyone, f"{self._path}: messages nested deeper than {_MOST_DEPTH}")
            return pa.nulls(len(cursor), self._message.arrow)
        cursor.datums.depth += 1
        try:
            column = self._message.read(inner)
        finally:
            cursor.datums.depth -= 1
        wrong = inner.why != 0
        cursor.why = inner.why
        cursor.pos = np.where(wrong, cursor.end, cursor.pos)
        return column


# --- Messages


@dataclass
class _Field:
    """A field of the writer's message, and where its values go.

    Attributes:
        schema: The field.
        step: Reads one value.
        target: Number of the reader's field; None if it does not have the field.
        arrow: Type of the column.
        default: What an absent value is; None for null.
    """

    schema: ProtoField
    step: _Step
    target: int | None
    arrow: pa.DataType
    default: Any = None


@dataclass
class _Read:
    """What was read of a field so far."""

    rows: list[Positions] = field(default_factory=list)
    values: list[pa.Array] = field(default_factory=list)


class _Message:
    """Reads messages; ``arrow`` is null for one that is only skipped."""

    def __init__(self, arrow: pa.DataType, path: str) -> None:
        self.arrow = arrow
        self._path = path
        self.fields: list[_Field] = []
        self.absent: list[tuple[int, pa.DataType, Any]] = []

    def read(self, cursor: Cursor) -> pa.Array:
        found = {each.schema.number: _Read() for each in self.fields}
        cases = {each.schema.oneof: np.zeros(len(cursor), np.int64)
                 for each in self.fields if each.schema.oneof}  # fmt: skip
        tags = np.full(len(cursor), _END, np.int64)
        self._peek(cursor, np.arange(len(cursor)), tags)
        while (tags != _END).any():
            before = cursor.pos.copy()
            for each in self.fields:
                self._take(cursor, tags, each, found[each.schema.number], cases)
            stuck = (tags != _END) & (before == cursor.pos) & (cursor.why == 0)
            cursor.refuse(stuck, f"{self._path or 'value'}: a field that is not in the schema")
            tags[cursor.why != 0] = _END
        for each in self.fields:
            if each.schema.is_required:
                has = np.zeros(len(cursor), np.bool_)
                for rows in found[each.schema.number].rows:
                    has[rows] = True
                cursor.refuse(~has, f"{each.schema.name}: a required field is missing")
        return self._columns(len(cursor), found, cases)

    def _peek(self, cursor: Cursor, rows: Positions, tags: NDArray[np.int64]) -> None:
        """Read the next tag of messages that have one, and go behind it."""
        going = rows[(cursor.pos[rows] < cursor.end[rows]) & (cursor.why[rows] == 0)]
        tags[rows] = _END
        if len(going):
            part = cursor.at(going)
            found = part.unsigned_varints(self._path or "value").view(np.int64)
            part.refuse((found >> _WIRE_BITS) <= 0, f"{self._path or 'value'}: expected a field")
            cursor.put(going, part)
            tags[going] = np.where(part.why == 0, found, _END)

    def _take(
        self,
        cursor: Cursor,
        tags: NDArray[np.int64],
        each: _Field,
        read: _Read,
        cases: Mapping[str, NDArray[np.int64]],
    ) -> None:
        """Read a field of all messages in which it is next, as often as it is."""
        number = each.schema.number << _WIRE_BITS
        wire = _WIRE.get(each.schema.kind, _VARINT)
        while True:
            rows = np.flatnonzero(tags == number | wire)
            packed = wire != _SLICE and each.schema.is_repeated
            slices = np.flatnonzero(tags == number | _SLICE) if packed else rows[:0]
            if not len(rows) and not len(slices):
                return
            if len(rows):
                part = cursor.at(rows)
                if isinstance(each.step, _Inner) and not each.schema.is_repeated:
                    self._require_one(part, rows, each, read)
                read.values.append(each.step.read(part))
                read.rows.append(rows)
                cursor.put(rows, part)
                if each.schema.oneof:
                    cases[each.schema.oneof][rows] = each.schema.number
                self._peek(cursor, rows, tags)
                if not each.schema.is_repeated:
                    return
            if len(slices):
                self._unpack(cursor, slices, each, read)
                self._peek(cursor, slices, tags)

    def _require_one(self, part: Cursor, rows: Positions, each: _Field, read: _Read) -> None:
        """Refuse a message that stands twice: Protobuf would merge both, and no writer does so."""
        for before in read.rows:
            again = np.isin(rows, before)
            part.refuse(again, f"{each.schema.name}: a message stands twice in one value")

    def _unpack(self, cursor: Cursor, rows: Positions, each: _Field, read: _Read) -> None:
        """Read the items of a packed field."""
        part = cursor.at(rows)
        name = each.schema.name
        start, end = part.slices(name, zigzag=False)
        # The slice is all that its items may take.
        inner = Cursor(part.datums, start.copy(), end.copy(), part.why.copy())
        size = np.dtype(_FIXED[each.schema.kind]).itemsize if each.schema.kind in _FIXED else VARINT
        if size == VARINT:
            stops = part.datums.stops
            counts = np.searchsorted(stops, end) - np.searchsorted(stops, start)
        else:
            counts = (end - start) // size
        items = item_cursor(inner, counts, size, name)
        counts = np.where(inner.why == 0, counts, 0)
        read.values.append(each.step.read(items))
        read.rows.append(np.repeat(rows, counts))
        refuse_owners(inner, counts, items)
        inner.refuse(inner.pos < inner.end, f"{name}: the bytes end within a value")
        part.why = inner.why
        part.pos = np.where(inner.why != 0, part.end, part.pos)
        cursor.put(rows, part)

    def _columns(
        self,
        count: int,
        found: Mapping[int, _Read],
        cases: Mapping[str, NDArray[np.int64]],
    ) -> pa.Array:
        if pa.types.is_null(self.arrow):
            return pa.nulls(count)
        columns: list[Any] = [None] * self.arrow.num_fields
        for each in self.fields:
            if each.target is not None:
                columns[each.target] = _column_of(each, found[each.schema.number], count, cases)
        for target, arrow, default in self.absent:
            columns[target] = _filled(pa.nulls(count, arrow), default)
        if not columns:
            return pa.array([{}] * count, self.arrow)
        return pa.StructArray.from_arrays(columns, fields=list(self.arrow))


def _column_of(
    each: _Field, read: _Read, count: int, cases: Mapping[str, NDArray[np.int64]]
) -> pa.Array:
    if each.schema.is_repeated:
        return _list_of(each, read, count)
    parts: list[tuple[Positions | None, pa.Array]] = list(zip(read.rows, read.values, strict=True))
    single = read.values[0].type if read.values else each.arrow
    # Of a field that stands twice the last value counts: later parts overwrite earlier ones.
    column = spread(parts, count, single)
    if each.schema.oneof:
        others = cases[each.schema.oneof] != each.schema.number
        if others.any():
            column = pc.if_else(pa.array(others), pa.scalar(None, column.type), column)
    return _filled(_widened(column, each.arrow), each.default)


def _list_of(each: _Field, read: _Read, count: int) -> pa.Array:
    values, ends = by_owner(read.values, read.rows, count)
    message = each.schema.message
    if message is not None and message.is_entry:
        entry = pa.struct([("key", each.arrow.key_type), ("value", each.arrow.item_type)])
        pairs = pa.nulls(0, entry) if values is None else values
        keys, items = pairs.flatten()
        # The key of a refused message may be null.
        keys = _filled(keys, _DEFAULTS.get(keys.type))
        return pa.MapArray.from_arrays(pa.array(ends), keys, items, type=each.arrow)
    wanted = each.arrow.value_type
    items = pa.nulls(0, wanted) if values is None else _widened(values, wanted)
    return pa.ListArray.from_arrays(pa.array(ends), items, type=each.arrow)


def _widened(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    return column if column.type.equals(wanted) else column.cast(wanted)


def _filled(column: pa.Array, default: Any) -> pa.Array:
    if default is None or not column.null_count:
        return column
    if isinstance(default, list):
        return pa.array([default] * len(column), column.type)
    return pc.fill_null(column, pa.scalar(default, column.type))


_DEFAULTS: Final[Mapping[pa.DataType, Any]] = {
    **dict.fromkeys((pa.int32(), pa.int64(), pa.uint32(), pa.uint64()), 0),
    **dict.fromkeys((pa.float32(), pa.float64()), 0.0),
    pa.bool_(): False,
    pa.string(): "",
    pa.binary(): b"",
}


# --- A writer's message by the reader's


class _Steps:
    def __init__(self) -> None:
        self._skipped: dict[ProtoMessage, _Message] = {}

    def message(self, writer: ProtoMessage, reader: ProtoMessage, path: str) -> _Message:
        """Return what reads messages, or raise ``SchemaError`` if a field does not fit."""
        made = _Message(_struct(reader, ()), path)
        missing = dict(enumerate(reader.fields))
        numbers = {each.number: place for place, each in missing.items()}
        for each in sorted(writer.fields, key=lambda known: known.number):
            inner = f"{path}.{each.name}" if path else each.name
            place = numbers.get(each.number)
            if place is None:
                made.fields.append(_Field(each, self._skip(each, inner), None, pa.null()))
                continue
            target = missing.pop(place)
            arrow = _column(target, ())
            step = self._step(each, target, inner)
            made.fields.append(_Field(each, step, place, arrow, _absent(each)))
        for place, target in missing.items():
            made.absent.append((place, _column(target, ()), _absent(target)))
        return made

    def _step(self, writer: ProtoField, reader: ProtoField, path: str) -> _Step:
        if writer.is_repeated != reader.is_repeated or (writer.message is None) != (
            reader.message is None
        ):
            raise _misfit(writer, reader, path)
        if writer.message is not None and reader.message is not None:
            if writer.message.is_entry != reader.message.is_entry:
                raise _misfit(writer, reader, path)
            return _Inner(path, self.message(writer.message, reader.message, path))
        found, wanted = _ARROW[writer.kind], _ARROW[reader.kind]
        if (writer.kind == "enum") != (reader.kind == "enum"):
            raise _misfit(writer, reader, path)
        if not found.equals(wanted) and wanted not in _WIDER.get(found, ()):
            raise _misfit(writer, reader, path)
        # Names of an enum are those of the reader, as numbers are what was written.
        return _single(writer.kind, reader.enum, path)

    def _skip(self, writer: ProtoField, path: str) -> _Step:
        if writer.message is None:
            return _single(writer.kind, writer.enum, path)
        if writer.message not in self._skipped:
            made = self._skipped[writer.message] = _Message(pa.null(), path)
            for each in sorted(writer.message.fields, key=lambda known: known.number):
                inner = f"{path}.{each.name}"
                made.fields.append(_Field(each, self._skip(each, inner), None, pa.null()))
        return _Inner(path, self._skipped[writer.message])


_MADE: Final[Mapping[str, Callable[[str], _Step]]] = {
    "string": lambda path: _Bytes(path, is_text=True),
    "bytes": lambda path: _Bytes(path, is_text=False),
}


def _single(kind: str, enum: ProtoEnum | None, path: str) -> _Step:
    if kind in _FIXED:
        return _Fixed(path, kind)
    return _MADE[kind](path) if kind in _MADE else _Varint(path, kind, enum)


def _absent(each: ProtoField) -> Any:
    """Return what an absent value of a field is: None for null."""
    if each.is_repeated:
        return []
    if each.has_presence:
        return None
    if each.enum is not None:
        return each.enum.names.get(each.enum.first, "0")
    return _DEFAULTS[_ARROW[each.kind]]


def _misfit(writer: ProtoField, reader: ProtoField, path: str) -> SchemaError:
    told = [f"{'repeated ' if each.is_repeated else ''}{each.kind}" for each in (reader, writer)]
    return SchemaError(f"{path}: expected {told[0]}, as the reader's schema says, got {told[1]}")
