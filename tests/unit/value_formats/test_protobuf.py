"""Values of Protobuf: what Google's library wrote is read, and damage is refused."""

import random
import re
from collections import Counter

import pyarrow as pa
import pytest
from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet

from tests.support.avro import varint
from tests.unit.value_formats.framed import ID, frame
from tests.unit.value_formats.messages import add, class_of
from trainfeed.value_formats import (
    BAD_DATUM,
    INCOMPATIBLE_SCHEMA,
    FramedValues,
    SchemaError,
    WriterSchema,
    value_format,
)

ORDER = """
syntax = "proto3";
package shop;  // the messages of a shop
import "google/protobuf/timestamp.proto";
option java_package = "com.shop";
message Order {
  option deprecated = false;
  reserved 30 to 40;
  enum Kind { option allow_alias = true; A = 0; B = 1 [deprecated = true]; ALSO_B = 1; C = 7; }
  message Item { string name = 1; repeated double at = 2 [packed = true]; Item inner = 3; }
  int64 id = 1; int32 day = 2; uint64 u = 3; sint32 s = 4; fixed32 f = 5;
  double d = 6; float g = 7 [(custom) = {a: [1, 2]}];
  bool b = 8; string t = 9; bytes y = 10; Kind kind = 11;
  optional int64 o = 12; optional string p = 13;
  repeated int32 many = 14; repeated string texts = 15;
  map<string, int64> counts = 16;
  oneof pick { string left = 17; int32 right = 18; }
  /* a message, and several */ Item item = 19; repeated .shop.Order.Item items = 20;
}
service Shop { rpc Buy (Order) returns (Order) { option idempotency_level = IDEMPOTENT; } }
"""
# A message that holds itself is no column.
READER = ORDER.replace(" Item inner = 3;", "")
KINDS = {0: "A", 1: "B", 7: "C"}


def _order(message, _):
    kind = message.enum_type.add(name="Kind")
    for number, name in KINDS.items():
        kind.value.add(name=name, number=number)
    item = message.nested_type.add(name="Item")
    add(item, "name", 1, "string")
    add(item, "at", 2, "double", label="repeated")
    add(item, "inner", 3, "message", of=".Order.Item")
    entry = message.nested_type.add(name="CountsEntry")
    entry.options.map_entry = True
    add(entry, "key", 1, "string")
    add(entry, "value", 2, "int64")
    names = {"id": "int64", "day": "int32", "u": "uint64", "s": "sint32", "f": "fixed32",
             "d": "double", "g": "float", "b": "bool", "t": "string", "y": "bytes"}  # fmt: skip
    for number, (name, each) in enumerate(names.items(), 1):
        add(message, name, number, each)
    add(message, "kind", 11, "enum", of=".Order.Kind")
    add(message, "many", 14, "int32", label="repeated")
    add(message, "texts", 15, "string", label="repeated")
    add(message, "counts", 16, "message", label="repeated", of=".Order.CountsEntry")
    add(message, "left", 17, "string", oneof="pick")
    add(message, "right", 18, "int32", oneof="pick")
    add(message, "item", 19, "message", of=".Order.Item")
    add(message, "items", 20, "message", label="repeated", of=".Order.Item")
    add(message, "o", 12, "int64", optional=True)
    add(message, "p", 13, "string", optional=True)


Order = class_of("Order", _order)


def order(rng):
    made = Order(
        id=rng.choice([0, 1, -1, 1 << 62]),
        day=rng.choice([0, -1, (1 << 31) - 1, -(1 << 31)]),
        u=rng.choice([0, (1 << 64) - 1]),
        s=rng.choice([0, -5]),
        f=rng.choice([0, 9]),
        d=rng.choice([0, 1.5]),
        g=0.5,
        b=rng.random() < 0.5,
        t=rng.choice(["", "é", "abc"]),
        y=rng.randbytes(rng.randrange(3)),
        kind=rng.choice([0, 1, 7, 9]),
        many=[rng.choice([1, -1, 300]) for _ in range(rng.randrange(4))],
        texts=["x"] * rng.randrange(3),
        counts={str(n): n for n in range(rng.randrange(3))},
    )
    if rng.random() < 0.5:
        made.o = rng.choice([0, 5])
    if rng.random() < 0.5:
        made.p = ""
    if rng.random() < 0.6:
        setattr(made, *rng.choice([("left", "z"), ("right", 4)]))
    if rng.random() < 0.5:
        made.item.name = "q"
        made.item.at.extend([1.0] * rng.randrange(3))
        made.item.inner.name = "r"
    for _ in range(rng.randrange(3)):
        made.items.add(name="w")
    return made


