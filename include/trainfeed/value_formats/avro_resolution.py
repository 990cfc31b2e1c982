"""Avro's rules of resolution: a writer's datums as columns of the reader's schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import pyarrow as pa

from trainfeed.value_formats.avro_columns import (
    ArrayStep,
    BooleanStep,
    BytesStep,
    DecimalStep,
    EnumStep,
    FixedStep,
    FloatStep,
    MapStep,
    NullStep,
    RecordStep,
    SkippedStep,
    Step,
    UnionStep,
    UnreadStep,
    WholeStep,
    scaled,
)
from trainfeed.value_formats.avro_schema import AvroField, AvroType, arrow_type
from trainfeed.value_formats.framed import SchemaError


def resolve(writer: AvroType, reader: AvroType) -> Step:
    """Return the step that reads a writer's datums as columns of the reader's schema.

    Raises:
        SchemaError: The schemas do not fit.
    """
    return _Resolution().step(writer, reader, "")


# --- Avro's rules of resolution


class _Resolution:
    def __init__(self) -> None:
        self._skipped: dict[AvroType, SkippedStep] = {}

    def step(self, writer: AvroType, reader: AvroType, path: str) -> Step:
        """Return the step for a value, or raise ``SchemaError`` if the types do not fit."""
        if writer.kind == "union":
            return self._union(writer, reader, path)
        if reader.kind == "union":
            return self._branch_of(writer, reader, path)
        if writer.kind == reader.kind == "record":
            return self._record(writer, reader, path)
        if writer.kind == reader.kind in {"array", "map"}:
            return self._items(writer, reader, path)
        return _single(writer, reader, path)

    def _union(self, writer: AvroType, reader: AvroType, path: str) -> Step:
        steps: list[Step] = []
        known: list[bool] = []
        why: SchemaError | None = None
        for branch in writer.branches:
            try:
                steps.append(self.step(branch, reader, path))
                known.append(True)
            except SchemaError as error:
                # An error only for the datums that have the branch.
                steps.append(self.skip(branch, path))
                known.append(False)
                why = error
        if not any(known) and why is not None:
            raise why
        return UnionStep(path, steps, known, arrow_type(reader))

    def _branch_of(self, writer: AvroType, reader: AvroType, path: str) -> Step:
        """Return the step for the first branch of the reader's union that the value fits."""
        same = [each for each in reader.branches if each.kind == writer.kind]
        others = [each for each in reader.branches if each.kind != writer.kind]
        if writer.kind == "null" and same:
            return NullStep(arrow_type(reader))
        why = _misfit(writer, reader, path)
        for branch in [*same, *others]:
            try:
                return self.step(writer, branch, path)
            except SchemaError as error:
                why = error
        raise why

    def _record(self, writer: AvroType, reader: AvroType, path: str) -> Step:
        _require_name(writer, reader, path)
        record = RecordStep(arrow_type(reader))
        missing = dict(enumerate(reader.fields))
        numbers = _numbers_by_name(reader)
        for each in writer.fields:
            inner = f"{path}.{each.name}" if path else each.name
            number = numbers.get(each.name)
            if number is None or number not in missing:
                record.steps.append((self.skip(each.type, inner), None))
                continue
            target = missing.pop(number)
            record.steps.append((self.step(each.type, target.type, inner), number))
        for number, target in missing.items():
            record.defaults.append((number, _default(target, path)))
        return record

    def _items(self, writer: AvroType, reader: AvroType, path: str) -> Step:
        if writer.items is None or reader.items is None:
            raise SchemaError(f"{path}: expected the type of items")
        _require_bytes(writer.items, path)
        if writer.kind == "array":
            return ArrayStep(
                path, self.step(writer.items, reader.items, f"{path}[]"), arrow_type(reader)
            )
        return MapStep(
            path, self.step(writer.items, reader.items, f"{path}{{}}"), arrow_type(reader)
        )

    def skip(self, writer: AvroType, path: str) -> Step:
        """Return the step that skips a value which the reader does not have."""
        match writer.kind:
            case "union":
                branches = [self.skip(each, path) for each in writer.branches]
                return UnionStep(path, branches, [True] * len(branches), pa.null())
            case "record":
                return self._skip_record(writer, path)
            case "array" | "map" if writer.items is not None:
                _require_bytes(writer.items, path)
                inner = self.skip(writer.items, path)
                if writer.kind == "array":
                    return ArrayStep(path, UnreadStep(inner), pa.list_(pa.null()))
                return MapStep(path, UnreadStep(inner), pa.map_(pa.string(), pa.null()))
        return _single(writer, writer, path)

    def _skip_record(self, writer: AvroType, path: str) -> Step:
        if writer in self._skipped:
            return self._skipped[writer]
        found = self._skipped[writer] = SkippedStep(path)
        record = RecordStep(None)
        for each in writer.fields:
            record.steps.append((self.skip(each.type, f"{path}.{each.name}"), None))
        found.step = record
        return found


