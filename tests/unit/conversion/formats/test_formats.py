"""Foreign formats: samples come back as they were, and damage is an error."""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
import os
import struct

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.conversion.conftest import (
    FIXED,
    VARIABLE,
    contents,
    fixed_samples,
    variable_samples,
)
from trainfeed.conversion import (
    ColumnOptions,
    CsvOptions,
    Encoding,
    Format,
    IdxHeader,
    SinkOptions,
    SourceOptions,
    SparseOptions,
    convert,
    convert_arrays,
    convert_files,
    count_features,
    format_of,
    format_sparse,
    idx_schema,
    iter_idx,
    iter_idx_pairs,
    load_schema,
    merge_files,
    open_parquet,
    open_sample_file,
    parse_sparse,
    paths_of,
    read_csv,
    read_idx_header,
    read_json_lines,
    read_sparse,
    transcode,
    write_idx,
)
from trainfeed.errors import (
    ConfigError,
    ConflictError,
    FormatError,
    NotFoundError,
    SampleShapeError,
    TruncatedError,
)
from trainfeed.recordio import RecordScanner
from trainfeed.samples import Field, Schema, TypedCodec

RICH = Schema(
    (
        Field("flag", "bool"),
        Field("i8", "int8"),
        Field("u64", "uint64"),
        Field("f16", "float16"),
        Field("f32", "float32", (2,)),
        Field("f64", "float64"),
        Field("grid", "int16", (2, 3)),
        Field("ragged", "float32", (None,)),
        Field("rows", "int32", (None, 2)),
        Field("text", "str"),
        Field("data", "bytes"),
        Field("maybe", "int64", (), optional=True),
        Field("maybe_text", "str", (), optional=True),
        Field("maybe_rows", "uint8", (None, 3), optional=True),
        Field("maybe_pair", "float32", (2,), optional=True),
    )
)
TEXTS = ["", "plain", "\\N", "\\", 'a,b\n"c"', "é\x00\x1b", "NaN", " ", "\r\n"]
FLOATS = [0.0, -0.0, math.nan, math.inf, -math.inf, 0.1, 1e-45, 3.4e38]


def rich_samples():
    for n in range(40):
        yield {
            "flag": n % 2 == 0,
            "i8": n - 20,
            "u64": (1 << 64) - 1 - n,
            "f16": [0.0, -2.5, math.nan, math.inf][n % 4],
            "f32": [FLOATS[n % 8], FLOATS[(n + 3) % 8]],
            "f64": [math.pi, 5e-324, 1.7e308, -math.inf][n % 4],
            "grid": [[n, 1, 2], [-3, 4, -n]],
            "ragged": [0.1 * i for i in range(n % 5)],
            "rows": [[i, -i] for i in range(n % 3)],
            "text": TEXTS[n % len(TEXTS)],
            "data": bytes(range(n)),
            "maybe": None if n % 3 else (1 << 62) + n,
            "maybe_text": None if n % 4 == 1 else TEXTS[n % len(TEXTS)],
            "maybe_rows": None if n % 2 else [[n, 1, 2]] * (n % 3),
            "maybe_pair": None if n % 5 == 0 else [n, 0.5],
        }


def rewrite(source, target, sink=None):
    """Write the samples of one file to another one."""
    return transcode(open_sample_file(source, SourceOptions()), target, sink or SinkOptions())


@pytest.fixture
def rich(tmp_path):
    """A RecordIO file of samples of ``RICH``, known by its manifest."""
    convert(tmp_path / "rich", rich_samples, 1, "p", schema=RICH)
    return tmp_path / "rich" / "p-00000-of-00000"


ROUND_TRIPS = ["tfrecord", "parquet", "arrow", "jsonl", "csv"]


