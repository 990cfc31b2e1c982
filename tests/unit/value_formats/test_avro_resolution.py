"""A writer's datums as columns of the reader's schema, by Avro's rules."""

import json
import struct
from datetime import UTC, date, datetime, time
from decimal import Decimal

import pyarrow as pa
import pytest

from tests.support.avro import varint
from tests.unit.value_formats.framed import (
    ID,
    frame,
    read,
    reader_of,
    record,
    rows_of,
    values_of,
)
from trainfeed.value_formats import (
    BAD_DATUM,
    INCOMPATIBLE_SCHEMA,
    NO_SCHEMA_ID,
    UNKNOWN_SCHEMA,
    FramedValues,
    SchemaError,
    WriterSchema,
    schema_ids,
    value_format,
)

FROM = record(("name", "string"), ("at", {"type": "array", "items": "double"}), name="From")
FIXED = {"type": "fixed", "name": "D", "size": 2}
POINT = record(("x", "int"), ("y", "long"), name="Point")


def logical(kind, name):
    return {"type": kind, "logicalType": name}


def resolved(reader, writer, rows):
    """Return what rows of a writer are by a reader's schema."""
    decoded = read(reader, writer, values_of(writer, rows))
    assert not decoded.refused, decoded.refused
    return rows_of(decoded)


def misfit(reader, writer):
    (refused,) = read(reader, writer, [frame(b"\0")]).refused
    assert refused.reason == INCOMPATIBLE_SCHEMA
    return refused.message


def one(name, kind):
    return record((name, kind))


def test_a_datum_of_another_library_is_read():
    # Written by fastavro 1.13.1.
    schema = record(
        ("id", "long"), ("day", "int"), ("price", ["double", "null"]), ("weight", "float"),
        ("paid", "boolean"), ("raw", "bytes"),
        ("kind", {"type": "enum", "name": "Kind", "symbols": ["A", "B", "C"]}),
        ("mark", {"type": "fixed", "name": "Mark", "size": 3}),
        ("parts", {"type": "array", "items": ["null", "long"]}),
        ("tags", {"type": "map", "values": "string"}),
        ("from", ["null", FROM]),
    )  # fmt: skip
    datum = bytes.fromhex(
        "0201020000003f010400ff046162630600020a02f70a0002026b04c3a90002027a02000000000000f03f00"
    )
    assert rows_of(read(schema, schema, [frame(datum)])) == [
        {
            "id": 1, "day": -1, "price": None, "weight": 0.5, "paid": True, "raw": b"\0\xff",
            "kind": "C", "mark": b"abc", "parts": [None, 5, -700], "tags": {"k": "é"},
            "from": {"name": "z", "at": [1.0]},
        }
    ]  # fmt: skip


def test_fields_are_matched_by_name_and_the_others_are_skipped_or_get_their_default():
    writer = record(("gone", {"type": "map", "values": POINT}), ("b", "string"), ("a", "int"))
    reader = record(
        ("a", "int"), ("new", ["null", "string"], None), ("b", "string"), ("n", "long", 7)
    )
    rows = [{"gone": {"k": {"x": 1, "y": 2}}, "b": "é", "a": 5}, {"gone": {}, "b": "", "a": -5}]
    assert resolved(reader, writer, rows) == [
        {"a": 5, "new": None, "b": "é", "n": 7},
        {"a": -5, "new": None, "b": "", "n": 7},
    ]


def test_a_field_of_the_reader_has_the_names_of_its_aliases_too():
    reader = record({"name": "delay", "type": "long", "aliases": ["dep_delay"]})
    assert resolved(reader, one("dep_delay", "int"), [{"dep_delay": 3}]) == [{"delay": 3}]


