"""The fields of writers' schemas as text, by which two of them are compared."""

import json

import pytest

from trainfeed.value_formats import WriterSchema, writer_fields

RECORD = {
    "type": "record", "name": "Click", "namespace": "shop", "doc": "a click", "fields": [
        {"name": "id", "type": "long", "doc": "of the page"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "user", "type": ["null", {"type": "string"}], "default": None},
        {"name": "inner", "type": {"type": "record", "name": "In", "doc": "d", "fields": []}},
    ],
}  # fmt: skip
PROTO = """
syntax = "proto3";
message Click {
  int64 id = 1;
  repeated string tags = 2;
  Place place = 4;
  message Place { double x = 1; }
}
"""


def test_avro_gives_types_without_what_says_nothing_of_them():
    found = writer_fields(WriterSchema("AVRO", json.dumps(RECORD), {}))
    assert found.record == "shop.Click"
    assert found.types == {
        "id": "long",
        "at": '{"logicalType": "timestamp-millis", "type": "long"}',
        "user": '["null", {"type": "string"}]',
        "inner": '{"fields": [], "name": "In", "type": "record"}',
    }


def test_json_schema_gives_properties_and_whether_they_are_required():
    schema = {
        "title": "Click", "type": "object", "required": ["id"],
        "properties": {
            "id": {"type": "integer", "title": "Id"}, "name": {"type": ["string", "null"]}
        },
    }  # fmt: skip
    found = writer_fields(WriterSchema("JSON", json.dumps(schema), {}))
    assert (found.record, found.types) == (
        "", {"id": "integer required", "name": '["string", "null"]'}
    )  # fmt: skip


def test_protobuf_gives_kinds_with_numbers():
    found = writer_fields(WriterSchema("PROTOBUF", PROTO, {}))
    assert found.record == "Click"
    assert (found.types["id"], found.types["tags"]) == ("int64 = 1", "repeated string = 2")
    assert found.types["place"].endswith("Place = 4")


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("AVRO", '"string"'), ("AVRO", "{"), ("AVRO", "[1]"), ("JSON", "[]"), ("JSON", "{}"),
        ("PROTOBUF", "message {"), ("PROTOBUF", ""), ("XML", "<a/>"),
    ],
)  # fmt: skip
def test_what_is_no_record_has_no_fields(kind, text):
    assert writer_fields(WriterSchema(kind, text, {})) is None
