"""Errors about samples and records say where: which file, and which sample, record or line."""

from __future__ import annotations

import re

import pytest

from tests.unit.conversion.conftest import FIXED, fixed_samples
from trainfeed.conversion import (
    SinkOptions,
    SourceOptions,
    convert,
    convert_files,
    merge_files,
    open_sample_file,
    read_csv,
    read_json_lines,
    transcode,
)
from trainfeed.errors import ConfigError, FormatError, SampleShapeError
from trainfeed.recordio import RecordWriter
from trainfeed.samples import Field, Schema, TypedCodec
from trainfeed.tfrecord import TFRecordWriter, encode_example

LABELS = Schema((Field("label", "int64"),))
TEXT = Schema((Field("number", "int64"), Field("ratio", "float64"), Field("text", "str")))
MARK = b"\xef\xbb\xbf"


@pytest.mark.parametrize("schema", [None, LABELS])
def test_the_sample_that_cannot_be_stored_is_counted(tmp_path, schema):
    def reader():
        yield from ({"label": n} for n in range(5))
        yield {"label": {1}}

    with pytest.raises(SampleShapeError, match=r"^sample 5: "):
        convert(tmp_path / "out", reader, 2, "p", schema=schema)


def test_the_file_whose_sample_cannot_be_stored_is_named(tmp_path):
    path = tmp_path / "deep.jsonl"
    path.write_text('{"a": 1}\n{"a": ' + "[" * 300 + "]" * 300 + "}\n")
    with pytest.raises(SampleShapeError, match=re.escape(f"{path}: sample 1: ")):
        convert_files(path, tmp_path / "out", 2, "p")


def test_a_record_of_another_schema_is_named(tmp_path):
    path = tmp_path / "a.recordio"
    with RecordWriter(path) as writer:
        writer.write(TypedCodec(LABELS).encode({"label": 1}))
        writer.write(b"another")
    with pytest.raises(FormatError, match=r"^record 1: ") as caught:
        list(open_sample_file(path, SourceOptions(schema=LABELS)).samples())
    assert caught.value.path == str(path)


def test_a_record_that_is_no_example_is_named(tmp_path):
    path = tmp_path / "a.tfrecord"
    with TFRecordWriter(path) as writer:
        writer.write(encode_example({"label": 1}))
        writer.write(b"\x0a\x05\x0a")
    opened = open_sample_file(path, SourceOptions(schema=LABELS))
    with pytest.raises(FormatError, match=r"^record 1: .*, at byte 1 of it in ") as caught:
        list(opened.samples())
    assert (caught.value.path, caught.value.offset_bytes) == (str(path), None)
    assert opened.blocks is not None
    with pytest.raises(FormatError, match=r"^from record 0 on, record 1: ") as caught:
        list(opened.blocks())
    assert caught.value.path == str(path)


def test_merging_names_the_damaged_file(tmp_path):
    convert(tmp_path / "set", fixed_samples(20), 2, "p", schema=FIXED)
    paths = sorted((tmp_path / "set").glob("p-0*"))
    data = bytearray(paths[1].read_bytes())
    data[40] ^= 1
    paths[1].write_bytes(data)
    with pytest.raises(FormatError) as caught:
        merge_files(paths, tmp_path / "all.recordio")
    assert (caught.value.path, caught.value.offset_bytes) == (str(paths[1]), 0)
    assert not (tmp_path / "all.recordio").exists()


def test_the_line_of_a_csv_that_is_no_text_is_named(tmp_path):
    path = tmp_path / "a.csv"
    rows = [f"{n},0.5,x\n".encode() for n in range(3000)]
    rows[1999] = b"1999,0.5,caf\xe9\n"
    path.write_bytes(b"number,ratio,text\n" + b"".join(rows))
    found = []
    with pytest.raises(FormatError, match=r"^line 2001: expected UTF-8, got the byte e9 behind 12"):
        found.extend(read_csv(path, TEXT))
    assert len(found) == 1999


def test_the_mark_before_text_is_no_part_of_it(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(MARK + b"number,ratio,text\n1,0.5,x\n")
    assert [sample["text"] for sample in read_csv(path, TEXT)] == ["x"]
    assert list(read_csv(path)) == [{"number": "1", "ratio": "0.5", "text": "x"}]
    path = tmp_path / "a.jsonl"
    path.write_bytes(MARK + b'{"number": 1}\n{"number": 2}\n')
    assert list(read_json_lines(path)) == [{"number": 1}, {"number": 2}]


@pytest.mark.parametrize("number", ["1e400", "-1e400", f"{'9' * 400}.5"])
def test_a_number_beyond_float64_is_no_infinity(tmp_path, number):
    lines, rows = tmp_path / "a.jsonl", tmp_path / "a.csv"
    lines.write_text(f'{{"number": 1, "ratio": {number}, "text": ""}}\n')
    rows.write_text(f"number,ratio,text\n1,{number},x\n")
    for read, path in ((read_json_lines, lines), (read_csv, rows)):
        with pytest.raises(FormatError, match="is beyond float64"):
            list(read(path, TEXT))
    with pytest.raises(FormatError, match=r"^line 1: .* is beyond float64"):
        list(read_json_lines(lines))


@pytest.mark.parametrize("number", ["1_0", "\uff11", "1 0"])
def test_a_cell_is_a_number_only_as_others_write_them(tmp_path, number):
    path = tmp_path / "a.csv"
    path.write_text(f"number,ratio,text\n{number},0.5,x\n")
    with pytest.raises(FormatError, match="line 2"):
        list(read_csv(path, TEXT))


def test_a_codec_that_parquet_has_not_is_refused(tmp_path):
    convert(tmp_path / "set", fixed_samples(2), 1, "p", schema=FIXED)
    source = open_sample_file(tmp_path / "set" / "p-00000-of-00000", SourceOptions())
    with pytest.raises(ConfigError, match="expected a codec of Parquet, got 'bogus'"):
        transcode(source, tmp_path / "a.parquet", SinkOptions(codec="bogus"))