@pytest.mark.parametrize("suffix", ROUND_TRIPS)
def test_typed_samples_come_back_to_the_byte(rich, tmp_path, suffix):
    there, back = tmp_path / f"there.{suffix}", tmp_path / "back.recordio"
    count = rewrite(rich, there)
    assert count == 40
    # JSON lines and CSV do not say what their fields are; the others do.
    options = SourceOptions(schema=RICH if suffix in {"jsonl", "csv"} else None)
    transcode(open_sample_file(there, options), back, SinkOptions())
    assert back.read_bytes() == rich.read_bytes()


def test_tfrecord_to_recordio_and_back_is_the_same_file(tmp_path):
    options = SinkOptions()
    convert(tmp_path / "a", rich_samples, 1, "p", schema=RICH)
    first, middle, last = (
        tmp_path / f"{name}" for name in ("1.tfrecord", "2.recordio", "3.tfrecord")
    )
    transcode(
        open_sample_file(tmp_path / "a" / "p-00000-of-00000", SourceOptions()), first, options
    )
    transcode(open_sample_file(first, SourceOptions()), middle, options)
    transcode(open_sample_file(middle, SourceOptions()), last, options)
    assert first.read_bytes() == last.read_bytes()


def test_records_of_which_nothing_is_known_are_carried_unchanged(tmp_path):
    convert(tmp_path / "a", rich_samples, 1, "p", schema=RICH)
    (tmp_path / "a" / "p.shards.json").unlink()
    source = tmp_path / "a" / "p-00000-of-00000"
    opened = open_sample_file(source, SourceOptions())
    assert opened.encoding is Encoding.BYTES
    transcode(opened, tmp_path / "b.tfrecord", SinkOptions())
    rewrite(tmp_path / "b.tfrecord", tmp_path / "c.recordio")
    assert (tmp_path / "c.recordio").read_bytes() == source.read_bytes()
    with pytest.raises(ConfigError, match="give a schema"):
        transcode(opened, tmp_path / "d.jsonl", SinkOptions())
    assert not (tmp_path / "d.jsonl").exists()


def test_value_samples_come_back_with_their_types(tmp_path):
    values = [1, 1.5, "x", b"y", None, (1, 2), [1, 2], {"a": (np.arange(3, dtype="u2"),)}]
    convert(tmp_path / "v", lambda: values, 2, "v")
    for path in paths_of(tmp_path / "v"):
        rewrite(path, tmp_path / f"{path.name}.tfrecord")
    found = [
        sample
        for path in sorted(tmp_path.glob("*.tfrecord"))
        for sample in open_sample_file(path, SourceOptions()).samples()
    ]
    assert {repr(each) for each in found} == {repr(each) for each in values}


def test_json_lines_without_a_schema_are_values(tmp_path):
    lines = [{"a": [1, 2.5, None]}, "x", 3, [True]]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n\n")
    source = open_sample_file(tmp_path / "a.jsonl", SourceOptions())
    assert list(source.samples()) == lines
    transcode(source, tmp_path / "b.recordio", SinkOptions())
    rewrite(tmp_path / "b.recordio", tmp_path / "c.jsonl")
    assert [json.loads(line) for line in (tmp_path / "c.jsonl").read_text().splitlines()] == lines


BAD_LINES = {
    "no JSON": "{",
    "NaN": '{"label": NaN}',
    "a key twice": '{"label": 1, "label": 2}',
    "another field": '{"label": 1, "x": 2}',
    "a missing field": "{}",
    "no object": "[1]",
    "too deep": "[" * 100_000,
    "not UTF-8": "\udcff",
    "a fraction": '{"label": 1.5}',
}


@pytest.mark.parametrize("line", BAD_LINES.values(), ids=BAD_LINES)
def test_a_bad_line_of_json_is_named(tmp_path, line):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"label": 1}\n' + line.encode("utf-8", "surrogateescape") + b"\n")
    with pytest.raises(FormatError, match="line 2: ") as caught:
        list(read_json_lines(path, Schema((Field("label", "int64"),))))
    assert caught.value.path == str(path)
    assert caught.value.offset_bytes == 13


