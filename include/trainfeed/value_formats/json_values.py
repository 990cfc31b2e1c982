"""Values of JSON behind a schema registry, as Arrow columns by the reader's JSON Schema.

The reader's schema says which properties the function gets and of what type. A value that lacks a
required one, or has another type, is refused. What else a JSON Schema may ask, such as a pattern or
a range, is for the producer's serializer and the gates of the data set.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from trainfeed.preprocessing import json_columns
from trainfeed.preprocessing.source_record import loads
from trainfeed.value_formats.datums import Cursor, Positions, binary_column, spread
from trainfeed.value_formats.framed import DatumReader, SchemaError, WriterSchema

_KIND: Final = "JSON"
# Why a value is refused that is no JSON at all.
NOT_JSON: Final = "expected JSON in UTF-8"
_MOST_DEPTH: Final = 64
_INT64: Final = np.iinfo(np.int64)
_ARROW: Final[Mapping[str, pa.DataType]] = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "integer": pa.int64(),
    "number": pa.float64(),
    "string": pa.string(),
}


class JsonSchemaFormat:
    """Values of JSON with a schema.

    Args:
        text: The reader's schema.

    Raises:
        SchemaError: The schema is not valid, or has a type that is no column.
    """

    def __init__(self, text: str) -> None:
        try:
            schema = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise SchemaError(f"expected a JSON Schema: {error}") from error
        self._top = _Parser(schema).parse(schema, "", 0)

    @property
    def type(self) -> pa.DataType:
        """The Arrow type of a value."""
        return self._top.arrow

    def datum_reader(self, writer: WriterSchema) -> DatumReader:
        """Return what reads the values of a writer.

        Raises:
            SchemaError: The writer's schema is of another kind.
        """
        if writer.kind != _KIND:
            raise SchemaError(f"expected a JSON Schema, got a schema of kind {writer.kind}")
        return _JsonDatums(self._top)


@dataclass
class _Type:
    """What a value may be.

    Attributes:
        kind: object, array, or a name of ``_ARROW``.
        is_nullable: Whether it may be null.
        arrow: Type of the column.
        properties: Properties of an object.
        required: Names of those that it must have.
        items: Type of the items of an array.
    """

    kind: str
    is_nullable: bool
    arrow: pa.DataType
    properties: Mapping[str, _Type] = field(default_factory=dict)
    required: frozenset[str] = frozenset()
    items: _Type | None = None


class _Parser:
    def __init__(self, top: Any) -> None:
        self._top = top

    def parse(self, schema: Any, path: str, depth: int) -> _Type:
        where = path or "the schema"
        if depth > _MOST_DEPTH:
            raise SchemaError(f"{where}: expected types nested at most {_MOST_DEPTH} deep")
        if not isinstance(schema, dict):
            raise SchemaError(f"{where}: expected a JSON Schema with a type")
        if isinstance(reference := schema.get("$ref"), str):
            return self.parse(self._referred(reference, where), path, depth + 1)
        for key in ("oneOf", "anyOf"):
            if key in schema:
                return self._one_of(schema[key], path, depth)
        kinds = schema.get("type")
        names = [kinds] if isinstance(kinds, str) else kinds
        if not isinstance(names, list) or not all(isinstance(each, str) for each in names):
            raise SchemaError(f"{where}: expected a type, got {str(kinds)[:40]!r}")
        others = [each for each in names if each != "null"]
        if not others and names:
            others = ["null"]
        if len(others) != 1:
            raise SchemaError(
                f"{where}: expected one type, or one and null, got {names}; name the one to read,"
                " or leave the property out of the reader's schema"
            )
        return self._typed(others[0], schema, path, depth, is_nullable="null" in names)

    def _typed(
        self, kind: Any, schema: Mapping[str, Any], path: str, depth: int, *, is_nullable: bool
    ) -> _Type:
        if kind == "object":
            properties = schema.get("properties")
            if not isinstance(properties, dict):
                raise SchemaError(f"{path or 'the schema'}: expected an object with properties")
            found = {
                name: self.parse(each, f"{path}.{name}" if path else name, depth + 1)
                for name, each in properties.items()
            }
            arrow = pa.struct([pa.field(name, each.arrow) for name, each in found.items()])
            required = schema.get("required", [])
            if not isinstance(required, list) or not all(isinstance(e, str) for e in required):
                raise SchemaError(f"{path or 'the schema'}: expected a list of names as required")
            return _Type(kind, is_nullable, arrow, found, frozenset(required) & found.keys())
        if kind == "array":
            items = self.parse(schema.get("items"), f"{path}[]", depth + 1)
            return _Type(kind, is_nullable, pa.list_(items.arrow), items=items)
        if kind not in _ARROW:
            raise SchemaError(f"{path or 'the schema'}: expected a type, got {str(kind)[:40]!r}")
        return _Type(kind, is_nullable, _ARROW[kind])

    def _one_of(self, branches: Any, path: str, depth: int) -> _Type:
        """Return the type of a union of one type and null, as serializers write optional ones."""
        known = branches if isinstance(branches, list) else []
        others = [each for each in known if each != {"type": "null"}]
        if len(others) != 1:
            raise SchemaError(f"{path or 'the schema'}: expected one type, or one and null")
        found = self.parse(others[0], path, depth + 1)
        found.is_nullable = found.is_nullable or len(others) < len(known)
        return found

    def _referred(self, reference: str, where: str) -> Any:
        found = self._top
        head, *parts = reference.split("/")
        for part in parts:
            found = found.get(part) if isinstance(found, dict) else None
        if head != "#" or found is None:
            raise SchemaError(f"{where}: expected a $ref inside of the schema, got {reference!r}")
        return found


class _JsonDatums:
    """Reads JSON: usual values at once, the others one by one."""

    def __init__(self, top: _Type) -> None:
        self._top = top
        parts = top.properties.items()
        is_flat = all(each.kind in _ARROW and each.kind != "null" for _, each in parts)
        self._fields = {name: each.arrow for name, each in parts} if is_flat and parts else None
        self._not_null = [name for name, each in parts if not each.is_nullable]

    def read(self, cursor: Cursor) -> pa.Array:
        texts = binary_column(cursor, cursor.pos, cursor.end)
        cursor.pos = cursor.end
        parts: list[tuple[Positions | None, pa.Array]] = []
        others = np.arange(len(cursor))
        if self._top.kind == "object" and self._fields is not None:
            rows, columns = self._usual(texts)
            column = pa.StructArray.from_arrays(columns.columns, names=columns.schema.names)
            parts.append((rows, column.cast(self._top.arrow)))
            others = np.setdiff1d(others, rows)
        if len(others):
            values = [self._value(cursor, int(row), texts[int(row)].as_py()) for row in others]
            parts.append((others, pa.array(values, self._top.arrow)))
        return spread(parts, len(cursor), self._top.arrow)

    def _usual(self, texts: pa.Array) -> tuple[NDArray[np.int64], pa.RecordBatch]:
        """Return the rows whose fields are all there and of their types, and the fields."""
        rows, columns = json_columns(texts, self._fields or {})
        wrong = np.zeros(len(rows), np.bool_)
        for name in self._not_null:
            if columns.column(name).null_count:
                wrong |= columns.column(name).is_null().to_numpy(zero_copy_only=False)
        if not wrong.any():
            return rows, columns
        good = np.flatnonzero(~wrong)
        return rows[good], columns.take(pa.array(good))

    def _value(self, cursor: Cursor, row: int, text: bytes) -> Any:
        mask = np.zeros(len(cursor), np.bool_)
        mask[row] = True
        try:
            text.decode()
            return _checked(loads(text), self._top, "")
        except (ValueError, RecursionError) as error:
            is_ours = isinstance(error, _WrongValueError)
            cursor.refuse(mask, str(error) if is_ours else NOT_JSON)
            return None


class _WrongValueError(ValueError):
    """A value is not of the type that the reader's schema says."""


