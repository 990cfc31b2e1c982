"""Values of any kind: back exactly as they were, and nothing else gets through."""

from __future__ import annotations

import datetime
import math
import tracemalloc
from collections import OrderedDict, namedtuple

import msgpack
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from trainfeed.errors import FormatError, SampleShapeError
from trainfeed.samples import ValueCodec

CODEC = ValueCodec()
PREFIX = b"\xc1\x01"


def same(a, b):
    """Equal to the last bit: type, dtype, shape, order of keys, sign of zero."""
    return type(a) is type(b) and exact(a) == exact(b)


def exact(value):
    """Something that is equal exactly for values that are the same."""
    match value:
        case np.ndarray() if value.dtype == object:
            same_as = "objects", value.shape, [(type(item), exact(item)) for item in value.ravel()]
        case np.str_() | np.bytes_():
            same_as = value
        case np.ndarray() | np.generic():
            same_as = "array", value.dtype, value.shape, value.tobytes()
        case dict():
            same_as = "dict", [(type(k), exact(k), type(v), exact(v)) for k, v in value.items()]
        case list() | tuple():
            same_as = "items", [(type(item), exact(item)) for item in value]
        case float():
            same_as = "nan" if math.isnan(value) else value.hex()
        case _:
            same_as = value
    return same_as


def objects(items, shape=None):
    array = np.empty(len(items), object)
    for i, item in enumerate(items):
        array[i] = item
    return array if shape is None else array.reshape(shape)


DTYPES = st.one_of(
    hnp.boolean_dtypes(),
    hnp.integer_dtypes(endianness="?"),
    hnp.unsigned_integer_dtypes(endianness="?"),
    hnp.floating_dtypes(endianness="?", sizes=(16, 32, 64)),
    hnp.complex_number_dtypes(endianness="?", sizes=(64, 128)),
    hnp.datetime64_dtypes(endianness="?"),
    hnp.timedelta64_dtypes(endianness="?"),
    hnp.byte_string_dtypes(),
    hnp.unicode_string_dtypes(endianness="?"),
)
STRUCTURES = hnp.array_dtypes(DTYPES, allow_subarrays=True)
ARRAYS = hnp.arrays(
    st.one_of(DTYPES, STRUCTURES), hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3)
)
SCALARS = st.one_of(
    hnp.arrays(DTYPES.filter(lambda dtype: dtype.isnative), ()).map(lambda array: array[()]),
    hnp.arrays(STRUCTURES, ()).map(lambda array: array[()]),
    st.text().map(np.str_),
    st.binary().map(np.bytes_),
)
PLAIN = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(min_value=-(2**300), max_value=2**300),
    st.floats(),
    st.text(st.characters()),
    st.binary(),
)
VALUES = st.recursive(
    st.one_of(PLAIN, ARRAYS, SCALARS),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(st.one_of(PLAIN, st.tuples(PLAIN)), inner, max_size=4),
        st.lists(inner, max_size=4).map(objects),
    ),
    max_leaves=12,
)


@given(VALUES)
@settings(
    derandomize=True, deadline=None, max_examples=300, suppress_health_check=[HealthCheck.too_slow]
)
def test_every_value_comes_back_as_it_was(value):
    record = CODEC.encode(value)
    back = CODEC.decode(record)
    assert same(back, value)
    assert CODEC.encode(back) == record
    assert same(CODEC.decode(memoryview(bytearray(record))), value)


ALIGNED = np.dtype(
    [("a", "i1"), ("b", "<f8", (2, 2)), ("c", [("d", "S3"), ("e", "?")])], align=True
)


@pytest.mark.parametrize(
    "value",
    [
        5,
        (5,),
        [5],
        ((5,),),
        ([5],),
        {"a": 5},
        (),
        [],
        {},
        ((),),
        [[]],
        2**64,
        -(2**63) - 1,
        -(2**64),
        2**64 - 1,
        -(2**63),
        0.0,
        -0.0,
        math.inf,
        math.nan,
        True,
        1,
        1.0,
        "",
        "\ud800",
        "é",
        b"",
        b"\xc1",
        None,
        {None: 1, (1, (2,)): [3], b"k": 4, 1.5: 5, False: 6},
        np.float64(1.5),
        np.int64(1),
        np.bool_(1),
        np.array(1),
        np.array([1]),
        np.array([[1]], ">i2"),
        np.str_("a\0"),
        np.bytes_(b"a\0"),
        np.datetime64("NaT"),
        np.datetime64("2020", "D"),
        np.timedelta64(3, "25us"),
        np.float16(-0.0),
        np.complex64(1j),
        np.zeros((0, 5)),
        np.zeros((3, 0)),
        np.zeros(2, ALIGNED),
        np.zeros((), ALIGNED)[()],
        np.zeros(3, "V0"),
        np.zeros(3, "V5"),
        np.void(b"ab"),
        np.zeros(
            2, {"names": ["a"], "formats": ["i4"], "offsets": [3], "itemsize": 9, "titles": ["A"]}
        ),
        objects([1, "a", None, [1], (2,), np.arange(3)], (2, 3)),
        objects([]),
        objects([], (0, 4)),
        objects([objects([objects([])])]),
        np.array({"a": 1}, object),
        np.array("é\0b"),
        np.array([b"a\0b"]),
    ],
    ids=lambda value: f"{type(value).__name__} {value!r}"[:40],
)
def test_what_looks_alike_stays_apart(value):
    assert same(CODEC.decode(CODEC.encode(value)), value)