BAD_ROWS = {
    "a cell too many": "1,2",
    "no number": "x",
    "an empty cell": '""',
    "an open quote": '"1',
    "a fraction": "1.5",
}


@pytest.mark.parametrize("row", BAD_ROWS.values(), ids=BAD_ROWS)
def test_a_bad_row_of_csv_is_named(tmp_path, row):
    path = tmp_path / "a.csv"
    path.write_text(f"label\n1\n{row}\n")
    with pytest.raises(FormatError, match="line 3: "):
        list(read_csv(path, Schema((Field("label", "int64"),))))


@pytest.mark.parametrize("text", ["", "label,label\n", "other\n1\n"])
def test_a_csv_needs_a_header_of_the_fields(tmp_path, text):
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(FormatError):
        list(read_csv(tmp_path / "a.csv", Schema((Field("label", "int64"),))))


def test_a_csv_without_a_schema_gives_texts(tmp_path):
    with (tmp_path / "a.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["a", "b"], ["1", "x\ny"], ["", ","]])
    assert list(read_csv(tmp_path / "a.csv")) == [{"a": "1", "b": "x\ny"}, {"a": "", "b": ","}]


def test_foreign_parquet_is_read_by_its_columns(tmp_path):
    table = pa.table(
        {
            "n": pa.array([1, 2, 3], pa.int32()),
            "maybe": pa.array([1.5, None, 2.5]),
            "word": pa.array(["a", "b", "a"]).dictionary_encode(),
            "many": pa.array([[1], [], [2, 3]], pa.large_list(pa.uint8())),
            "day": pa.array([0, 1, 2], pa.date32()),
            "at": pa.array([0, 1, 1 << 40], pa.timestamp("us", "UTC")),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=2)
    opened = open_sample_file(tmp_path / "a.parquet", SourceOptions())
    assert [(f.name, f.dtype, f.shape, f.optional) for f in opened.schema] == [
        ("n", "int32", (), False),
        ("maybe", "float64", (), True),
        ("word", "str", (), False),
        ("many", "uint8", (None,), True),
        ("day", "int32", (), False),
        ("at", "int64", (), False),
    ]
    codec = TypedCodec(opened.schema)
    decoded = [codec.decode(codec.encode(sample)) for sample in opened.samples()]
    assert [each["at"].item() for each in decoded] == [0, 1, 1 << 40]
    assert [each["word"] for each in decoded] == ["a", "b", "a"]
    assert decoded[1]["maybe"] is None


def test_parquet_of_fixed_size_goes_in_blocks_and_gives_the_same(tmp_path):
    schema = Schema(
        (Field("x", "float32", (3,)), Field("label", "int64"), Field("m", "int16", (2,), True))
    )
    samples = [{"x": [n, 0.5, 1], "label": n, "m": None if n % 3 else [n, 1]} for n in range(100)]
    convert(tmp_path / "a", lambda: samples, 1, "p", schema=schema)
    source = open_sample_file(tmp_path / "a" / "p-00000-of-00000", SourceOptions())
    transcode(source, tmp_path / "a.parquet", SinkOptions())
    with open_parquet(tmp_path / "a.parquet") as table:
        assert table.schema == schema
    assert open_sample_file(tmp_path / "a.parquet", SourceOptions()).blocks is not None
    convert_files(tmp_path / "a.parquet", tmp_path / "b", 3, "p")
    convert_files(tmp_path / "a" / "p-00000-of-00000", tmp_path / "c", 3, "p")
    assert contents(tmp_path / "b") == contents(tmp_path / "c")


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1], pa.decimal128(5)),
        pa.array([{"a": 1}]),
        pa.array([[["x"]]]),
        pa.array([[[1]]]),
        pa.array([None]),
    ],
    ids=["decimal", "struct", "lists of text", "lists of lists", "null"],
)
def test_columns_that_samples_have_not_are_refused_by_name(tmp_path, column):
    pq.write_table(pa.table({"odd": column}), tmp_path / "a.parquet")
    with pytest.raises(ConfigError, match="'odd'"):
        open_sample_file(tmp_path / "a.parquet", SourceOptions())


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_a_damaged_table_is_a_format_error(rich, tmp_path, suffix):
    path = tmp_path / f"a.{suffix}"
    rewrite(rich, path)
    whole = path.read_bytes()
    for length in range(8, len(whole), max(1, len(whole) // 60)):
        path.write_bytes(whole[:length])
        with pytest.raises(FormatError) as caught:
            list(open_sample_file(path, SourceOptions(file_format=Format(suffix))).samples())
        assert caught.value.path == str(path)


def test_a_flipped_bit_in_parquet_never_gives_another_sample(tmp_path):
    path = tmp_path / "a.parquet"
    convert(tmp_path / "set", fixed_samples(50), 1, "p", schema=FIXED)
    rewrite(tmp_path / "set" / "p-00000-of-00000", path, SinkOptions(codec="none"))
    data, codec = bytearray(path.read_bytes()), TypedCodec(FIXED)

    def records():
        return [*map(codec.encode, open_sample_file(path, SourceOptions()).samples())]

    whole, num_refused = records(), 0
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    for place in range(4, footer, 3):
        data[place] ^= 4
        path.write_bytes(data)
        try:
            assert records() == whole
        except FormatError:
            num_refused += 1
        data[place] ^= 4
    assert num_refused > 200


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "arrow", "libsvm", "idx"])
def test_a_codec_is_refused_where_files_have_none(tmp_path, suffix):
    convert(tmp_path / "set", fixed_samples(2), 1, "p", schema=FIXED)
    source = open_sample_file(tmp_path / "set" / "p-00000-of-00000", SourceOptions())
    with pytest.raises(ConfigError, match=f"^{suffix} has no compression, got the codec 'gzip'"):
        transcode(source, tmp_path / f"a.{suffix}", SinkOptions(codec="gzip"))
    assert not (tmp_path / f"a.{suffix}").exists()


