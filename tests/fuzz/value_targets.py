"""Targets for values behind a schema registry: schemas of readers and writers, and their values.

Values come from producers, schemas from registries: neither may do more than be refused. Values are
read by themselves and beside sound ones, which must stay as they are.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import pyarrow as pa

from tests.fuzz.places import place
from trainfeed.core.canonical_json import dumps, seal
from trainfeed.files.stores import Location
from trainfeed.pipeline.inputs.schemas import kept_schema
from trainfeed.value_formats import (
    FramedValues,
    SchemaError,
    WriterSchema,
    schema_ids,
    value_format,
)

__all__ = ["VALUE_SEEDS", "VALUE_TARGETS"]

_HEAD = b"\0\0\0\0\7"
_ID = 7
_KINDS = {"avro": "AVRO", "protobuf": "PROTOBUF", "json_schema": "JSON"}
_ITEM = {"type": "record", "name": "I", "fields": [{"name": "x", "type": "double"}]}
_AVRO = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "a", "type": ["null", "long"], "default": None},
        {"name": "b", "type": {"type": "array", "items": _ITEM}},
        {"name": "c", "type": {"type": "map", "values": "string"}},
        {"name": "d", "type": {"type": "bytes", "logicalType": "decimal", "precision": 4}},
        {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}},
        {"name": "f", "type": {"type": "fixed", "name": "F", "size": 2}},
        {"name": "g", "type": "boolean"},
    ],
}
_PROTO = """syntax = "proto3";
message R {
  message I { double x = 1; }
  optional int64 a = 1; repeated I b = 2; map<string, string> c = 3; repeated sint32 d = 4;
  enum E { A = 0; B = 1; } E e = 5; oneof o { string f = 6; fixed32 g = 7; }
}
"""
_JSON = {
    "type": "object",
    "properties": {
        "a": {"type": ["null", "integer"]},
        "b": {"type": "array", "items": {"type": "number"}},
    },
}
_SCHEMAS = {"avro": json.dumps(_AVRO), "protobuf": _PROTO, "json_schema": json.dumps(_JSON)}
# A sound value of each format, and one that has none of its optional parts.
_VALUES = {
    "avro": (
        b"\2\2\2\0\0\0\0\0\0\xf0?\0\2\2k\2v\0\2\5\0ab\1",
        b"\0\0\0\2\0\2cd\0",
    ),
    "protobuf": (
        b'\0\x08\5\x12\t\t\0\0\0\0\0\0\xf0?\x1a\6\n\1k\x12\1v"\1\2(\0012\1z',
        b"\0",
    ),
    "json_schema": (b'{"a": 1, "b": [1, 2.5]}', b'{"a": null}'),
}


def _reader(form: str, schema: str) -> FramedValues:
    writer = WriterSchema(_KINDS[form], schema, {})
    return FramedValues(value_format(form, _SCHEMAS[form].encode()), {_ID: writer})


def values_of(data: bytes, *, form: str) -> None:
    """A value, alone and between sound ones."""
    reader = _reader(form, _SCHEMAS[form])
    first, last = (_HEAD + each for each in _VALUES[form])
    schema_ids(pa.array([data]))
    alone = reader.read(pa.array([_HEAD + data])).column.to_pylist()
    sound = reader.read(pa.array([first, last])).column.to_pylist()
    among = reader.read(pa.array([first, _HEAD + data, last, data])).column.to_pylist()
    assert None not in sound
    # By text, as NaN is not equal to itself.
    assert repr([among[0], among[2]]) == repr(sound)
    assert repr(among[1:2]) == repr(alone)


def schema_of(data: bytes, *, form: str) -> None:
    """A schema, as the reader's and as the writer's; sound values of another one are read by it."""
    with suppress(SchemaError):
        value_format(form, data)
    text = data.decode("utf-8", "replace")
    values = pa.array([_HEAD + each for each in _VALUES[form]])
    decoded = _reader(form, text).read(values)
    assert len(decoded.column) == len(_VALUES[form])
    assert decoded.column.null_count == len(decoded.refused)


def kept(data: bytes) -> None:
    """A kept schema of a writer."""
    folder = place("landing")
    file = folder / "+schemas" / "r" / "7.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)
    found = kept_schema(Location.parse(str(folder)), "r", 7)
    assert found is not None
    assert (found.registry, found.id) == ("r", 7)


def _kept_schemas() -> list[bytes]:
    value = {"registry": "r", "id": 7, "kind": "AVRO", "schema": _SCHEMAS["avro"]}
    return [seal(dumps({**value, "references": [{"name": "n", "schema": '"long"'}]})[:-1])]


VALUE_TARGETS: dict[str, Callable[[bytes], None]] = {
    **{f"{form}_values": partial(values_of, form=form) for form in _KINDS},
    **{f"{form}_text": partial(schema_of, form=form) for form in _KINDS},
    "kept_schema": kept,
}


def _seeds(form: str) -> list[bytes]:
    return list(_VALUES[form])


def _texts(form: str) -> list[bytes]:
    return [_SCHEMAS[form].encode()]


VALUE_SEEDS: dict[str, Callable[[], list[bytes]]] = {
    **{f"{form}_values": partial(_seeds, form) for form in _KINDS},
    **{f"{form}_text": partial(_texts, form) for form in _KINDS},
    "kept_schema": _kept_schemas,
}
