"""No value changes on its way: types, formats and ways, by a table and by drawn values.

A value comes out as it went in, to the bit, or there is an error with its place. The number of
drawn samples is that of the variable ``TRAINFEED_VALUES``, for longer runs::

    TRAINFEED_VALUES=20000 python -m pytest tests/unit/conversion/test_kept_values.py
"""

import base64
import json
import math
import os
import sys
from collections import Counter
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.conversion.drawn_values import bits, one_nan, tables
from trainfeed.conversion import (
    ColumnOptions,
    Encoding,
    Format,
    SampleFile,
    SinkOptions,
    SourceOptions,
    convert,
    convert_files,
    open_sample_file,
    transcode,
)
from trainfeed.conversion.csv_files import CsvOptions, read_csv
from trainfeed.conversion.json_lines import read_json_lines
from trainfeed.core.reading_rules import ReadingRules
from trainfeed.errors import ConfigError, FormatError
from trainfeed.samples import Field, SampleReader, Schema

SAMPLES = int(os.environ.get("TRAINFEED_VALUES", "120"))
FORMATS = ["csv", "tsv", "jsonl", "parquet", "arrow", "recordio", "tfrecord"]
# Formats that do not say what their fields are.
BARE = {"csv", "tsv", "jsonl"}

COUNTS = Counter()


def drawn(schema, rows):
    """Samples in memory as if they were a file, in their order."""
    return SampleFile(
        Path("drawn"),
        Format.JSON_LINES,
        schema,
        Encoding.TYPED,
        lambda: iter(rows),
        None,
        lambda: len(rows),
    )


def opened(path, schema):
    kind = path.suffix[1:]
    return open_sample_file(path, SourceOptions(schema=schema if kind in BARE else None))


@pytest.mark.timeout(300 + SAMPLES)
@given(table=tables(), ways=st.lists(st.sampled_from(FORMATS), min_size=2, max_size=3))
@settings(max_examples=SAMPLES, suppress_health_check=list(HealthCheck))
def test_drawn_values_come_out_of_every_way(table, ways, tmp_path_factory):
    schema, rows = table
    folder = tmp_path_factory.mktemp("ways")
    # Formats of text have one NaN.
    told = one_nan if BARE & {*ways} else dict
    wanted = bits(schema, map(told, rows))
    source = drawn(schema, rows)
    for number, kind in enumerate(ways):
        path = folder / f"{number}.{kind}"
        transcode(source, path, SinkOptions())
        source = opened(path, schema)
    found = bits(schema, map(told, source.samples()))
    assert len(found) == len(wanted)
    changed = sum(a != b for a, b in zip(found, wanted, strict=True))
    COUNTS["samples"] += len(wanted)
    COUNTS["values"] += len(wanted) * len(schema.fields) * len(ways)
    COUNTS["changed"] += changed
    assert not changed, (ways, rows)


def test_values_were_drawn_and_none_changed(capsys):
    with capsys.disabled():
        sys.stdout.write(f"\n{COUNTS['values']} values, {COUNTS['changed']} changed\n")
    assert COUNTS["changed"] == 0
    assert COUNTS["values"] > SAMPLES or not COUNTS


def read(kind, dtype, text, tmp_path, *, shape=(), optional=False, rules=ReadingRules.EXACT):
    """The value of a field in a foreign file of one sample; the error's name if there is one."""
    schema = None if dtype is None else Schema((Field("x", dtype, shape, optional),))
    path = tmp_path / f"foreign.{kind}"
    try:
        if kind == "csv":
            path.write_bytes(b"x\n" + text.encode("utf-8", "surrogateescape") + b"\n")
            (found,) = read_csv(path, schema, options=CsvOptions(delimiter=",", rules=rules))
        else:
            path.write_bytes(b'{"x": ' + text.encode() + b"}\n")
            (found,) = read_json_lines(path, schema, rules=rules)
    except FormatError as error:
        return FormatError if "line " in str(error) else error
    value = found["x"]
    return value.tolist() if isinstance(value, np.ndarray) else value