IDX_DTYPES = ["u1", "i1", "i2", "i4", "f4", "f8"]


@pytest.mark.parametrize("dtype", IDX_DTYPES)
def test_idx_files_come_back(tmp_path, dtype):
    values = np.arange(7 * 3 * 2).reshape(7, 3, 2).astype(dtype)
    file = io.BytesIO()
    write_idx(file, [values[:3], values[3:]], IdxHeader(7, (3, 2), values.dtype))
    for name, data in (("a.idx", file.getvalue()), ("a.idx.gz", gzip.compress(file.getvalue()))):
        path = tmp_path / name
        path.write_bytes(data)
        assert format_of(path) is Format.IDX
        assert read_idx_header(path) == (7, (3, 2), values.dtype)
        for block_items in (None, 2):
            blocks = list(iter_idx(path, block_items=block_items))
            np.testing.assert_array_equal(np.concatenate(blocks), values)
            assert {block.dtype for block in blocks} == {values.dtype}


def idx(code, lengths, data):
    return bytes([0, 0, code, len(lengths)]) + struct.pack(f">{len(lengths)}I", *lengths) + data


def test_images_with_labels_become_samples_and_files_again(tmp_path):
    images, labels = tmp_path / "images", tmp_path / "labels"
    pixels = np.arange(4 * 28 * 28, dtype=np.uint8).reshape(4, 28, 28)
    images.write_bytes(idx(8, (4, 28, 28), pixels.tobytes()))
    labels.write_bytes(idx(8, (4,), bytes([3, 1, 4, 1])))
    assert len(images.read_bytes()) - pixels.size == 16
    schema = idx_schema(images, labels)
    convert_arrays(tmp_path / "a", lambda: iter_idx_pairs(images, labels), 2, "p", schema=schema)
    options = SourceOptions(labels=labels)
    convert_files(images, tmp_path / "b", 2, "p", source=options)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    back = SinkOptions(file_format=Format.IDX, labels=tmp_path / "labels2")
    transcode(open_sample_file(images, options), tmp_path / "images2", back)
    assert (tmp_path / "images2").read_bytes() == images.read_bytes()
    assert (tmp_path / "labels2").read_bytes() == labels.read_bytes()
    (tmp_path / "few").write_bytes(idx(8, (3,), bytes(3)))
    with pytest.raises(FormatError, match="3 labels for 4 images"):
        list(iter_idx_pairs(images, tmp_path / "few"))


