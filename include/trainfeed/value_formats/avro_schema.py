"""Avro schemas: parsed strictly, with their names resolved, and their Arrow types."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import pyarrow as pa

from trainfeed.value_formats.framed import SchemaError

# --- The types of a schema, with names resolved

_PRIMITIVES: Final = (
    "null", "boolean", "int", "long", "float", "double", "bytes", "string",
)  # fmt: skip
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# A schema that a person wrote has a tenth of it; deeper ones would exhaust the stack.
_MOST_DEPTH: Final = 64
_ABSENT: Final = object()

# Logical types that change the Arrow type → the types that they may annotate.
_LOGICAL: Final[Mapping[str, tuple[str, ...]]] = {
    "date": ("int",),
    "time-millis": ("int",),
    "time-micros": ("long",),
    "timestamp-millis": ("long",),
    "timestamp-micros": ("long",),
    "timestamp-nanos": ("long",),
    "local-timestamp-millis": ("long",),
    "local-timestamp-micros": ("long",),
    "local-timestamp-nanos": ("long",),
    "decimal": ("bytes", "fixed"),
}
_ARROW: Final[Mapping[str, pa.DataType]] = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
    "enum": pa.string(),
    "date": pa.date32(),
    "time-millis": pa.time32("ms"),
    "time-micros": pa.time64("us"),
    "timestamp-millis": pa.timestamp("ms", tz="UTC"),
    "timestamp-micros": pa.timestamp("us", tz="UTC"),
    "timestamp-nanos": pa.timestamp("ns", tz="UTC"),
    "local-timestamp-millis": pa.timestamp("ms"),
    "local-timestamp-micros": pa.timestamp("us"),
    "local-timestamp-nanos": pa.timestamp("ns"),
}
_MOST_DIGITS: Final = 76


@dataclass(eq=False)
class AvroType:
    """One type of a schema; a record may hold itself, so types are compared by identity.

    Attributes:
        kind: Name of a primitive type, or record, enum, fixed, array, map or union.
        name: Full name of a record, enum or fixed.
        aliases: Full names that a reader's schema gives it beside its own.
        fields: Fields of a record, in order.
        symbols: Symbols of an enum.
        default: The symbol of an enum for symbols that it does not have; None for none.
        size: Bytes of a fixed.
        items: Type of the items of an array, or of the values of a map.
        branches: Branches of a union.
        logical: A logical type that changes the Arrow type; empty without one.
        precision: Digits of a decimal.
        scale: Digits of a decimal behind the point.
    """

    kind: str
    name: str = ""
    aliases: tuple[str, ...] = ()
    fields: list[AvroField] = field(default_factory=list)
    symbols: tuple[str, ...] = ()
    default: str | None = None
    size: int = 0
    items: AvroType | None = None
    branches: tuple[AvroType, ...] = ()
    logical: str = ""
    precision: int = 0
    scale: int = 0

    @property
    def short_name(self) -> str:
        """The name without its namespace."""
        return self.name.rpartition(".")[2]

    def __str__(self) -> str:
        return f"{self.kind} {self.name}" if self.name else self.kind


@dataclass(eq=False)
class AvroField:
    """One field of a record.

    Attributes:
        name: Its name.
        type: Its type.
        aliases: Names that a reader's schema gives it beside its own.
        default: JSON of the default.
        has_default: Whether there is one.
    """

    name: str
    type: AvroType
    aliases: tuple[str, ...] = ()
    default: Any = None
    has_default: bool = False


def parse_avro(text: str, references: Sequence[str] = ()) -> AvroType:
    """Parse a schema.

    Args:
        text: The schema, as JSON.
        references: Schemas whose names it uses, each after those that it uses itself.

    Raises:
        SchemaError: One of them is no valid schema.
    """
    names: dict[str, AvroType] = {}
    for each in references:
        _Parser(names).parse(_json(each), "", 0)
    return _Parser(names).parse(_json(text), "", 0)


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        # The schema of a primitive type may stand alone, as its bare name.
        if text.strip() in _PRIMITIVES:
            return text.strip()
        raise SchemaError(f"expected a schema of Avro as JSON: {error}") from error


_Json: TypeAlias = Mapping[str, Any]


class _Parser:
    def __init__(self, names: dict[str, AvroType]) -> None:
        self._names = names

    def parse(self, value: Any, namespace: str, depth: int) -> AvroType:  # noqa: PLR0911
        if depth > _MOST_DEPTH:
            raise SchemaError(f"expected types nested at most {_MOST_DEPTH} deep, got deeper ones")
        if isinstance(value, str):
            return self._named(value, namespace)
        if isinstance(value, list):
            return self._union(value, namespace, depth)
        if not isinstance(value, dict) or "type" not in value:
            raise SchemaError(f"expected a type of Avro, got {str(value)[:60]!r}")
        kind = value["type"]
        if not isinstance(kind, str):
            # {"type": {"type": …}}: the inner one counts.
            return self.parse(kind, namespace, depth + 1)
        match kind:
            case "record" | "error":
                return self._record(value, namespace, depth)
            case "enum":
                return self._enum(value, namespace)
            case "fixed":
                return self._fixed(value, namespace)
            case "array" | "map":
                inner = value.get("items" if kind == "array" else "values", _ABSENT)
                return AvroType(kind, items=self.parse(inner, namespace, depth + 1))
            case _:
                found = self._named(kind, namespace)
                return _annotated(found, value) if kind in _PRIMITIVES else found

    def _named(self, name: str, namespace: str) -> AvroType:
        if name in _PRIMITIVES:
            return AvroType(name)
        for full in (_full(name, namespace), name):
            if full in self._names:
                return self._names[full]
        raise SchemaError(f"expected a type of Avro or a name that stands before, got {name!r}")

    def _union(self, value: list[Any], namespace: str, depth: int) -> AvroType:
        branches = tuple(self.parse(each, namespace, depth + 1) for each in value)
        told = [each.name or each.kind for each in branches]
        if not branches or len(set(told)) < len(told) or "union" in told:
            raise SchemaError(f"expected a union of different types, got {told}")
        return AvroType("union", branches=branches)

    def _record(self, value: _Json, namespace: str, depth: int) -> AvroType:
        record, inner = self._definition("record", value, namespace)
        fields = value.get("fields")
        if not isinstance(fields, list):
            raise SchemaError(f"expected a list of fields in {record}")
        for each in fields:
            record.fields.append(self._field(each, record, inner, depth))
        names = [each.name for each in record.fields]
        if len(set(names)) < len(names):
            raise SchemaError(f"expected different names of fields in {record}, got {names}")
        return record

    def _field(self, value: Any, record: AvroType, namespace: str, depth: int) -> AvroField:
        name = value.get("name") if isinstance(value, dict) else None
        if not isinstance(name, str) or not _NAME.fullmatch(name) or "type" not in value:
            raise SchemaError(f"expected fields with name and type in {record}, got {name!r}")
        kind = value["type"]
        found = self.parse(kind, namespace, depth + 1)
        aliases = _texts(value.get("aliases", []), f"aliases of {name!r}")
        default = value.get("default", _ABSENT)
        has_default = default is not _ABSENT
        return AvroField(name, found, aliases, default if has_default else None, has_default)

    def _enum(self, value: _Json, namespace: str) -> AvroType:
        enum, _ = self._definition("enum", value, namespace)
        enum.symbols = _texts(value.get("symbols"), f"symbols of {enum}")
        if not enum.symbols or len(set(enum.symbols)) < len(enum.symbols):
            raise SchemaError(f"expected different symbols in {enum}")
        if (default := value.get("default")) is not None:
            if default not in enum.symbols:
                raise SchemaError(f"expected a symbol as the default of {enum}, got {default!r}")
            enum.default = default
        return enum

    def _fixed(self, value: _Json, namespace: str) -> AvroType:
        fixed, _ = self._definition("fixed", value, namespace)
        size = value.get("size")
        if type(size) is not int or not 0 < size <= 1 << 20:
            raise SchemaError(f"expected a size above 0 in {fixed}, got {size!r}")
        fixed.size = size
        return _annotated(fixed, value)

    def _definition(self, kind: str, value: _Json, namespace: str) -> tuple[AvroType, str]:
        """Return a new named type, which is known from here on, and the namespace inside of it."""
        name, own = value.get("name"), value.get("namespace", namespace)
        if not isinstance(name, str) or not isinstance(own, str):
            raise SchemaError(f"expected a name of a {kind}, got {str(name)[:60]!r}")
        full = _full(name, own)
        if not all(_NAME.fullmatch(part) for part in full.split(".")):
            raise SchemaError(f"expected a name of letters, digits and _, got {full!r}")
        if full in self._names:
            raise SchemaError(f"expected one definition of {full!r}, got two")
        inner = full.rpartition(".")[0]
        aliases = _texts(value.get("aliases", []), f"aliases of {full!r}")
        found = AvroType(kind, full, tuple(_full(each, inner) for each in aliases))
        self._names[full] = found
        return found, inner


def _full(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _texts(value: Any, what: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise SchemaError(f"expected a list of texts as {what}")
    return tuple(value)


def _annotated(found: AvroType, value: _Json) -> AvroType:
    """Return a type with its logical type; an unknown or wrong one is ignored, as Avro says."""
    logical = value.get("logicalType")
    if not isinstance(logical, str) or found.kind not in _LOGICAL.get(logical, ()):
        return found
    if logical == "decimal":
        precision, scale = value.get("precision"), value.get("scale", 0)
        if not isinstance(precision, int) or not isinstance(scale, int):
            return found
        if not 0 <= scale <= precision <= _MOST_DIGITS or not precision:
            return found
        found.precision, found.scale = precision, scale
    found.logical = logical
    return found


# --- The Arrow type of what a reader's schema holds


def arrow_type(schema: AvroType) -> pa.DataType:
    """Return the Arrow type, which holds every value of the schema without loss.

    Raises:
        SchemaError: There is none: a union of several types, or a record that holds itself.
    """
    return _arrow(schema, "", ())


def _arrow(schema: AvroType, path: str, within: tuple[AvroType, ...]) -> pa.DataType:
    if schema in within:
        raise SchemaError(
            f"{path}: a {schema} that holds itself is no column; leave the field out of the"
            " reader's schema"
        )
    match schema.kind:
        case "record":
            inside = (*within, schema)
            fields = [
                pa.field(each.name, _arrow(each.type, _joined(path, each.name), inside))
                for each in schema.fields
            ]
            return pa.struct(fields)
        case "array":
            return pa.list_(_arrow(_items(schema), f"{path}[]", within))
        case "map":
            return pa.map_(pa.string(), _arrow(_items(schema), f"{path}{{}}", within))
        case "union":
            others = [each for each in schema.branches if each.kind != "null"]
            if len(others) != 1:
                raise SchemaError(
                    f"{path}: expected one type, or one and null, got a union of"
                    f" {[str(each) for each in schema.branches]}; name the one to read, or leave"
                    " the field out of the reader's schema"
                )
            return _arrow(others[0], path, within)
        case _:
            return _arrow_of_single(schema)


def _arrow_of_single(schema: AvroType) -> pa.DataType:
    if schema.logical == "decimal":
        kind = pa.decimal128 if schema.precision <= 38 else pa.decimal256
        return kind(schema.precision, schema.scale)
    return (
        pa.binary(schema.size) if schema.kind == "fixed" else _ARROW[schema.logical or schema.kind]
    )


def _items(schema: AvroType) -> AvroType:
    if schema.items is None:
        raise SchemaError(f"expected the type of the items of a {schema}")
    return schema.items


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