def told(message):
    """The fields of a message, by Google's library."""
    singles = {name: getattr(message, name)
               for name in ("id", "day", "u", "s", "f", "d", "g", "b", "t", "y")}  # fmt: skip
    pick = message.WhichOneof("pick")
    return {
        **singles,
        "kind": KINDS.get(message.kind, str(message.kind)),
        "o": message.o if message.HasField("o") else None,
        "p": message.p if message.HasField("p") else None,
        "many": list(message.many),
        "texts": list(message.texts),
        "counts": dict(sorted(message.counts.items())),
        "left": message.left if pick == "left" else None,
        "right": message.right if pick == "right" else None,
        "item": _item(message.item) if message.HasField("item") else None,
        "items": [_item(each) for each in message.items],
    }


def _item(item):
    return {"name": item.name, "at": list(item.at)}


def reader_of(reader, writers, message=None):
    known = {n: WriterSchema("PROTOBUF", each, {}) for n, each in writers.items()}
    return FramedValues(value_format("protobuf", reader.encode(), message), known)


def read(reader, writer, values, message=None):
    return reader_of(reader, {ID: writer}, message).read(pa.array(values, pa.binary()))


def rows_of(decoded):
    rows = decoded.column.to_pylist()
    return [row and {**row, **({"counts": dict(sorted(row["counts"]))} if "counts" in row else {})}
            for row in rows]  # fmt: skip


def value(data, path=b"\0"):
    return frame(path + data)


def test_what_googles_library_wrote_is_read():
    rng = random.Random(2)
    orders = [order(rng) for _ in range(300)]
    values = [value(each.SerializeToString()) for each in orders]
    decoded = read(READER, ORDER, values)
    assert not decoded.refused
    assert [repr(row) for row in rows_of(decoded)] == [repr(told(each)) for each in orders]


def strict(data):
    """Google's library, which takes every field that it does not know, made strict."""
    try:
        message = Order.FromString(data)
    except DecodeError:
        return None
    items = [message.item, *message.items]
    while items and items[-1].HasField("inner"):
        items.append(items[-1].inner)
    parts = [message, message.item, message.item.inner, *message.items,
             *(each.inner for each in message.items)]  # fmt: skip
    return None if any(len(UnknownFieldSet(each)) for each in parts) else told(message)


def damage(data, rng, kind):
    row = rng.randrange(len(data) - 1)
    part = bytearray(data[row])
    match kind:
        case 0:
            part[rng.randrange(len(part))] ^= 1 << rng.randrange(8)
        case 1:
            del part[rng.randrange(len(part)) :]
        case 2:
            part += rng.randbytes(rng.randrange(1, 4))
        case 3:
            part.insert(rng.randrange(len(part)), rng.randrange(256))
        case 4:
            del part[rng.randrange(len(part))]
        case 5:
            place = rng.randrange(1, 4)
            data[row + 1] = bytes(part[-place:]) + data[row + 1]
            del part[-place:]
    data[row] = bytes(part)