def _checked(value: Any, known: _Type, path: str) -> Any:  # noqa: PLR0911 - a line for each type
    """Return a value as Arrow takes it, or raise ``_WrongValueError``."""
    if value is None and (known.is_nullable or known.kind == "null"):
        return None
    match known.kind:
        case "object" if isinstance(value, dict):
            return {
                name: _property(value, name, each, known, path)
                for name, each in known.properties.items()
            }
        case "array" if isinstance(value, list) and known.items is not None:
            return [_checked(each, known.items, f"{path}[]") for each in value]
        case "boolean" if isinstance(value, bool):
            return value
        case "string" if isinstance(value, str) and _is_text(value):
            return value
        case "number" if type(value) in {int, float} and _is_finite(value):
            return float(value)
        case "integer" if type(value) is int or (type(value) is float and value.is_integer()):
            if _INT64.min <= value <= _INT64.max:
                return int(value)
    got = type(value).__name__ if value is not None else "null"
    raise _WrongValueError(f"{path or 'value'}: expected {known.kind}, got {got}")


def _property(value: Mapping[str, Any], name: str, each: _Type, known: _Type, path: str) -> Any:
    inner = f"{path}.{name}" if path else name
    if name in value:
        return _checked(value[name], each, inner)
    if name in known.required:
        raise _WrongValueError(f"{inner}: a required property is missing")
    return None


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_finite(value: float) -> bool:
    # A whole number of more than a float holds, NaN and infinity are no values of a column.
    return bool(abs(value) <= np.finfo(np.float64).max)