HUGE = (1 << 32) - 1
BAD_IDX = {
    "nothing": (b"", TruncatedError),
    "another magic": (b"\x01\0\x08\x01\0\0\0\0", FormatError),
    "an unknown type": (idx(10, (1,), b"x"), FormatError),
    "no dimension": (b"\0\0\x08\0", FormatError),
    "many dimensions": (bytes([0, 0, 8, 200]) + bytes(800), FormatError),
    "a cut header": (b"\0\0\x08\x03\0\0", TruncatedError),
    "huge lengths": (idx(14, (HUGE,) * 8, b"x"), FormatError),
    "a huge number of items": (idx(8, (HUGE, 28, 28), b"x" * 784), TruncatedError),
    "items of nothing": (idx(8, (HUGE, 0), b""), FormatError),
    "cut values": (idx(8, (3, 2), b"12345"), TruncatedError),
    "values too many": (idx(8, (3, 2), b"1234567"), FormatError),
    "huge and compressed": (gzip.compress(idx(8, (HUGE, 28, 28), b"x")), TruncatedError),
    "cut compressed data": (gzip.compress(idx(8, (90,), os.urandom(90)))[:-30], TruncatedError),
    "damaged compressed data": (b"\x1f\x8b\x08\0" + bytes(40), FormatError),
    "another checksum": (gzip.compress(idx(8, (3,), b"abc"))[:-8] + bytes(8), FormatError),
}


@pytest.mark.parametrize(("data", "error"), BAD_IDX.values(), ids=BAD_IDX)
def test_a_hostile_idx_file_is_refused(tmp_path, data, error):
    (tmp_path / "a").write_bytes(data)
    with pytest.raises(error) as caught:
        list(iter_idx(tmp_path / "a"))
    assert caught.value.path == str(tmp_path / "a")


SPARSE = SparseOptions(index_base=1, num_features=1000)


def test_a_line_of_libsvm_becomes_a_sample_and_the_line_again():
    sample = parse_sparse(b"+1 3:0.5 10:-2 7:1e-3 # a comment", SPARSE)
    assert sample["label"].item() == 1
    assert sample["indices"].tolist() == [2, 9, 6]
    assert sample["values"].tolist() == [0.5, -2, np.float32(1e-3)]
    assert sample["shape"].tolist() == [1000]
    assert format_sparse(sample, SPARSE) == b"1 3:0.5 10:-2.0 7:0.001\n"


def test_where_indices_start_is_never_guessed():
    first = parse_sparse(b"0 1:1", SparseOptions(index_base=0, num_features=5))
    second = parse_sparse(b"0 1:1", SparseOptions(index_base=1, num_features=5))
    assert (first["indices"].tolist(), second["indices"].tolist()) == ([1], [0])
    with pytest.raises(SampleShapeError, match="index_base"):
        parse_sparse(b"0 0:1", SPARSE)


FINITE = st.floats(width=32, allow_nan=False, allow_infinity=False)