REFUSED = FormatError
FOREIGN = [
    # format, type, text, what comes out
    *[
        ("csv", "str", text, text)
        for text in ("\\frac", "\\\\host", "\\", "NA", "null", "00501", " a ", "1e5")
    ],
    ("csv", "str", '"\\N"', "\\N"),
    ("csv", "str", '"a\nb"', "a\nb"),
    ("csv", "str", '"a""b"', 'a"b'),
    ("csv", "str", '"a"b', REFUSED),
    ("csv", "str", '"a', REFUSED),
    ("csv", "str", "\\N", REFUSED),
    ("csv", "str", "\udcff", REFUSED),
    ("csv", "bool", "true", True),
    ("csv", "bool", "1", REFUSED),
    ("csv", "bool", "yes", REFUSED),
    ("csv", "int64", "9007199254740993", 9007199254740993),
    ("csv", "int64", "9007199254740993.0", REFUSED),
    ("csv", "int64", "1e3", 1000),
    ("csv", "uint64", "18446744073709551615", 18446744073709551615),
    ("csv", "uint64", "18446744073709551616", REFUSED),
    ("csv", "int8", "128", REFUSED),
    ("csv", "float64", "9007199254740993", REFUSED),
    ("csv", "float64", "-0", -0.0),
    ("csv", "float64", "-Infinity", -math.inf),
    ("csv", "float64", "inf", REFUSED),
    ("csv", "float64", "1e400", REFUSED),
    ("csv", "float32", "16777217", REFUSED),
    ("csv", "float32", "0.1", float(np.float32(0.1))),
    ("jsonl", "float64", "9007199254740993", REFUSED),
    ("jsonl", "float64", "123456789012345680000", 123456789012345680000.0),
    ("jsonl", "float64", "-0", -0.0),
    ("jsonl", "int64", "-0", 0),
    ("jsonl", "int64", "9007199254740993", 9007199254740993),
    ("jsonl", "int64", "9007199254740993.0", REFUSED),
    ("jsonl", "int64", '"7"', REFUSED),
    ("jsonl", "str", "7", REFUSED),
    ("jsonl", "str", '"\\ud800"', REFUSED),
    ("jsonl", "bool", "1", REFUSED),
    ("jsonl", None, "9007199254740993", 9007199254740993),
    ("jsonl", None, "0.1", 0.1),
    ("jsonl", None, "0.12345678901234567890", REFUSED),
    ("jsonl", None, "-0", -0.0),
    ("jsonl", None, '{"a": 1, "a": 2}', REFUSED),
    ("jsonl", None, "NaN", REFUSED),
    ("jsonl", None, "1e400", REFUSED),
]


@pytest.mark.parametrize(("kind", "dtype", "text", "wanted"), FOREIGN)
def test_a_foreign_text_is_the_value_that_it_says_or_an_error(kind, dtype, text, wanted, tmp_path):
    found = read(kind, dtype, text, tmp_path)
    assert repr(found) == repr(wanted)


EARLIER = [
    ("csv", "str", "\\frac", "frac"),
    ("csv", "str", "\\\\N", "\\N"),
    ("csv", "float64", "9007199254740993", 9007199254740992.0),
    ("csv", "float64", "-0", 0.0),
    ("jsonl", "float64", "-0", 0.0),
    ("jsonl", "float32", "16777217", 16777216.0),
    ("jsonl", "int64", "9007199254740993.0", 9007199254740992),
]


@pytest.mark.parametrize(("kind", "dtype", "text", "wanted"), EARLIER)
def test_the_first_rules_read_as_they_always_did(kind, dtype, text, wanted, tmp_path):
    found = read(kind, dtype, text, tmp_path, rules=ReadingRules.GUESSED)
    assert repr(found) == repr(wanted)


def test_lists_with_nulls_and_of_two_numbers_of_columns_are_refused(tmp_path):
    for text in ("[1, null]", "[[1], [2, 3]]", "[1.5, true]"):
        assert read("jsonl", "float64", text, tmp_path, shape=(None,)) is FormatError
    assert read("jsonl", "float64", "[-0, 1]", tmp_path, shape=(None,)) == [-0.0, 1.0]