def test_damaged_messages_move_no_value_and_none_is_accepted_that_the_library_refuses():
    rng = random.Random(2013)
    orders = [order(rng) for _ in range(40)]
    whole = [each.SerializeToString() for each in orders]
    known = [told(each) for each in orders]
    seen = Counter()
    for number in range(300):
        data = list(whole)
        damage(data, rng, number % 6)
        decoded = read(READER, ORDER, [value(each) for each in data])
        refused = {each.row for each in decoded.refused}
        assert {each.reason for each in decoded.refused} <= {BAD_DATUM}
        for place, row_found in enumerate(rows_of(decoded)):
            if data[place] == whole[place]:
                assert repr(row_found) == repr(known[place])
                continue
            expected = strict(data[place])
            seen["damaged"] += 1
            seen["refused"] += place in refused
            # Beyond the library: numbers of more bits than their type, a message twice.
            seen["stricter"] += expected is not None and place in refused
            wanted = None if place in refused else expected
            assert (expected is None) <= (place in refused), (number, data[place])
            assert repr(row_found) == repr(wanted), (number, data[place])
    assert seen["refused"] > seen["damaged"] / 2
    assert seen["stricter"] < seen["damaged"] / 20


FIRST = 'syntax = "proto3"; message Flight { int32 a = 1; string b = 2; }'


def test_fields_are_matched_by_number_and_others_are_skipped_or_absent():
    writer = (
        'syntax = "proto3"; message Flight { int32 renamed = 1; bytes more = 5; string b = 2; }'
    )
    reader = (
        'syntax = "proto3"; message Flight { int64 a = 1; string b = 2; int32 zero = 7;'
        " optional int32 none = 8; repeated int32 many = 9; }"
    )
    data = b"\x08\x05\x2a\x01z\x12\x01x"
    assert rows_of(read(reader, writer, [value(data)])) == [
        {"a": 5, "b": "x", "zero": 0, "none": None, "many": []}
    ]


def test_fields_in_any_order_and_twice_are_read_as_protobuf_says():
    data = b"\x12\x01x\x08\x05\x12\x01y"
    assert rows_of(read(FIRST, FIRST, [value(data)])) == [{"a": 5, "b": "y"}]


def test_numbers_that_are_not_packed_are_read_too():
    schema = 'syntax = "proto3"; message M { repeated int32 a = 1; }'
    data = b"\x08\x01\x0a\x02\x02\x03\x08\x04"
    assert rows_of(read(schema, schema, [value(data), value(b"")])) == [
        {"a": [1, 2, 3, 4]},
        {"a": []},
    ]


def test_fields_of_proto2_have_presence_and_required_ones_must_be_there():
    schema = 'syntax = "proto2"; message M { required int32 a = 1; optional string b = 2; }'
    decoded = read(schema, schema, [value(b"\x08\x01"), value(b"\x12\x01x")])
    assert rows_of(decoded) == [{"a": 1, "b": None}, None]
    assert decoded.refused[0].message == "a: a required field is missing"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x18\x01", "value: a field that is not in the schema"),
        (b"\x0a\x01x", "value: a field that is not in the schema"),
        (b"\x08", "a: the bytes end within a value"),
        (b"\x12\x05x", "b: a length is beyond the bytes"),
        (b"\x12\x01\xff", "b: expected UTF-8"),
        (b"\x08\xff\xff\xff\xff\x7f", "a: expected a number of 32 bits"),
        (b"\x00", "value: expected a field"),
    ],
)
def test_a_broken_message_is_told_by_its_field(data, message):
    decoded = read(FIRST, FIRST, [value(b"\x08\x01"), value(data), value(b"\x08\x02")])
    assert [(each.row, each.reason, each.message) for each in decoded.refused] == [
        (1, BAD_DATUM, message)
    ]
    assert rows_of(decoded) == [{"a": 1, "b": ""}, None, {"a": 2, "b": ""}]


def test_the_message_of_a_value_is_found_by_its_indexes():
    inside = "message B { int32 b = 1; }"
    writer = f'syntax = "proto3"; message A {{ int32 a = 1; {inside} }} message C {{}}'
    reader = 'syntax = "proto3"; message B { int32 b = 1; }'
    inner, other = varint(2) + varint(0) + varint(0), varint(1) + varint(1)
    values = [value(b"\x08\x05", inner), value(b"", other), value(b"\x08\x07", inner)]
    values += [value(b"", varint(1) + varint(9)), value(b"", varint(-1)), value(b"", b"")]
    decoded = read(reader, writer, values)
    assert rows_of(decoded) == [{"b": 5}, None, {"b": 7}, None, None, None]
    assert [each.message for each in decoded.refused] == [
        "expected B, got a C",
        "the schema has no message at the indexes [9]",
        "expected the indexes of a message",
        "message indexes: the bytes end within a value",
    ]