def test_memory_order_is_not_part_of_a_value():
    value = np.asfortranarray(np.arange(6).reshape(2, 3))
    back = CODEC.decode(CODEC.encode([value, value.T[::-1]]))
    assert np.array_equal(back[0], value)
    assert np.array_equal(back[1], value.T[::-1])
    assert all(array.flags["OWNDATA"] or array.base.flags["OWNDATA"] for array in back)
    assert all(array.flags["WRITEABLE"] and array.flags["C_CONTIGUOUS"] for array in back)


Pair = namedtuple("Pair", "a b")


@pytest.mark.parametrize(
    ("value", "place"),
    [
        (Pair(1, 2), "expected"),
        ({"x": [0, {1}]}, r"at \['x'\]\[1\]"),
        (bytearray(b"a"), "bytearray"),
        (memoryview(b"a"), "memoryview"),
        (OrderedDict(a=1), "OrderedDict"),
        (np.longdouble(1), "longdouble"),
        (np.zeros(1, np.longdouble), "stored"),
        (np.ma.array([1]), "MaskedArray"),
        (1j, "complex"),
        (np.zeros(1, [("a", "O")]), "stored"),
        (datetime.date(2020, 1, 1), "date"),
        (..., "ellipsis"),
        (objects([1, {2}]), r"at .flat\[1\]"),
        ({(1, frozenset()): 2}, "frozenset"),
        (type, "type"),
        (np.zeros(1, np.dtype("i4", metadata={"a": 1})), "as it is"),
        (np.recarray(1, [("a", "i1")]), "recarray"),
        (np.zeros(1, np.dtype((np.record, [("a", "i1")]))), "as it is"),
        (np.zeros(1, np.dtypes.StringDType()), "stored"),
    ],
)
def test_what_would_come_back_as_something_else_is_refused_with_its_place(value, place):
    with pytest.raises(SampleShapeError, match=place):
        CODEC.encode(value)


def test_a_list_in_itself_is_refused():
    value = []
    value.append(value)
    with pytest.raises(SampleShapeError, match="nested containers"):
        CODEC.encode(value)


@pytest.mark.parametrize(
    "wrap", [lambda v: [v], lambda v: (v,), lambda v: {1: v}, lambda v: objects([v])]
)
def test_depth_has_one_limit_both_ways(wrap):
    value = 1
    for _ in range(256):
        value = wrap(value)
    record = CODEC.encode(value)
    assert CODEC.encode(CODEC.decode(record)) == record
    with pytest.raises(SampleShapeError):
        CODEC.encode(wrap(value))
    with pytest.raises(FormatError):
        CODEC.decode(PREFIX + b"\x91" + record[2:])


SAMPLE = {
    "image": np.arange(6, dtype="<u2").reshape(2, 3),
    "tags": ["a", ("b", None)],
    "big": 2**70,
    "flag": np.bool_(True),
    "objects": objects([1, [2]]),
}


def test_every_prefix_and_every_longer_record_is_a_format_error():
    record = CODEC.encode(SAMPLE)
    for end in range(len(record)):
        with pytest.raises(FormatError):
            CODEC.decode(record[:end])
    with pytest.raises(FormatError, match="follow"):
        CODEC.decode(record + b"\0")


