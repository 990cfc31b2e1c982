"""Records byte by byte, and refusals when they are encoded or decoded."""

from __future__ import annotations

import tracemalloc
from types import MappingProxyType

import numpy as np
import pytest

from trainfeed.errors import FormatError, SampleShapeError
from trainfeed.samples import Field, Schema, TypedCodec
from trainfeed.samples.layout import _places

# Ten optional fields need two presence bytes; fixed and variable ones take turns.
LAYOUT = Schema(
    (
        Field("a", "uint16"),
        Field("b", "str", optional=True),
        Field("c", "int8", (2,), optional=True),
        Field("d", "int16", (None, 2)),
        *(Field(f"o{i}", "bool", optional=True) for i in range(7)),
        Field("e", "bytes"),
        Field("f", "float32", optional=True),
    )
)


def layout_sample(**changes):
    absent = dict.fromkeys(f"o{i}" for i in range(7))
    sample = {"a": 0x0102, "b": "ä", "c": [1, -1], "d": [[1, 2], [3, 4]], **absent}
    return {**sample, "o6": True, "e": b"xyz", "f": 1.0, **changes}


def test_record_has_the_documented_bytes():
    """Presence, fixed fields, counts, variable fields: written out by hand."""
    assert TypedCodec(LAYOUT).encode(layout_sample()) == bytes.fromhex(
        "0303"  # bits: b 0, c 1, o0-o5 2-7 are off but o6 is bit 8, f bit 9
        "0201"  # a
        "01ff"  # c
        "00000000000001"  # o0-o5 absent, o6
        "0000803f"  # f
        "020000000200000003000000"  # bytes of b, rows of d, bytes of e
        "c3a4"  # b
        "0100020003000400"  # d
        "78797a"  # e
    )  # fmt: skip


def test_absent_fields_are_zeros_and_counts_of_zero():
    record = TypedCodec(LAYOUT).encode(
        layout_sample(b=None, c=None, o6=None, f=None, d=np.zeros((0, 2)), e=b"")
    )
    assert record == bytes.fromhex("00000201" + "00" * 25)  # fmt: skip


def test_optional_field_may_be_missing_altogether():
    codec = TypedCodec(LAYOUT)
    sample = layout_sample(c=None, b=None)
    assert codec.encode({k: v for k, v in sample.items() if v is not None}) == codec.encode(sample)
    assert codec.decode(codec.encode(sample))["c"] is None


def test_decoded_values_own_their_memory():
    codec = TypedCodec(LAYOUT)
    memory = bytearray(codec.encode(layout_sample()))
    sample = codec.decode(memoryview(memory))
    memory[:] = bytes(len(memory))
    assert sample["d"].tolist() == [[1, 2], [3, 4]]
    assert sample["a"] == 0x0102
    for name in ("a", "c", "d", "f", "o6"):
        assert sample[name].flags.writeable
        assert sample[name].flags.aligned


def test_decoded_columns_own_their_memory():
    codec = TypedCodec(Schema((Field("a", "int16", (2,)),)))
    framing = bytearray(b"\4\0\0\0\1\0\2\0")
    columns = codec.decode_records(memoryview(framing), 1)
    framing[:] = bytes(8)
    assert columns["a"].tolist() == [[1, 2]]
    assert columns["a"].flags.c_contiguous


def test_chunk_without_records_gives_empty_columns():
    codec = TypedCodec(Schema((Field("a", "int16", (2,)), Field("b", "int8", (), optional=True))))
    columns = codec.decode_records(memoryview(b""), 0)
    assert (columns["a"].shape, columns["b"].shape) == ((0, 2), (0,))
    assert codec.encode_columns(columns).shape == (0,)


def test_any_mapping_is_a_sample():
    codec = TypedCodec(Schema((Field("a", "int8"),)))
    assert codec.encode(MappingProxyType({"a": 3})) == b"\3"


INT8, UINT64, INT64 = Field("x", "int8"), Field("x", "uint64"), Field("x", "int64")
FLOAT32, FLOAT64, FLOAT16 = Field("x", "float32"), Field("x", "float64"), Field("x", "float16")
PAIR, ROWS = Field("x", "int16", (2,)), Field("x", "int32", (None,))
GRID = Field("x", "float32", (None, 2))