@pytest.mark.parametrize(
    ("writer", "reader", "given", "found"),
    [
        ("int", "long", 5, 5),
        ("int", "double", 5, 5.0),
        ("long", "float", 5, 5.0),
        ("long", "double", 1 << 60, float(1 << 60)),
        ("float", "double", 0.1, struct.unpack("<f", struct.pack("<f", 0.1))[0]),
        ("string", "bytes", "é", "é".encode()),
        ("bytes", "string", b"ab", "ab"),
        ("long", ["null", "long"], 5, 5),
        (["null", "long"], "long", 5, 5),
        (["string", "int", "long"], ["null", "long"], 5, 5),
        ("null", ["null", "long"], None, None),
        (["null", "int"], ["double", "null"], 5, 5.0),
    ],
)
def test_types_are_promoted(writer, reader, given, found):
    (row,) = resolved(one("a", reader), one("a", writer), [{"a": given}])
    assert repr(row["a"]) == repr(found)


@pytest.mark.parametrize(
    ("writer", "reader"),
    [
        ("long", "int"),
        ("double", "float"),
        ("double", "long"),
        ("string", "long"),
        ("boolean", "int"),
        (POINT, "long"),
        ("long", {"type": "array", "items": "long"}),
        ({"type": "fixed", "name": "F", "size": 3}, {"type": "fixed", "name": "F", "size": 4}),
        ({"type": "fixed", "name": "F", "size": 3}, {"type": "fixed", "name": "G", "size": 3}),
        (["null", "string"], "long"),
        (logical("long", "timestamp-millis"), logical("long", "timestamp-micros")),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_told_by_its_field(writer, reader):
    assert "a: expected" in misfit(one("a", reader), one("a", writer))


def test_a_reader_with_a_further_field_and_no_default_cannot_read():
    message = misfit(record(("a", "int"), ("b", "int")), one("a", "int"))
    assert "b: expected a field of the writer's schema, or a default" in message


def test_records_of_different_names_do_not_fit_unless_an_alias_says_so():
    writer = record(("a", "int"), name="shop.Old")
    assert "expected record Event" in misfit(one("a", "int"), writer)
    assert not read({**one("a", "int"), "aliases": ["shop.Old"]}, writer, [frame(b"\2")]).refused


def test_a_branch_that_the_reader_does_not_have_is_an_error_of_its_records_alone():
    writer, reader = one("a", ["null", "long", "string"]), one("a", ["null", "long"])
    decoded = read(reader, writer, values_of(writer, [{"a": 1}, {"a": "x"}, {"a": None}]))
    assert rows_of(decoded) == [{"a": 1}, None, {"a": None}]
    ((row, reason, message),) = decoded.refused
    assert (row, reason) == (1, BAD_DATUM)
    assert message == "a: a branch of a union that the reader's schema does not have"


def test_symbols_of_an_enum_are_those_of_the_reader_or_its_default():
    writer = one("a", {"type": "enum", "name": "E", "symbols": ["A", "B", "C"]})
    enum = {"type": "enum", "name": "E", "symbols": ["C", "A"]}
    rows = [{"a": "A"}, {"a": "B"}, {"a": "C"}]
    decoded = read(one("a", enum), writer, values_of(writer, rows))
    assert rows_of(decoded) == [{"a": "A"}, None, {"a": "C"}]
    assert resolved(one("a", {**enum, "default": "C"}), writer, rows) == [
        {"a": "A"}, {"a": "C"}, {"a": "C"},
    ]  # fmt: skip


def test_logical_types_are_times_and_decimals():
    schema = record(
        ("day", {"type": "int", "logicalType": "date"}),
        ("at", {"type": "long", "logicalType": "timestamp-micros"}),
        ("local", {"type": "long", "logicalType": "local-timestamp-millis"}),
        ("clock", {"type": "int", "logicalType": "time-millis"}),
        ("price", {"type": "bytes", "logicalType": "decimal", "precision": 40, "scale": 2}),
        ("exact", {**FIXED, "logicalType": "decimal", "precision": 4, "scale": 1}),
        ("odd", {"type": "int", "logicalType": "timestamp-millis"}),
    )  # fmt: skip
    number = -(10**39)
    row = {
        "day": 15706, "at": 1357000000000001, "local": 1357000000001, "clock": 3_600_001,
        "price": number.to_bytes(17, "big", signed=True),
        "exact": (-15).to_bytes(2, "big", signed=True), "odd": 5,
    }  # fmt: skip
    assert resolved(schema, schema, [row]) == [
        {
            "day": date(2013, 1, 1),
            "at": datetime(2013, 1, 1, 0, 26, 40, 1, UTC),
            "local": datetime(2013, 1, 1, 0, 26, 40, 1000),  # noqa: DTZ001
            "clock": time(1, 0, 0, 1000),
            "price": Decimal(number).scaleb(-2),
            "exact": Decimal("-1.5"),
            "odd": 5,
        }
    ]
    too_long = {**row, "price": (10**40).to_bytes(17, "big", signed=True)}
    decoded = read(schema, schema, values_of(schema, [too_long, row]))
    assert [each.message for each in decoded.refused] == [
        "price: expected a decimal of at most 40 digits"
    ]
    assert rows_of(decoded)[1]["exact"] == Decimal("-1.5")


def test_defaults_are_of_every_type():
    schema = record(
        ("a", "int"),
        ("s", "string", "é"), ("b", "bytes", "\u00ff\u0000"), ("n", ["null", "long"], None),
        ("u", ["long", "null"], 5), ("f", "double", 1), ("t", "boolean", True),
        ("l", {"type": "array", "items": "int"}, [1, 2]),
        ("m", {"type": "map", "values": "long"}, {"k": 1}),
        ("e", {"type": "enum", "name": "E", "symbols": ["A"]}, "A"),
        ("r", record(("x", "int"), ("y", "int", 9), name="R"), {"x": 1}),
        ("x", {"type": "fixed", "name": "F", "size": 1}, "\u0001"),
    )  # fmt: skip
    expected = {
        "a": 3, "s": "é", "b": b"\xff\0", "n": None, "u": 5, "f": 1.0, "t": True, "l": [1, 2],
        "m": {"k": 1}, "e": "A", "r": {"x": 1, "y": 9}, "x": b"\1",
    }  # fmt: skip
    assert resolved(schema, one("a", "int"), [{"a": 3}] * 2) == [expected] * 2


def test_a_record_that_holds_itself_is_skipped_and_is_no_column():
    tree = record(("v", "long"), ("next", ["null", "Tree"]), name="Tree")
    writer = record(("tree", tree), ("a", "int"))
    deep = {"v": 0, "next": None}
    for number in range(40):
        deep = {"v": number, "next": deep}
    assert resolved(one("a", "int"), writer, [{"tree": deep, "a": 5}]) == [{"a": 5}]
    for _ in range(100):
        deep = {"v": 1, "next": deep}
    decoded = read(one("a", "int"), writer, values_of(writer, [{"tree": deep, "a": 5}]))
    assert "nested deeper than 64" in decoded.refused[0].message
    with pytest.raises(SchemaError, match=r"tree\.next: a record Tree that holds itself"):
        reader_of(writer, {})


def test_types_that_are_no_column_are_refused_with_their_field():
    with pytest.raises(SchemaError, match="b: expected one type, or one and null"):
        reader_of(record(("b", ["null", "long", "string"])), {})
    with pytest.raises(SchemaError, match="expected a record at the top"):
        reader_of("long", {})
    assert reader_of("long", {}, is_key=True).type == pa.int64()


def test_items_without_bytes_are_refused_as_a_few_bytes_could_say_billions():
    writer = one("a", {"type": "array", "items": "null"})
    assert "items that take a byte or more" in misfit(record(("b", "int", 1)), writer)


def test_blocks_with_sizes_are_read_and_a_wrong_size_is_refused():
    schema = one("a", {"type": "array", "items": "int"})
    block = varint(-2) + varint(2) + varint(1) + varint(2)
    good = block + varint(1) + varint(3) + b"\0"
    wrong = varint(-2) + varint(3) + varint(1) + varint(2) + b"\0"
    decoded = read(schema, schema, [frame(good), frame(wrong), frame(varint(-(1 << 63)) + b"\0\0")])
    assert rows_of(decoded) == [{"a": [1, 2, 3]}, None, None]


def test_long_arrays_of_numbers_are_read_at_once():
    schema = one("a", {"type": "array", "items": "long"})
    rows = [{"a": list(range(50_000))}, {"a": []}, {"a": [7] * 50_000}]
    decoded = read(schema, schema, values_of(schema, rows))
    assert [len(row["a"]) for row in rows_of(decoded)] == [50_000, 0, 50_000]
    assert decoded.column.to_pylist() == rows
    floats = one("a", {"type": "array", "items": "float"})
    row = {"a": [0.5] * 100_000}
    assert resolved(floats, floats, [row]) == [row]


def test_values_of_several_writers_come_back_in_their_order():
    old, new = one("a", "int"), record(("b", "string"), ("a", "long"))
    reader = reader_of(record(("a", "long"), ("b", ["null", "string"], None)), {1: old, 2: new})
    values = [
        *values_of(new, [{"b": "x", "a": 1}], 2),
        *values_of(old, [{"a": 2}], 1),
        None,
        b"{}",
        b"\0\0\0\0",
        frame(b"\0", 3),
        *values_of(new, [{"b": "y", "a": 4}], 2),
        frame(b"\xff", 1),
    ]
    # As part of a larger column, whose other values are of no interest.
    column = pa.array([b"z" * 9, *values, b"\0"], pa.binary()).slice(1, len(values))
    decoded = reader.read(column)
    assert decoded.column.to_pylist() == [
        {"a": 1, "b": "x"}, {"a": 2, "b": None}, None, None, None, None, {"a": 4, "b": "y"}, None,
    ]  # fmt: skip
    assert [(each.row, each.reason) for each in decoded.refused] == [
        (3, NO_SCHEMA_ID), (4, NO_SCHEMA_ID), (5, UNKNOWN_SCHEMA), (7, BAD_DATUM),
    ]  # fmt: skip
    assert decoded.refused[2].message == "the registry has no schema 3"
    assert schema_ids(column) == {1, 2, 3}
    assert schema_ids(column.slice(2, 2)) == set()
    assert not reader.read(pa.array([], pa.binary())).refused


def test_ids_of_all_four_bytes_are_read():
    assert schema_ids(pa.array([frame(b"", 0xFFFFFFFE), frame(b"", 0x01020304)])) == {
        0xFFFFFFFE,
        0x01020304,
    }


def test_a_writer_may_refer_to_schemas_of_other_subjects():
    point = json.dumps({**POINT, "namespace": "geo"})
    writer = WriterSchema("AVRO", json.dumps(one("at", "geo.Point")), {"geo.Point": point})
    form = value_format("avro", json.dumps(one("at", POINT)).encode())
    decoded = FramedValues(form, {ID: writer}).read(pa.array([frame(b"\2\4")]))
    assert decoded.column.to_pylist() == [{"at": {"x": 1, "y": 2}}]


@pytest.mark.parametrize(
    "text",
    [
        "", "[]", "{}", '"text"', '{"type": "record", "name": "R"}', '["null", "null"]',
        '{"type": "record", "name": "1R", "fields": []}',
        '{"type": "record", "name": "R", "fields": [{"name": "a"}]}',
        json.dumps(record(("a", "int"), ("a", "int"))),
        '{"type": "enum", "name": "E", "symbols": []}',
        '{"type": "fixed", "name": "F", "size": -1}',
        '{"type": "array"}',
        '{"type": "array", "items": ' * 70 + '"int"' + "}" * 70,
    ],
)  # fmt: skip
def test_a_writers_schema_that_is_none_is_told(text):
    form = value_format("avro", json.dumps(one("a", "int")).encode())
    decoded = FramedValues(form, {ID: WriterSchema("AVRO", text, {})}).read(
        pa.array([frame(b"\2")])
    )
    assert [each.reason for each in decoded.refused] == [INCOMPATIBLE_SCHEMA]