@settings(deadline=None, max_examples=60)
@given(
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.dictionaries(
        st.integers(0, 999), st.floats(width=32, allow_nan=False, allow_infinity=False)
    ),
    st.sampled_from([0, 1]),
)
def test_every_sparse_sample_comes_back(label, features, index_base):
    options = SparseOptions(index_base, 1000)
    sample = {
        "label": np.array(label),
        "indices": np.array(list(features), np.int64),
        "values": np.array(list(features.values()), np.float32),
        "shape": np.array([1000]),
    }
    found = parse_sparse(format_sparse(sample, options), options)
    assert found["label"] == label
    np.testing.assert_array_equal(found["indices"], sample["indices"])
    assert found["values"].tobytes() == sample["values"].tobytes()


def test_double_precision_and_fractions_as_labels_are_options():
    line = b"0.25 1:0.1234567890123"
    with pytest.raises(SampleShapeError, match="label_dtype"):
        parse_sparse(line, SPARSE)
    options = SparseOptions(1, 10, label_dtype="float32")
    with pytest.raises(SampleShapeError, match=r"value_dtype .*float64"):
        parse_sparse(line, options)
    rounded = parse_sparse(line, SparseOptions(1, 10, label_dtype="float32", rounds=True))
    assert rounded["values"][0] == np.float32(0.1234567890123)
    options = SparseOptions(1, 10, label_dtype="float64", value_dtype="float64")
    assert format_sparse(parse_sparse(line, options), options) == line + b"\n"


BAD_SPARSE = {
    "no label": b"1:2",
    "no value": b"1 3:",
    "no index": b"1 :3",
    "no colon": b"1 3",
    "a negative index": b"1 -3:1",
    "an index beyond": b"1 1001:1",
    "an index twice": b"1 3:1 3:1",
    "NaN": b"1 3:nan",
    "infinity": b"1 3:1e999",
    "hexadecimal": b"1 3:0x10",
    "several labels": b"1,2 3:1",
    "a huge index": b"1 99999999999999999999:1",
    "a huge label": b"9223372036854775808 1:1",
    "control characters": b"1 \x1b[31m:1",
}


@pytest.mark.parametrize("line", BAD_SPARSE.values(), ids=BAD_SPARSE)
def test_a_bad_line_of_libsvm_is_named(tmp_path, line):
    path = tmp_path / "a.libsvm"
    path.write_bytes(b"# head\n\n1 1:1\n" + line + b"\n")
    with pytest.raises(FormatError, match="line 4: ") as caught:
        list(read_sparse(path, SPARSE))
    assert "\x1b" not in str(caught.value)


def test_libsvm_goes_through_record_files(tmp_path):
    path = tmp_path / "a.libsvm"
    path.write_bytes(b"".join(b"%d %d:0.5 %d:1.0\n" % (n % 2, n + 1, n + 30) for n in range(20)))
    options = SparseOptions(1, count_features([path], index_base=1))
    assert options.num_features == 49
    source = open_sample_file(path, SourceOptions(sparse=options))
    transcode(source, tmp_path / "b.tfrecord", SinkOptions())
    back = open_sample_file(tmp_path / "b.tfrecord", SourceOptions())
    assert back.schema == options.schema
    transcode(back, tmp_path / "c.libsvm", SinkOptions(sparse=options))
    assert (tmp_path / "c.libsvm").read_bytes() == path.read_bytes()
    with pytest.raises(ConfigError, match="where indices start"):
        open_sample_file(path, SourceOptions())


def test_formats_are_told_by_content_and_by_name_where_that_says_nothing(rich, tmp_path):
    for suffix in ROUND_TRIPS:
        path = tmp_path / f"a.{suffix}"
        rewrite(rich, path)
        assert format_of(path) is Format(suffix)
    (tmp_path / "a.parquet").rename(tmp_path / "a.csv.old")
    assert format_of(tmp_path / "a.csv.old") is Format.PARQUET
    transcode(
        open_sample_file(rich, SourceOptions()),
        tmp_path / "z",
        SinkOptions(Format.TFRECORD, "gzip"),
    )
    assert format_of(tmp_path / "z") is Format.TFRECORD
    (tmp_path / "empty").touch()
    assert format_of(tmp_path / "empty") is Format.RECORDIO
    (tmp_path / "noise").write_bytes(b"noise")
    with pytest.raises(FormatError, match="name its format"):
        format_of(tmp_path / "noise")