@pytest.mark.parametrize(
    "text",
    ["x,x\n1,2\n", "x,\n1,2\n", "sep=;\nx;y\n1;2\n", "x\n1\n\n2\n", "x,y\n1\n", "\n"],
    ids=["twice", "no name", "excel", "blank line", "short", "blank"],
)
def test_headers_and_rows_that_no_file_means_are_refused(text, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text(text)
    with pytest.raises(FormatError, match="line "):
        list(read_csv(path, options=CsvOptions(delimiter=",")))


def test_blank_lines_at_the_end_and_among_rows_of_several_cells_are_no_rows(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("x\n1\n\n\n")
    assert list(read_csv(path)) == [{"x": "1"}]
    path.write_text("\ufeffx,y\n\n1,2\n")
    assert list(read_csv(path)) == [{"x": "1", "y": "2"}]


ARROW = [
    pa.array(["a", None, "\\N"], pa.string_view()),
    pa.array([b"a", None, b"\xff"], pa.binary_view()),
    pa.array(["a", None, "b"], pa.dictionary(pa.int8(), pa.string())),
    pa.array(["a" * 99, None, "b"], pa.large_string()),
    pa.RunEndEncodedArray.from_arrays(pa.array([1, 3], pa.int32()), pa.array([1 << 62, 7])),
    pa.array([(1 << 64) - 1, None, 0], pa.uint64()),
    pa.array([0.1, None, -0.0], pa.float32()),
    pa.array([1_700_000_000_123_456_789, None, -1], pa.timestamp("ns", "Europe/Berlin")),
    pa.array([[1, 2], None, []], pa.list_(pa.int64())),
    pa.array([[1, 2], None, []], pa.list_view(pa.int64())),
    pa.array([[1, 2], [3, 4], None], pa.list_(pa.int16(), 2)),
]


@pytest.mark.parametrize("column", ARROW, ids=lambda column: str(column.type))
def test_arrow_columns_of_every_layout_have_their_values(column, tmp_path):
    path = tmp_path / "a.arrow"
    with pa.ipc.new_file(path, pa.schema([("x", column.type)])) as file:
        file.write_batch(pa.record_batch([column], ["x"]))
    found = [row["x"] for row in open_sample_file(path, SourceOptions()).samples()]
    found = [each.tolist() if hasattr(each, "tolist") else each for each in found]
    plain = column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column
    assert repr(found) == repr(plain.to_pylist())


@pytest.mark.parametrize(
    "column",
    [
        pa.array([Decimal("1.10")], pa.decimal128(9, 2)),
        pa.array([[1, None]], pa.list_(pa.int64())),
        pa.array([[["a"]]], pa.list_(pa.list_(pa.string()))),
        pa.array([(1, 2, 3)], pa.month_day_nano_interval()),
        pa.array([{"a": 1}], pa.struct([("a", pa.int64())])),
    ],
    ids=lambda column: str(column.type),
)
def test_what_a_sample_cannot_hold_is_refused_and_each_remedy_works(column, tmp_path):
    path = tmp_path / "a.arrow"
    with pa.ipc.new_file(path, pa.schema([("x", column.type)])) as file:
        file.write_batch(pa.record_batch([column], ["x"]))
    with pytest.raises((ConfigError, FormatError)) as caught:
        list(open_sample_file(path, SourceOptions()).samples())
    if "--json-columns x" in str(caught.value):
        options = SourceOptions(columns=ColumnOptions(as_json=("x",)))
        (row,) = open_sample_file(path, options).samples()
        assert json.loads(row["x"]) is not None


def test_batches_have_the_values_of_the_records(tmp_path):
    """The last way: from shards into arrays of a batch, as loaders read them."""
    fields = [Field(name, name) for name in ("int64", "uint64", "float32", "float64", "bool")]
    schema = Schema(tuple(fields))
    rows = [
        {
            "int64": -(1 << 63),
            "uint64": (1 << 64) - 1,
            "float32": -0.0,
            "float64": math.nan,
            "bool": True,
        },
        {"int64": (1 << 53) + 1, "uint64": 0, "float32": math.inf, "float64": 0.1, "bool": False},
    ]
    convert(tmp_path / "set", lambda: iter(rows), 1, "s", schema=schema)
    path = tmp_path / "set" / "s-00000-of-00000"
    (batch,) = SampleReader([path], schema).iter_batches(2)
    for name, column in batch.items():
        wanted = [np.array([row[name] for row in each], dtype=name) for each in (rows, rows[::-1])]
        assert column.dtype == wanted[0].dtype
        assert column.tobytes() in {each.tobytes() for each in wanted}


def test_parquet_of_other_programs_keeps_numbers_of_64_bits(tmp_path):
    table = pa.table(
        {"a": pa.array([(1 << 53) + 1]), "b": pa.array([base64.b64encode(b"x").decode()])}
    )
    pq.write_table(table, tmp_path / "a.parquet")
    transcode(
        open_sample_file(tmp_path / "a.parquet", SourceOptions()),
        tmp_path / "a.jsonl",
        SinkOptions(),
    )
    assert json.loads((tmp_path / "a.jsonl").read_text()) == {"a": (1 << 53) + 1, "b": "eA=="}


@pytest.mark.parametrize("other", [pa.timestamp("us"), pa.timestamp("ms", "UTC"), pa.int64()])
def test_times_of_two_units_are_not_mixed(tmp_path, other):
    for name, kind in (("a", pa.timestamp("ms")), ("b", other)):
        pq.write_table(pa.table({"t": pa.array([1], kind)}), tmp_path / f"{name}.parquet")
    paths = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    with pytest.raises(ConfigError, match=r"b\.parquet"):
        convert_files(paths, tmp_path / "out", 1, "p")
    assert not list((tmp_path / "out").glob("p-*"))
