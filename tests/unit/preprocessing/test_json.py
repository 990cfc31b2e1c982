# ruff: noqa: E501 - a table of lines
"""Fast JSON: it accepts only texts that the standard library accepts, with the same values."""

import json
import math
import random

import numpy as np
import pyarrow as pa
import pytest

from trainfeed.preprocessing import (
    Record,
    Reject,
    json_columns,
    number,
    partition_values,
    plain_reader,
    text,
    whole,
)
from trainfeed.preprocessing.source_record import loads

LINES = [
    b'{"id": 6, "a": -12, "x": 1.5e3, "b": "UA\\u00e9 \xc3\xa9", "u": [1, {"z": null}], "v": "t\\n"}',
    b'{"a": null, "x": -1.25e-7, "b": null, "v": true}',
]
ALPHABET = b'{}[]",:\\0123456789eE+-.tfnu aN\x00\x1f\x7f\x80\xc3\xff\n'
# What the standard library reads in a way of its own, or what parsers like to disagree about.
UNUSUAL = [
    b"1", b"-0", b"-0.0", b"1.0", b"1e5", b"18446744073709551616", b"-9223372036854775809", b"9" * 40,
    b"9" * 4301, b"1e400", b"-1e400", b"1e-400", b"NaN", b"Infinity", b"-Infinity", b"4.9e-324",
    b"1.7976931348623157e308", b"2.4703282292062327e-324", b"12345678901234567890.5",
    b'{"a": 1, "a": "x"}', b'{"\\u0061": 1}', b'"\\ud800"', b'"\\ud83d\\ude00"', b'"\\ude00\\ud83d"',
    b'"\xed\xa0\x80"', b'"\xff"', b'"\xc0\x80"', b"\xef\xbb\xbf1", '{"a": 1}'.encode("utf-16"), b'"\x01"',
    b'"\x7f"', b"01", b"1.", b".5", b"-", b"+1", b"[1,]", b'{"a": 1,}', b"", b" ", b" 1 \n\t\r", b"1 2",
    b"\x0b1", b'"\\x"', b"tru", b"[", b'{"a"}', b"{a: 1}", b"1\x00", b"[" * 5000 + b"]" * 5000,
]  # fmt: skip


def standard(data):
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return ValueError


def fast(data):
    try:
        return loads(data)
    except (ValueError, RecursionError):
        return ValueError


def same(one, other):
    """Equal, of the same types, keys in the same order, and NaN like NaN."""
    return type(one) is type(other) and repr(one) == repr(other)


def mutations(count):
    rng = random.Random(7)
    for _ in range(count):
        line = bytearray(rng.choice(LINES))
        for _ in range(rng.randint(1, 3)):
            place, kind = rng.randrange(len(line)), rng.random()
            if kind < 0.4:
                line[place] = rng.choice(ALPHABET)
            elif kind < 0.7:
                line.insert(place, rng.choice(ALPHABET))
            else:
                del line[place]
        yield bytes(line)


@pytest.mark.parametrize("data", UNUSUAL, ids=lambda data: repr(data[:20]))
def test_unusual_json_is_what_the_standard_library_says(data):
    assert same(fast(data), standard(data))


def test_broken_lines_are_what_the_standard_library_says():
    for line in mutations(20_000):
        assert same(fast(line), standard(line)), line


def test_a_rejected_record_says_what_the_standard_library_says():
    with pytest.raises(Reject) as caught:
        record(b'{"a": tru}').json()
    assert caught.value.reason == "not_json"
    assert caught.value.message == "Expecting value: line 1 column 7 (char 6)"


def record(value):
    return Record(value, None, 0, (), "kafka:clicks/0", 0)


READ = plain_reader(
    {
        "a": whole(-100, 100, nullable=True),
        "b": text(nullable=True),
        "x": number(),
    }
)


def test_a_plain_record_is_what_the_standard_library_says():
    taken = 0
    for line in mutations(20_000):
        row = READ(record(line))
        if row is not None:
            taken += 1
            expected = standard(line)
            assert same([row.a, row.b], [expected["a"], expected["b"]]), line
            assert math.isclose(row.x, expected["x"], rel_tol=0), line
    assert taken > 500


@pytest.mark.parametrize("value", UNUSUAL, ids=lambda data: repr(data[:20]))
def test_a_field_that_nobody_asked_for_may_be_unusual_but_is_json(value):
    line = b'{"a": 1, "b": "x", "u": ' + value + b', "x": 2}'
    row = READ(record(line))
    if row is not None:
        assert type(standard(line)) is dict
        assert (row.a, row.b, row.x) == (1, "x", 2.0)