_Maker: TypeAlias = Callable[[AvroType, AvroType, str], Step]


def _single(writer: AvroType, reader: AvroType, path: str) -> Step:
    """Return the step of a value that holds no other one."""
    make = _SINGLE.get((writer.kind, reader.kind))
    if make is None:
        raise _misfit(writer, reader, path)
    _require_logical(writer, reader, path)
    if writer.name:
        _require_name(writer, reader, path)
    step = make(writer, reader, path)
    is_decimal = reader.logical == "decimal"
    return DecimalStep(path, step, arrow_type(reader)) if is_decimal else step


def _whole(writer: AvroType, reader: AvroType, path: str) -> Step:
    return WholeStep(path, is_int=writer.kind == "int", arrow=arrow_type(reader))


def _float(writer: AvroType, reader: AvroType, path: str) -> Step:
    return FloatStep(path, "<f4" if writer.kind == "float" else "<f8", arrow_type(reader))


def _bytes(writer: AvroType, reader: AvroType, path: str) -> Step:
    is_text = writer.kind == "string"
    return BytesStep(path, as_text=reader.kind == "string", is_text=is_text)


def _enum(writer: AvroType, reader: AvroType, path: str) -> Step:
    known = {each: each for each in reader.symbols}
    return EnumStep(path, [known.get(each, reader.default) for each in writer.symbols])


def _fixed(writer: AvroType, reader: AvroType, path: str) -> Step:
    if writer.size != reader.size:
        raise _misfit(writer, reader, path)
    return FixedStep(path, writer.size)


_PROMOTED: Final = {
    "int": ("int", "long", "float", "double"),
    "long": ("long", "float", "double"),
    "float": ("float", "double"),
    "double": ("double",),
    "bytes": ("bytes", "string"),
    "string": ("string", "bytes"),
}
_OF_KIND: Final[Mapping[str, _Maker]] = {
    "int": _whole,
    "long": _whole,
    "float": _float,
    "double": _float,
    "bytes": _bytes,
    "string": _bytes,
}
_SINGLE: Final[Mapping[tuple[str, str], _Maker]] = {
    **{(w, r): _OF_KIND[w] for w, readers in _PROMOTED.items() for r in readers},
    ("null", "null"): lambda _, reader, __: NullStep(arrow_type(reader)),
    ("boolean", "boolean"): lambda _, __, path: BooleanStep(path),
    ("enum", "enum"): _enum,
    ("fixed", "fixed"): _fixed,
}


def _misfit(writer: AvroType, reader: AvroType, path: str) -> SchemaError:
    where = f"{path}: " if path else ""
    return SchemaError(f"{where}expected {reader}, as the reader's schema says, got {writer}")


def _require_name(writer: AvroType, reader: AvroType, path: str) -> None:
    aliases = {each.rpartition(".")[2] for each in reader.aliases}
    if writer.short_name not in {reader.short_name, *aliases}:
        raise _misfit(writer, reader, path)


def _require_logical(writer: AvroType, reader: AvroType, path: str) -> None:
    """Refuse two units of time, and two scales of a decimal: the numbers would mean others."""
    told = [(each.logical, each.precision, each.scale) for each in (writer, reader) if each.logical]
    if len(told) == 2 and told[0] != told[1]:
        raise SchemaError(
            f"{path}: expected {reader.logical}, as the reader's schema says, got {writer.logical}"
            + (" of another precision or scale" if told[0][0] == told[1][0] else "")
        )