def test_what_is_no_file_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    for name in ("pipe", "zero"):
        with pytest.raises(FormatError, match="plain file"):
            format_of(tmp_path / name)
    with pytest.raises(ConfigError, match="one set of shards"):
        paths_of(tmp_path)
    with pytest.raises(NotFoundError):
        paths_of(str(tmp_path / "x*"))


def test_a_folder_stands_for_its_set_and_must_be_whole(out):
    convert(out, fixed_samples(9), 3, "p", schema=FIXED)
    assert [path.name for path in paths_of(out)] == [f"p-{i:05d}-of-00002" for i in range(3)]
    (out / "p-00001-of-00002").unlink()
    with pytest.raises(FormatError, match="missing"):
        paths_of(out)


def test_files_of_different_samples_are_not_mixed(tmp_path):
    convert(tmp_path / "a", fixed_samples(3), 1, "p", schema=FIXED)
    convert(tmp_path / "b", variable_samples(3), 1, "p", schema=VARIABLE)
    with pytest.raises(ConfigError, match="same samples"):
        convert_files([tmp_path / "a", tmp_path / "b"], tmp_path / "c", 2, "p")


def test_a_schema_that_records_contradict_is_noticed(tmp_path):
    convert(tmp_path / "a", fixed_samples(3), 1, "p", schema=FIXED)
    source = SourceOptions(schema=VARIABLE)
    with pytest.raises(FormatError):
        convert_files(tmp_path / "a", tmp_path / "c", 2, "p", source=source)
    assert not (tmp_path / "c").exists()


def test_an_existing_file_is_never_replaced(rich, tmp_path):
    (tmp_path / "a.csv").write_text("mine")
    with pytest.raises(ConflictError):
        rewrite(rich, tmp_path / "a.csv")
    with pytest.raises(ConflictError):
        merge_files([rich], tmp_path / "a.csv")
    assert (tmp_path / "a.csv").read_text() == "mine"