def test_flipped_bit_is_a_format_error_or_another_value():
    record = CODEC.encode(SAMPLE)
    num_refused = 0
    for bit in range(8 * len(record)):
        damaged = bytearray(record)
        damaged[bit // 8] ^= 1 << bit % 8
        try:
            value = CODEC.decode(damaged)
        except FormatError:
            num_refused += 1
        else:
            assert not same(value, SAMPLE), bit
    assert num_refused > 100


def packed(value, **options):
    return PREFIX + msgpack.packb(value, **options)


def array_record(head, data=b"", code=4):
    head = msgpack.packb(head)
    return packed(msgpack.ExtType(code, len(head).to_bytes(4, "little") + head + data))


RECORDS = {
    "not a value": b"",
    "another version": b"\xc1\x02\xc0",
    "nothing": PREFIX,
    "never used": PREFIX + b"\xc1",
    "long list": PREFIX + b"\xdd\xff\xff\xff\xff",
    "long lists in each other": PREFIX + b"\xdd\x00\xff\xff\xff" * 500,
    "long map": PREFIX + b"\xdf\xff\xff\xff\xff",
    "long bytes": PREFIX + b"\xc6\xff\xff\xff\xff",
    "deep": PREFIX + b"\x91" * 5000 + b"\xc0",
    "deep in maps": PREFIX + b"\x81\xc0" * 5000 + b"\xc0",
    "time": PREFIX + b"\xd6\xff\0\0\0\0",
    "time in a list": PREFIX + b"\x91\xd6\xff\0\0\0\0",
    "mark alone": packed(msgpack.ExtType(2, b"")),
    "mark as an item": packed([1, msgpack.ExtType(2, b"")]),
    "mark as a key": packed({msgpack.ExtType(2, b""): 1}),
    "mark with content": packed([msgpack.ExtType(2, b"a")]),
    "unknown extension": packed(msgpack.ExtType(99, b"")),
    "key twice": PREFIX + b"\x82\x01\xc0\x01\xc0",
    "key twice by value": PREFIX + b"\x82\x01\xc0\xc3\xc0",
    "list as a key": PREFIX + b"\x81\x90\xc0",
    "no UTF-8": PREFIX + b"\xa1\xff",
    "objects without shape": packed([msgpack.ExtType(3, b"")]),
    "objects with another shape": packed([msgpack.ExtType(3, b""), [2], 1]),
    "objects with a strange shape": packed([msgpack.ExtType(3, b""), "a", 1]),
    "objects with a negative shape": packed([msgpack.ExtType(3, b""), [-1, -1], 1]),
    "array of objects": array_record(["|O", 1], bytes(8)),
    "array of a long double": array_record(["<f16", 1], bytes(16)),
    "array of several": array_record(["i4,i4", 1], bytes(8)),
    "array too short": array_record(["<i4", 2], bytes(7)),
    "array of nothing, endless": array_record(["|V0", 2**62, 2**62]),
    "array of a negative shape": array_record(["<i4", -1, -1], bytes(4)),
    "array of a strange shape": array_record(["<i4", 1.5], bytes(6)),
    "array without dtype": array_record([]),
    "array of a deep dtype": array_record(
        [eval("{'base': " * 40 + "'|i1'" + ", 'shape': [1]}" * 40), 1], b"a"
    ),
    "array of a dtype with fields outside": array_record(
        [{"fields": [["a", "<i4", 99, None]], "itemsize": 4, "aligned": False}, 1], bytes(4)
    ),
    "array of a dtype with strange fields": array_record(
        [{"fields": [[1, "<i4", 0, None]], "itemsize": 4, "aligned": False}, 1], bytes(4)
    ),
    "array of a dtype that is huge": array_record(["<U999999999", 1], bytes(4)),
    "array with a head beyond it": packed(msgpack.ExtType(4, b"\xff\xff\xff\xff")),
    "array of booleans that are none": array_record(["|b1", 1], b"\2"),
    "array of letters that are none": array_record(["<U1", 1], b"\xff\xff\xff\xff"),
    "scalar with a shape": array_record(["<i4", 1], bytes(4), code=5),
}


@pytest.mark.parametrize("name", RECORDS)
def test_hostile_record_is_a_format_error(name):
    with pytest.raises(FormatError):
        CODEC.decode(RECORDS[name])


BOMBS = {
    **{name: RECORDS[name] for name in RECORDS},
    "lists that each claim the record's length": PREFIX + b"\xdd\x00\x00\xff\xff" * 13_000,
    "maps that each claim the record's length": PREFIX + b"\xdf\x00\x00\xff\xff\xc0" * 11_000,
    "array of nothing, as long as a record may be": array_record(["|V0", 1 << 40]),
}


@pytest.mark.parametrize("name", BOMBS)
def test_no_memory_is_taken_for_what_a_record_only_claims(name):
    record = BOMBS[name]
    tracemalloc.start()
    try:
        with pytest.raises(FormatError):
            CODEC.decode(record)
        assert tracemalloc.get_traced_memory()[1] < (1 << 20) + 20 * len(record)
    finally:
        tracemalloc.stop()


def test_memory_is_in_proportion_to_the_record():
    record = PREFIX + b"\xdd" + (200_000).to_bytes(4) + b"\x90" * 200_000
    tracemalloc.start()
    try:
        assert len(CODEC.decode(record)) == 200_000
        assert tracemalloc.get_traced_memory()[1] < 110 * len(record)
    finally:
        tracemalloc.stop()