@pytest.mark.parametrize(
    ("writer", "reader"),
    [
        ("int64 a = 1;", "int32 a = 1;"),
        ("string a = 1;", "int32 a = 1;"),
        ("repeated int32 a = 1;", "int32 a = 1;"),
        ("message N {} N a = 1;", "int32 a = 1;"),
        ("map<string, int32> a = 1;", "message N {} repeated N a = 1;"),
        ("enum E { X = 0; } E a = 1;", "string a = 1;"),
    ],
)
def test_types_that_do_not_fit_are_told_by_their_field(writer, reader):
    schemas = [f'syntax = "proto3"; message M {{ {each} }}' for each in (reader, writer)]
    (refused,) = read(*schemas, [value(b"")]).refused
    assert "a: expected" in refused.message


def test_files_that_are_imported_come_from_the_registry_or_from_protobuf_itself():
    base = 'syntax = "proto3"; package base; message P { int32 x = 1; }'
    text = (
        'syntax = "proto3"; import public "base.proto"; import "google/protobuf/timestamp.proto";'
        " message M { base.P p = 1; google.protobuf.Timestamp at = 2; }"
    )
    reader = (
        'syntax = "proto3"; import "google/protobuf/timestamp.proto"; message P { int32 x = 1; }'
        " message M { P p = 1; google.protobuf.Timestamp at = 2; }"
    )
    form = value_format("protobuf", reader.encode(), "M")
    known = {ID: WriterSchema("PROTOBUF", text, {"base.proto": base})}
    data = b"\x0a\x02\x08\x05\x12\x02\x08\x09"
    decoded = FramedValues(form, known).read(pa.array([value(data)]))
    assert rows_of(decoded) == [{"p": {"x": 5}, "at": {"seconds": 9, "nanos": 0}}]
    (refused,) = (
        FramedValues(form, {ID: WriterSchema("PROTOBUF", text, {})})
        .read(pa.array([value(data)]))
        .refused
    )
    assert refused.reason == INCOMPATIBLE_SCHEMA
    assert "imports 'base.proto'" in refused.message


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("message", "got its end"),
        ("message M { int32 a = 0; }", "number of a field, got 0"),
        ("message M { int32 a = x; }", "expected a number"),
        ("message M { int32 a = 1; int32 b = 1; }", "different names and numbers"),
        ("message M {} message M {}", "one definition of 'M'"),
        ("message M { Other a = 1; }", "got 'Other'"),
        ("message M { optional group G = 1 {} }", "groups"),
        ("message M { M a = 1; }", "a message M that holds itself"),
        ("message A {} message B {}", "expected one message at the top"),
        ("message A { § }", "expected a schema of Protobuf"),
        ("message A { " * 70, "nested at most 64"),
    ],
)
def test_mistakes_of_a_readers_schema_are_told(text, told):
    with pytest.raises(SchemaError, match=re.escape(told)):
        value_format("protobuf", text.encode())


def test_the_message_of_the_reader_is_chosen_by_its_name():
    text = 'syntax = "proto3"; package p; message A { message B { int32 b = 1; } }'
    assert value_format("protobuf", text.encode(), "p.A.B").type == pa.struct([("b", pa.int32())])
    with pytest.raises(SchemaError, match=r"expected the message p\.C in the schema, got p\.A"):
        value_format("protobuf", text.encode(), "p.C")


def test_a_message_that_holds_itself_is_skipped_up_to_a_depth():
    writer = 'syntax = "proto3"; message M { M m = 1; int32 a = 2; }'
    reader = 'syntax = "proto3"; message M { int32 a = 2; }'
    data, values = b"", []
    for depth in range(80):
        data = b"\x0a" + _length(data) + data
        values += [value(data + b"\x10\x05")] if depth in {40, 79} else []
    decoded = read(reader, writer, values)
    assert rows_of(decoded) == [{"a": 5}, None]
    assert "nested deeper than 64" in decoded.refused[0].message


def _length(data):
    number, out = len(data), bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])