@pytest.mark.parametrize(
    "line",
    [
        None,
        b"",
        b"[]",
        b'{"a": 1, "b": "x"}',
        b'{"a": 101, "b": "x", "x": 1}',
        b'{"a": -101, "b": "x", "x": 1}',
        b'{"a": 1.0, "b": "x", "x": 1}',
        b'{"a": true, "b": "x", "x": 1}',
        b'{"a": "1", "b": "x", "x": 1}',
        b'{"a": 1, "b": 2, "x": 1}',
        b'{"a": 1, "b": "x", "x": null}',
        b'{"a": 1, "b": "x", "x": "1"}',
        b'{"a": 1, "b": "x", "x": 1, "u": "\xff"}',
        b'{"a": 1, "b": "x", "x": 1, "u": ' + b"9" * 4301 + b"}",
    ],
)
def test_other_records_are_left_to_the_function(line):
    assert READ(record(line)) is None


def test_columns_have_the_types_that_were_asked_for():
    fields = {"n": pa.int8(), "x": pa.float64(), "f": pa.bool_(), "s": pa.utf8()}
    lines = [b'{"n": 127, "x": 1, "f": true, "s": "\xc3\xa9", "o": {"n": 1}}', b'{"n": 128}']
    lines += [None, b'{"n": null, "x": null, "f": null, "s": null}', b'{"n": 128, "x": 1}']
    rows, columns = json_columns(pa.array(lines), fields)
    assert rows.tolist() == [0, 3]
    assert columns.schema == pa.schema(list(fields.items()))
    assert columns.to_pylist()[0] == {"n": 127, "x": 1.0, "f": True, "s": "é"}
    assert set(columns.to_pylist()[1].values()) == {None}


def test_no_line_gives_no_row():
    rows, columns = json_columns(pa.array([], pa.binary()), {"a": pa.int64()})
    assert len(rows) == columns.num_rows == 0


def test_a_type_that_json_has_no_exact_value_for_is_refused():
    for kind in (pa.uint64(), pa.float32(), pa.date32()):
        with pytest.raises(TypeError, match="expected integers of up to 64 bits"):
            json_columns(pa.array([b"{}"]), {"a": kind})


def test_names_may_be_anything_that_json_allows():
    rows, columns = json_columns(
        pa.array([b'{"user-id": 1, "class": 2, "": 3}']),
        {"user-id": pa.int64(), "class": pa.int64(), "": pa.int64()},
    )
    assert rows.tolist() == [0]
    assert columns.to_pylist() == [{"user-id": 1, "class": 2, "": 3}]


def test_many_lines_are_as_many_rows_wherever_some_are_not_plain():
    lines = [b'{"n": %d, "s": "%d"}' % (number, number % 7) for number in range(9000)]
    for place in (0, 2047, 2048, 5000):
        lines[place] = b'{"n": null, "s": null}'
    for place in (1, 2049, 8999):
        lines[place] = b"{"
    lines[4097] = None
    lines[7000] = '{"n": 7000, "s": "é"}'.encode()
    for values in (pa.array(lines), pa.array(lines, pa.large_binary()), pa.array(lines).slice(9)):
        rows, columns = json_columns(values, {"n": pa.int64(), "s": pa.utf8()})
        texts = values.to_pylist()
        plain = [row for row, text in enumerate(texts) if text not in (None, b"{")]
        assert rows.tolist() == plain
        assert columns.to_pylist() == [json.loads(texts[row]) for row in plain]


@pytest.mark.parametrize("nulls", [False, True])
def test_every_width_of_whole_numbers_keeps_its_ends(nulls):
    kinds = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32()]
    ends = {str(kind): (kind, np.iinfo(kind.to_pandas_dtype())) for kind in kinds}
    objects = [
        {name: int(getattr(info, end)) for name, (_, info) in ends.items()}
        for end in ("min", "max")
    ]
    if nulls:
        objects.append(dict.fromkeys(ends))
    values = pa.array([json.dumps(each).encode() for each in objects])
    rows, columns = json_columns(values, {name: kind for name, (kind, _) in ends.items()})
    assert rows.tolist() == list(range(len(objects)))
    assert columns.to_pylist() == objects
    columns.validate(full=True)


def test_many_fields_are_read_as_few_are():
    """Beyond some fields, attributes are not read by a name in the code."""
    objects = [{f"f{n}": n * row if n % 3 else str(n * row) for n in range(50)} for row in range(5)]
    fields = {f"f{n}": pa.int64() if n % 3 else pa.utf8() for n in range(50)}
    values = pa.array([json.dumps(each).encode() for each in objects])
    _, columns = json_columns(values, fields)
    assert columns.to_pylist() == objects


@pytest.mark.parametrize(
    ("source", "values"),
    [
        ("logs:dt=2026-02-01/region=eu/part-0.gz", {"dt": "2026-02-01", "region": "eu"}),
        ("logs:a=b=c/x%2Fy=%3D/07/k=v.txt", {"a": "b=c", "x/y": "="}),
        ("logs:a=__HIVE_DEFAULT_PARTITION__/b=/part-0", {"a": None, "b": ""}),
        ("logs:part-0", {}),
        ("kafka:clicks/0", {}),
    ],
)
def test_partition_values_are_those_in_the_names_of_folders(source, values):
    assert list(partition_values(source).items()) == list(values.items())
