"""Values of JSON with a schema: read by the types of the reader's schema, and refused by them."""

import json
import re

import pyarrow as pa
import pytest

from tests.unit.value_formats.framed import ID, frame, rows_of
from trainfeed.value_formats import (
    BAD_DATUM,
    INCOMPATIBLE_SCHEMA,
    FramedValues,
    SchemaError,
    WriterSchema,
    value_format,
)

ORDER = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "amount": {"type": ["number", "null"]},
        "name": {"type": "string"},
        "paid": {"type": "boolean"},
    },
    "required": ["id"],
}
GOOD = {"id": 1, "amount": 2.5, "name": "é", "paid": True}


def read(schema, values, kind="JSON"):
    known = {ID: WriterSchema(kind, "{}", {})}
    reader = FramedValues(value_format("json_schema", json.dumps(schema).encode()), known)
    return reader.read(pa.array([None if v is None else frame(v) for v in values], pa.binary()))


def dumped(row):
    return json.dumps(row).encode()


def test_usual_values_and_unusual_ones_that_are_right_become_columns():
    rows = [GOOD, {"id": 2.0}, {**GOOD, "more": [1]}, {"id": 3, "amount": None}]
    decoded = read(ORDER, [dumped(row) for row in rows])
    nothing = {"amount": None, "name": None, "paid": None}
    assert not decoded.refused
    assert rows_of(decoded) == [GOOD, {"id": 2, **nothing}, GOOD, {"id": 3, **nothing}]
    assert decoded.column.type == pa.struct(
        [("id", pa.int64()), ("amount", pa.float64()), ("name", pa.string()), ("paid", pa.bool_())]
    )


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (b"", "expected JSON in UTF-8"),
        (b"{", "expected JSON in UTF-8"),
        (b'{"id": 1} x', "expected JSON in UTF-8"),
        (b'{"id": 1, "name": "\xff"}', "expected JSON in UTF-8"),
        (b"[1]", "value: expected object, got list"),
        (b"{}", "id: a required property is missing"),
        (b'{"id": null}', "id: expected integer, got null"),
        (b'{"id": null, "amount": 1, "name": "a", "paid": true}', "id: expected integer, got null"),
        (b'{"id": "1"}', "id: expected integer, got str"),
        (b'{"id": true}', "id: expected integer, got bool"),
        (b'{"id": 1.5}', "id: expected integer, got float"),
        (b'{"id": 9223372036854775808}', "id: expected integer, got int"),
        (b'{"id": 1, "amount": "2"}', "amount: expected number, got str"),
        (b'{"id": 1, "amount": 1e999}', "amount: expected number, got float"),
        (b'{"id": 1, "name": "\\ud800"}', "name: expected string, got str"),
        (b'{"id": 1, "paid": 1}', "paid: expected boolean, got int"),
    ],
)
def test_a_value_of_another_type_is_told_by_its_field(value, message):
    decoded = read(ORDER, [dumped(GOOD), value, None, dumped(GOOD)])
    assert [(each.row, each.reason, each.message) for each in decoded.refused] == [
        (1, BAD_DATUM, message)
    ]
    assert rows_of(decoded) == [GOOD, None, None, GOOD]


def test_objects_arrays_and_references_are_structs_and_lists():
    schema = {
        "type": "object",
        "$defs": {"tag": {"anyOf": [{"type": "null"}, {"type": "string"}]}},
        "properties": {
            "at": {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]},
            "tags": {"type": "array", "items": {"$ref": "#/$defs/tag"}},
            "maybe": {"oneOf": [{"type": "null"}, {"type": "number"}]},
        },
    }
    good = {"at": {"x": 1}, "tags": ["a", None], "maybe": 2.0}
    decoded = read(schema, [dumped(good), dumped({}), dumped({"at": {}}), dumped({"tags": [1]})])
    assert rows_of(decoded) == [good, {"at": None, "tags": None, "maybe": None}, None, None]
    assert [each.message for each in decoded.refused] == [
        "at.x: a required property is missing",
        "tags[]: expected string, got int",
    ]


def of(kind):
    return {"type": "object", "properties": {"a": kind}}


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ([], "the schema: expected a JSON Schema with a type"),
        ({"type": "object"}, "the schema: expected an object with properties"),
        ({"type": "object", "properties": {"a": {}}}, "a: expected a type"),
        (of({"type": ["string", "integer"]}), "a: expected one"),
        (of({"type": "text"}), "a: expected a type, got 'text'"),
        (of({"type": [[]]}), "a: expected a type"),
        ({**of({"type": "string"}), "required": [{}]}, "a list of names as required"),
        ({"type": "object", "properties": {"a": {"$ref": "other.json"}}}, "a $ref inside of"),
        ({"type": "object", "properties": {"a": {"$ref": "#"}}, "$ref": "#"}, "nested at most"),
        ({"type": "string"}, "expected a record at the top"),
    ],
)  # fmt: skip
def test_mistakes_of_a_readers_schema_are_told(schema, told):
    with pytest.raises(SchemaError, match=re.escape(told)):
        value_format("json_schema", json.dumps(schema).encode())


def test_a_writers_schema_of_another_kind_does_not_fit():
    decoded = read(ORDER, [dumped(GOOD)], "AVRO")
    assert [each.reason for each in decoded.refused] == [INCOMPATIBLE_SCHEMA]