ACCEPTED = [
    (INT8, -128, b"\x80"),
    (INT8, np.int64(127), b"\x7f"),
    (INT8, np.array(3), b"\3"),
    (INT8, 3.0, b"\3"),
    (INT8, np.float32(-3), b"\xfd"),
    (UINT64, 2**64 - 1, b"\xff" * 8),
    (INT64, np.uint64(2**63 - 1), b"\xff" * 7 + b"\x7f"),
    (INT64, -(2.0**63), bytes(7) + b"\x80"),
    (Field("x", "int64", (2,)), [2**53 + 1, 1.0], b"\1\0\0\0\0\0\x20\0\1" + bytes(7)),
    (FLOAT32, 1, b"\0\0\x80\x3f"),
    (FLOAT32, 0.1, b"\xcd\xcc\xcc\x3d"),
    (FLOAT32, np.float64(0.1), b"\xcd\xcc\xcc\x3d"),
    (FLOAT32, float("inf"), b"\0\0\x80\x7f"),
    (FLOAT32, np.float64("nan"), b"\0\0\xc0\x7f"),
    (FLOAT64, 2**53 + 1, b"\0\0\0\0\0\0\x40\x43"),
    (FLOAT16, 65504, b"\xff\x7b"),
    (Field("x", "bool"), np.bool_(True), b"\1"),
    (PAIR, (1, 2), b"\1\0\2\0"),
    (PAIR, [1.0, np.int8(2)], b"\1\0\2\0"),
    (PAIR, np.array([1, 2], dtype=">i8"), b"\1\0\2\0"),
    (PAIR, np.array([1, 9, 2, 9], dtype="i2")[::2], b"\1\0\2\0"),
    (ROWS, [], b"\0\0\0\0"),
    (ROWS, (7,), b"\1\0\0\0\7\0\0\0"),
    (ROWS, np.array([7], dtype=np.uint8), b"\1\0\0\0\7\0\0\0"),
    (GRID, [], b"\0\0\0\0"),
    (GRID, [[1, 2.0]], b"\1\0\0\0\0\0\x80\x3f\0\0\0\x40"),
    (Field("x", "bytes"), bytearray(b"ab"), b"\2\0\0\0ab"),
    (Field("x", "bytes"), memoryview(b"ab"), b"\2\0\0\0ab"),
    (Field("x", "str"), np.str_("ab"), b"\2\0\0\0ab"),
]


@pytest.mark.parametrize(("field", "value", "record"), ACCEPTED)
def test_value_that_survives_is_accepted(field, value, record):
    assert TypedCodec(Schema((field,))).encode({"x": value}) == record


REFUSED = [
    (INT8, 128, "expected int8, got 128: a value is outside -128 to 127"),
    (INT8, np.int64(-129), "a value is outside -128 to 127"),
    (INT8, 10**30, "a value is outside -128 to 127"),
    (INT8, True, "expected int8, got True: True is no int8"),
    (INT8, np.bool_(True), r"got np.True_"),
    (INT8, 1.5, "a value is no whole number"),
    (INT8, float("nan"), "a value is no whole number"),
    (INT8, float("inf"), "a value is no whole number"),
    (INT8, "3", "got a str: '3' is no int8"),
    (INT8, b"3", "got a bytes"),
    (INT8, [3], "expected int8, got a list of 1 int: the shape is (1,)"),
    (INT8, 1j, "1j is no int8"),
    (INT64, 2.0**63, "a value is outside -9223372036854775808 to 9223372036854775807"),
    (INT64, np.uint64(2**63), "a value is outside"),
    (UINT64, -1, "a value is outside 0 to 18446744073709551615"),
    (UINT64, np.int8(-1), "a value is outside"),
    (UINT64, np.float64(2**64), "a value is outside"),
    (FLOAT32, 1e39, "expected float32, got 1e+39: a value is beyond 3.4028234663852886e+38"),
    (FLOAT32, np.float64(-1e39), "a value is beyond"),
    (FLOAT32, True, "True is no float32"),
    (FLOAT16, np.int32(65520), "a value is beyond 65504.0"),
    (FLOAT64, 10**400, "a value is beyond"),
    (FLOAT64, np.datetime64("2013-01-01"), "expected float64, got"),
    (Field("x", "bool"), 1, "1 is no bool"),
    (Field("x", "bool"), np.uint8(1), "expected bool, got np.uint8(1)"),
    (PAIR, [1, 2, 3], "expected int16 (2), got a list of 3 int: the shape is (3,)"),
    (PAIR, [1, True], "got a list of 2 bool and int: True is no int16"),
    (PAIR, [1, 40000], "a value is outside -32768 to 32767"),
    (PAIR, [1, None], "None is no int16"),
    (INT8, "x" * 99, "x…"),
    (PAIR, [1, 1.5], "a value is no whole number"),
    (PAIR, [[1], [2, 3]], "rows of different length"),
    (PAIR, np.zeros((2, 1), dtype="i2"), "got an array of int16 (2, 1): the shape is (2, 1)"),
    (PAIR, np.zeros(2, dtype=object), "expected int16 (2), got an array of object (2,)"),
    (PAIR, np.array([0.5, 1]), "got an array of float64 (2,): a value is no whole number"),
    (PAIR, np.array([0, 40000]), "got an array of int64 (2,): a value is outside -32768 to 32767"),
    (PAIR, np.ma.array([1, 2], mask=[0, 1]), "samples hold no masked values"),
    (PAIR, {1, 2}, "got a set"),
    (ROWS, 3, "expected int32 (n), got 3: the shape is ()"),
    (ROWS, [[1]], "the shape is"),
    (ROWS, [True], "True is no int32"),
    (GRID, [[1, 2, 3]], "expected float32 (n, 2), got a list of 1 list: the shape is (1, 3)"),
    (GRID, [1, 2], "the shape is"),
    (Field("x", "str"), b"text", "expected str, got a bytes"),
    (Field("x", "str"), "\ud800", "surrogates not allowed"),
    (Field("x", "bytes"), "text", "expected bytes, got a str"),
    (Field("x", "bytes"), [1, 2], "got a list of 2 int"),
    (Field("x", "bytes"), 5, "got 5"),
    (INT8, None, "expected int8, got None; return a value, or make the field optional"),
]