def _require_bytes(items: AvroType, path: str) -> None:
    """Refuse items that take no byte: a few bytes could say that there are billions of them."""
    if _least_bytes(items, ()) == 0:
        raise SchemaError(f"{path}: expected items that take a byte or more, got {items}")


def _least_bytes(schema: AvroType, within: tuple[AvroType, ...]) -> int:
    if schema.kind == "null":
        return 0
    if schema.kind != "record" or schema in within:
        return 1
    return sum(_least_bytes(each.type, (*within, schema)) for each in schema.fields)


def _numbers_by_name(reader: AvroType) -> Mapping[str, int]:
    numbers = {alias: n for n, each in enumerate(reader.fields) for alias in each.aliases}
    return numbers | {each.name: n for n, each in enumerate(reader.fields)}


# --- Defaults of the reader's fields


def _default(target: AvroField, path: str) -> pa.Scalar:
    inner = f"{path}.{target.name}" if path else target.name
    if not target.has_default:
        raise SchemaError(
            f"{inner}: expected a field of the writer's schema, or a default in the reader's, got"
            " neither"
        )
    arrow = arrow_type(target.type)
    value = _python(target.default, target.type, inner)
    try:
        return pa.array([value], arrow)[0]
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, TypeError, ValueError) as error:
        raise SchemaError(f"{inner}: expected a default of {arrow}: {error}") from error


def _python(value: Any, schema: AvroType, path: str) -> Any:
    """Return a JSON default as the Python value of the Arrow type."""
    if schema.kind == "union":
        for branch in schema.branches:
            try:
                return _python(value, branch, path)
            except SchemaError:
                continue
    elif type(value) in _JSON_TYPES[schema.kind]:
        return _PYTHON[schema.kind](value, schema, path)
    raise _no_default(value, schema, path)


def _no_default(value: Any, schema: AvroType, path: str) -> SchemaError:
    return SchemaError(f"{path}: expected a default of {schema}, got {str(value)[:40]!r}")


def _as_it_is(value: Any, schema: AvroType, path: str) -> Any:
    if schema.kind == "enum" and value not in schema.symbols:
        raise _no_default(value, schema, path)
    return float(value) if schema.kind in {"float", "double"} else value


def _as_bytes(value: str, schema: AvroType, path: str) -> Any:
    try:
        data = value.encode("latin-1")
    except UnicodeEncodeError as error:
        raise _no_default(value, schema, path) from error
    if schema.kind == "fixed" and len(data) != schema.size:
        raise _no_default(value, schema, path)
    is_decimal = schema.logical == "decimal"
    number = int.from_bytes(data, "big", signed=True)
    return scaled(number, schema.scale) if is_decimal else data


def _as_items(value: Any, schema: AvroType, path: str) -> Any:
    if schema.items is None:
        raise _no_default(value, schema, path)
    if isinstance(value, list):
        return [_python(each, schema.items, path) for each in value]
    return [(key, _python(each, schema.items, path)) for key, each in value.items()]


def _as_record(value: Mapping[str, Any], schema: AvroType, path: str) -> Any:
    return {each.name: _inner(each, value, path) for each in schema.fields}


_JSON_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "null": (type(None),),
    "boolean": (bool,),
    "int": (int,),
    "long": (int,),
    "float": (int, float),
    "double": (int, float),
    "string": (str,),
    "enum": (str,),
    "bytes": (str,),
    "fixed": (str,),
    "array": (list,),
    "map": (dict,),
    "record": (dict,),
}
_PYTHON: Final[Mapping[str, Callable[[Any, AvroType, str], Any]]] = {
    **dict.fromkeys(_JSON_TYPES, _as_it_is),
    "bytes": _as_bytes,
    "fixed": _as_bytes,
    "array": _as_items,
    "map": _as_items,
    "record": _as_record,
}


def _inner(target: AvroField, value: Mapping[str, Any], path: str) -> Any:
    if target.name not in value and not target.has_default:
        raise SchemaError(f"{path}.{target.name}: expected a value in the default")
    return _python(value.get(target.name, target.default), target.type, f"{path}.{target.name}")