def test_merged_files_hold_all_records_in_order(tmp_path):
    convert(tmp_path / "a", fixed_samples(20), 3, "p", schema=FIXED)
    paths = paths_of(tmp_path / "a")
    assert merge_files(paths, tmp_path / "m") == 20
    assert list(RecordScanner([tmp_path / "m"])) == list(RecordScanner(paths))
    # The new file still knows what its records are.
    assert open_sample_file(tmp_path / "m", SourceOptions()).schema == FIXED
    for path in paths:
        rewrite(path, tmp_path / f"{path.name}.tfrecord")
    examples = sorted(tmp_path.glob("*.tfrecord"))
    assert merge_files(examples, tmp_path / "t") == 20
    assert (tmp_path / "t").read_bytes() == b"".join(path.read_bytes() for path in examples)
    with pytest.raises(ConfigError):
        merge_files([paths[0], examples[0]], tmp_path / "x")
    paths[1].write_bytes(paths[1].read_bytes()[:-1])
    with pytest.raises(FormatError):
        merge_files(paths, tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_a_schema_is_read_from_a_list_of_fields_and_from_a_manifest(tmp_path):
    convert(tmp_path / "a", fixed_samples(3), 1, "p", schema=FIXED)
    (tmp_path / "fields.json").write_text(json.dumps(FIXED.to_json()))
    for path in (tmp_path / "fields.json", tmp_path / "a" / "p.shards.json"):
        assert load_schema(path) == FIXED
    (tmp_path / "none.json").write_text("{}")
    with pytest.raises(ConfigError):
        load_schema(tmp_path / "none.json")


@pytest.mark.parametrize("text", ["{", "[]", '{"format": "trainfeed-schema/1", "encoding": "x"}'])
def test_a_damaged_account_of_records_is_a_format_error(rich, tmp_path, text):
    rewrite(rich, tmp_path / "a.tfrecord")
    (tmp_path / "a.tfrecord.schema.json").write_text(text)
    with pytest.raises(FormatError):
        open_sample_file(tmp_path / "a.tfrecord", SourceOptions())


def test_a_format_that_needs_fields_says_so(tmp_path):
    convert(tmp_path / "v", lambda: [1, 2], 1, "v")
    source = open_sample_file(tmp_path / "v" / "v-00000-of-00000", SourceOptions())
    for suffix in ("csv", "parquet", "arrow", "libsvm", "idx"):
        with pytest.raises(ConfigError):
            transcode(source, tmp_path / f"a.{suffix}", SinkOptions())
    with pytest.raises(ConfigError, match="name the format"):
        transcode(source, tmp_path / "a.unknown", SinkOptions())
    with pytest.raises(ConfigError, match="codec"):
        transcode(source, tmp_path / "a.recordio", SinkOptions(codec="zlib"))


@pytest.mark.parametrize(
    "options",
    [
        SourceOptions(labels="labels.idx"),
        SourceOptions(csv=CsvOptions(";")),
        SourceOptions(columns=ColumnOptions(as_json=("a",))),
    ],
    ids=["labels", "csv", "columns"],
)
def test_what_is_asked_of_a_format_that_has_none_is_an_error(tmp_path, options):
    (tmp_path / "a.jsonl").write_text('{"a": 1}\n')
    with pytest.raises(ConfigError, match=r"only .* this is jsonl"):
        open_sample_file(tmp_path / "a.jsonl", options)


@pytest.mark.parametrize("options", [SinkOptions(labels="l.idx"), SinkOptions(delimiter=";")])
def test_what_is_asked_of_a_new_file_that_has_none_is_an_error(rich, tmp_path, options):
    source = open_sample_file(rich, SourceOptions())
    with pytest.raises(ConfigError, match=r"only .* the new file is parquet"):
        transcode(source, tmp_path / "a.parquet", options)
    assert not (tmp_path / "a.parquet").exists()


def test_a_schema_of_other_items_than_an_idx_file_has_is_an_error(tmp_path):
    with (tmp_path / "a.idx").open("wb") as file:
        write_idx(file, [np.zeros((2, 3), "u1")], IdxHeader(2, (3,), np.dtype("u1")))
    with pytest.raises(FormatError, match="expected the schema"):
        open_sample_file(tmp_path / "a.idx", SourceOptions(schema=FIXED))


@pytest.mark.parametrize(
    ("name", "head", "told"),
    [
        ("movies.json", b'[\r\n   {"a": 1}]', "a JSON array"),
        ("bom.json", b'\xef\xbb\xbf [{"a": 1}]', "jq -c"),
        ("array.jsonl", b'[{"a": 1}]\n', "a JSON array"),
        ("a.avro", b"Obj\x01\x04\x14avro.codec", "an Avro file"),
        ("a.orc", b"ORC\n\x03", "an ORC file"),
        ("a.db", b"SQLite format 3\0", "a SQLite database"),
        ("a.h5", b"\x89HDF\r\n\x1a\n", "an HDF5 file"),
        ("a.xml", b"<?xml version='1.0'?>", "XML"),
    ],
)
def test_a_format_that_is_known_and_not_read_is_named(tmp_path, name, head, told):
    (tmp_path / name).write_bytes(head)
    with pytest.raises(ConfigError, match=told):
        format_of(tmp_path / name)


def test_text_of_no_known_format_is_shown_as_text(tmp_path):
    (tmp_path / "notes").write_text("dear diary\nonce")
    with pytest.raises(FormatError, match="dear diary"):
        format_of(tmp_path / "notes")
    (tmp_path / "lines.jsonl").write_text('{"a": 1}\n')
    assert format_of(tmp_path / "lines.jsonl") == Format.JSON_LINES