@pytest.mark.parametrize(("field", "value", "message"), REFUSED)
@pytest.mark.parametrize("optional", [False, True])
def test_value_that_would_be_lost_is_refused(field, value, message, optional):
    """Also beside a right field, and where the field or its neighbour is optional."""
    schema = Schema((Field("other", "int8", (), optional), field))
    with pytest.raises(SampleShapeError) as caught:
        TypedCodec(schema).encode({"other": 3, "x": value})
    assert str(caught.value).startswith("field 'x': ")
    assert message in str(caught.value)


@pytest.mark.parametrize("optional", [False, True])
@pytest.mark.parametrize(
    ("sample", "message"),
    [
        ({"a": 1}, "field 'b': expected str, got nothing"),
        ({"a": 1, "b": "", "d": 1}, r"expected the fields ['a', 'b', 'c'], got also ['d']"),
        ({"a": 1, "d": "", "c": 1}, r"got also ['d']"),
        ({"a": 1, "b": "", "c": 1, "d": 1}, r"got also ['d']"),
        ([1, ""], "expected a mapping from field to value, got a list"),
        (None, "expected a mapping from field to value, got a NoneType"),
    ],
)
def test_sample_with_other_fields_is_refused(sample, message, optional):
    schema = Schema((Field("a", "int8"), Field("b", "str"), Field("c", "int8", (), optional)))
    with pytest.raises(SampleShapeError) as caught:
        TypedCodec(schema).encode(sample)
    assert message in str(caught.value)


def column_codec():
    return TypedCodec(Schema((Field("a", "int8", (2,)), Field("b", "int8", (2,), optional=True))))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({}, "expected columns of the fields"),
        ({"b": np.zeros((3, 2))}, "field 'a': expected int8 (2), got no column"),
        ({"a": np.zeros((3, 2)), "c": np.zeros(3)}, "got ['a', 'c']"),
        ({"a": np.zeros((3, 2)), "b": np.zeros((4, 2))}, "one length, got {'a': 3, 'b': 4}"),
        ({"a": np.zeros((3, 1))}, "got an array of float64 (3, 1): the shape is (3, 1)"),
        ({"a": np.zeros(3)}, "the shape is"),
        ({"a": np.full((3, 2), 200)}, "a value is outside -128 to 127"),
        ({"a": np.ma.zeros((3, 2))}, "samples hold no masked values"),
        (
            {"a": np.zeros((1, 2)), "b": np.ma.array([[1, 2]], mask=[[True, False]])},
            "a row is masked in part",
        ),
    ],
)
def test_columns_that_are_none_of_the_schema_are_refused(columns, message):
    with pytest.raises(SampleShapeError) as caught:
        column_codec().encode_columns(columns)
    assert message in str(caught.value)


def test_optional_column_may_be_missing_or_hold_wrong_values_where_it_is_masked():
    codec = column_codec()
    ones = np.ones((2, 2), dtype=np.int64)
    records = codec.encode_columns({"a": ones})
    assert [item.tobytes() for item in records] == [b"\0\1\1\0\0"] * 2
    masked = np.ma.array([[999, 999], [1, 1]], mask=[[1, 1], [0, 0]])
    records = codec.encode_columns({"a": ones, "b": masked})
    assert [item.tobytes() for item in records] == [b"\0\1\1\0\0", b"\1\1\1\1\1"]


def test_variable_schema_has_no_columns():
    codec = TypedCodec(Schema((Field("a", "str"),)))
    with pytest.raises(ValueError, match="no common size"):
        codec.encode_columns({"a": np.array(["x"])})
    with pytest.raises(ValueError, match="no common size"):
        codec.decode_records(memoryview(b"\1\0\0\0x"), 1)


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (b"", "expected a record of at least 11 bytes, got 0"),
        (b"\4" + bytes(10), "a presence bit is set beyond"),
        (bytes(2) + b"\2" + bytes(8), "field 'b' holds a byte that is neither 0 nor 1"),
        (bytes(3) + b"\1\0\0\0" + bytes(4) + b"x", "field 's' is absent and holds 1 values"),
        (b"\1\0\0" + b"\1\0\0\0" + bytes(4) + b"\xff", "field 's' holds no UTF-8"),
        (bytes(7) + b"\1\0\0\0" + b"\2", "field 'v' holds a byte that is neither 0 nor 1"),
        (bytes(7) + b"\2\0\0\0" + b"\1", "expected a record of 13 bytes by its counts, got 12"),
        (bytes(7) + b"\1\0\0\0" + b"\1\1", "expected a record of 12 bytes by its counts, got 13"),
    ],
)
def test_record_of_another_schema_is_a_format_error(record, message):
    schema = Schema(
        (
            Field("s", "str", optional=True),
            Field("o", "int8", optional=True),
            Field("b", "bool"),
            Field("v", "bool", (None,)),
        )
    )
    with pytest.raises(FormatError) as caught:
        TypedCodec(schema).decode(record)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("framing", "num_records", "message"),
    [
        (b"", 1, "expected 1 records of 3 bytes each, got 0 bytes"),
        (b"\3\0\0\0\0\0\0", 2, "expected 2 records of 3 bytes each, got 7 bytes"),
        (b"\3\0\0\0\0\0\0\2\0\0\0\0\0\0", 2, "record 1 of the chunk has 2 bytes"),
        (b"\3\0\0\0\0\2\0", 1, "field 'b' holds a byte that is neither 0 nor 1"),
        (b"\3\0\0\0\2\0\0", 1, "a presence bit is set beyond"),
        (b"", 2**32 - 1, "expected 4294967295 records"),
    ],
)
def test_framing_of_another_schema_is_a_format_error(framing, num_records, message):
    codec = TypedCodec(Schema((Field("b", "bool"), Field("o", "int8", optional=True))))
    with pytest.raises(FormatError) as caught:
        codec.decode_records(memoryview(framing), num_records)
    assert message in str(caught.value)


def test_hostile_count_takes_no_memory():
    codec = TypedCodec(Schema((Field("v", "float64", (None, 1000)),)))
    tracemalloc.start()
    try:
        with pytest.raises(FormatError, match="by its counts"):
            codec.decode(b"\xff\xff\xff\xff" + bytes(100))
        assert tracemalloc.get_traced_memory()[1] < 1 << 16
    finally:
        tracemalloc.stop()


def test_the_place_of_a_field_is_found_without_looking_at_all_fields(monkeypatch):
    """With 10,000 fields, making a codec took 10,000 looks for each."""
    schema = Schema(tuple(Field(f"f{number}", "int64") for number in range(50)))
    looked = []

    class Places(dict):
        def items(self):
            looked.append(len(self))
            return super().items()

    monkeypatch.setitem(schema.__dict__, "fixed_dtype", _WithFields(schema, Places))
    assert [place.offset_bytes for place in _places(schema)] == list(range(0, 400, 8))
    assert not looked


class _WithFields:
    """A dtype that counts how often its fields are listed."""

    def __init__(self, schema, kind):
        self.fields = kind(schema.fixed_dtype.fields)
