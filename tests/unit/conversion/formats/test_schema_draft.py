"""A draft of a schema from the records of a file, for dataset.yaml."""

from __future__ import annotations

import bz2
import gzip
import json

import cramjam
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from trainfeed.conversion import (
    SourceOptions,
    convert,
    draft_schema,
    open_sample_file,
    read_csv,
    read_json_lines,
    write_parquet,
)
from trainfeed.errors import ConfigError, FormatError, NotFoundError
from trainfeed.samples import Field, Schema
from trainfeed.specification import load_spec

SPEC = """\
name: drafted
schedule: "@daily"
start: 2026-01-01
source: {recorded: {path: ./sample}}
preprocess: {function: "preprocess:make"}
split: {train: 1}
schema:
"""
ROWS = [
    {"user": 7, "price": 2.5, "ok": True, "at": "2026-01-01T00:00:00", "v": [1.0, 2.0], "w": [1]},
    {"user": 8, "price": 3, "ok": False, "at": "x", "v": [3.0, 4.0], "w": [1, 2], "city": "é"},
    {"user": 9, "price": None, "ok": True, "at": "", "v": [5.0, 6.0], "w": [], "city": None},
]
EXPECTED = {
    "user": Field("user", "int64"),
    "price": Field("price", "float64", (), True),
    "ok": Field("ok", "bool"),
    "at": Field("at", "str"),
    "v": Field("v", "float64", (2,)),
    "w": Field("w", "int64", (None,)),
    "city": Field("city", "str", (), True),
}


def pasted(draft, folder):
    """The fields of a specification whose schema is the draft as it is printed."""
    (folder / "drafted").mkdir(exist_ok=True)
    text = SPEC + "\n".join(draft.lines()) + "\n"
    (folder / "drafted" / "dataset.yaml").write_text(text)
    (folder / "drafted" / "preprocess.py").touch()
    return Schema.from_json(load_spec(folder / "drafted").schema_fields())


def write_lines(path, rows, opened=open):
    with opened(path, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(each) + "\n" for each in rows)
    return path


def columns(draft):
    return {each.name: each for each in draft.columns}


def test_json_lines_have_the_fields_of_their_objects(tmp_path):
    draft = draft_schema(write_lines(tmp_path / "a.jsonl", ROWS))
    assert {each.name: each for each in draft.fields} == EXPECTED
    assert (draft.records, draft.is_all, draft.file_format) == (3, True, "jsonl")
    seen = columns(draft)
    assert seen["price"].notes == ("1 of 3 records lack it",)
    assert seen["city"].notes == ("2 of 3 records lack it",)
    assert seen["v"].notes == ("each has 2 values",)
    assert seen["w"].notes == ("0 to 2 values",)
    assert (seen["user"].low, seen["user"].high, seen["at"].low) == (7, 9, None)


def test_what_is_printed_loads_below_schema(tmp_path):
    names = ["on", "n", "a/b", "x.y", "User Id", "userId", "1e3", "名前", "_x"]
    draft = draft_schema(write_lines(tmp_path / "a.jsonl", [dict.fromkeys(names, 1)] * 2))
    renamed = ["on", "n", "a/b", "x.y", "user_id", "user_id_2", "field_1e3", "field", "x"]
    assert list(pasted(draft, tmp_path).names) == renamed
    # A conversion finds the keys of the file by these names.
    assert [each.name for each in draft.fields][5:7] == ["userId", "1e3"]
    text = "\n".join(draft.lines())
    assert '"User Id" in the file' in text
    assert '"名前" in the file' in text


def test_the_samples_of_the_file_match_the_draft(tmp_path):
    path = write_lines(tmp_path / "a.jsonl", ROWS)
    samples = list(read_json_lines(path, Schema(draft_schema(path).fields)))
    assert [each["user"].item() for each in samples] == [7, 8, 9]
    assert samples[1]["w"].tolist() == [1, 2]


@pytest.mark.parametrize("kind", ["parquet", "arrow", "orc"])
def test_tables_have_the_types_of_their_columns(tmp_path, kind):
    table = pa.table(
        {
            "small": pa.array([1, 2, None], pa.int8()),
            "f": pa.array([0.5, 1, 2], pa.float32()),
            "t": pa.array([1, 2, 3], pa.timestamp("ns")),
            "b": pa.array([b"x", b"y", b""]),
            "v": pa.array([[1, 2], [3, 4], [5, 6]], pa.list_(pa.int32())),
            "m": pa.array([[[1, 2]], [[3, 4], [5, 6]], []], pa.list_(pa.list_(pa.float32()))),
            "w": pa.array([[1], None, [2, 3]], pa.list_(pa.int64())),
            "tags": pa.array([["a"], ["b"], []]),
            "holes": pa.array([[1, None], [2], [3]]),
            "s": pa.array([{"a": 1}] * 3),
        }
    )
    path = tmp_path / f"a.{kind}"
    if kind == "parquet":
        pq.write_table(table, path)
    elif kind == "orc":
        orc.write_table(table, path)
    else:
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table)
    draft = draft_schema(path)
    assert draft.fields == (
        Field("small", "int8", (), True),
        Field("f", "float32"),
        Field("t", "int64"),
        Field("b", "bytes"),
        Field("v", "int32", (2,)),
        Field("m", "float32", (None, 2)),
        Field("w", "int64", (None,), True),
    )
    seen = columns(draft)
    assert seen["t"].notes == ("numbers in the unit of timestamp[ns]",)
    assert seen["tags"].reason.startswith("a sample cannot hold list<")
    assert seen["holes"].reason.startswith("a sample cannot hold lists with nulls in them")
    assert seen["s"].reason.startswith("a sample cannot hold struct<a: int64>")
    text = "\n".join(draft.lines())
    assert "  # tags: left out: a sample cannot hold list<" in text
    assert pasted(draft, tmp_path).fields == draft.fields


def test_a_list_whose_length_changes_in_a_later_batch_is_ragged(tmp_path):
    values = [[1, 2]] * 600 + [[1]]
    pq.write_table(pa.table({"v": values}), tmp_path / "a.parquet")
    assert draft_schema(tmp_path / "a.parquet").fields == (Field("v", "int64", (None,)),)
    first = draft_schema(tmp_path / "a.parquet", rows=600)
    assert first.fields == (Field("v", "int64", (2,)),)
    assert (first.records, first.is_all) == (600, False)
    assert "the first 600 records of a.parquet (parquet); there are more" in next(first.lines())


def test_csv_gets_types_and_keeps_what_a_number_would_lose(tmp_path):
    (tmp_path / "a.csv").write_text(
        "id;zip;day;score;ok;v;note;gone\n"
        '1;01234;2026-01-01;0.5;true;[1, 2];"a;b";\n'
        "2;99999;2026-01-02;;False;[3, 4];;\n"
        "3;00007;2026-01-03;NA;true;[5, 6];\\N;\n"
    )
    draft = draft_schema(tmp_path / "a.csv")
    assert draft.fields == (
        Field("id", "int64"),
        Field("zip", "str"),
        Field("day", "str"),
        Field("score", "float64", (), True),
        Field("ok", "bool"),
        Field("v", "int64", (2,)),
        Field("note", "str", (), True),
    )
    seen = columns(draft)
    assert seen["zip"].notes == ("digits with zeros in front, which a number would lose",)
    assert seen["day"].notes == ("text like 2026-01-01",)
    assert seen["score"].absent == 2
    assert seen["gone"].reason == "null in every record that was seen"


def test_a_few_cells_that_are_no_numbers_do_not_make_text_of_a_column(tmp_path):
    cells = [str(number) for number in range(60)] + ["?", ""]
    (tmp_path / "a.csv").write_text("a,b\n" + "".join(f"{each},{each}x\n" for each in cells))
    draft = draft_schema(tmp_path / "a.csv")
    assert draft.fields == (Field("a", "int64", (), True), Field("b", "str"))
    (a, _) = draft.columns
    assert (a.refused, a.absent) == (1, 1)
    assert a.notes[0] == "1 of 62 cells are no numbers, and would be refused"


def test_what_has_no_common_type_is_left_out_with_the_types(tmp_path):
    rows = [{"a": 1, "b": 1, "c": [1], "d": 1}, {"a": "x", "b": 1 << 70, "c": ["x"], "d": 2}]
    draft = draft_schema(write_lines(tmp_path / "a.jsonl", rows))
    assert draft.fields == (Field("d", "int64"),)
    reasons = {each.name: each.reason for each in draft.columns if not each.field}
    assert reasons == {
        "a": "values of one field: 1 whole numbers, 1 text",
        "b": "values of one field: 2 whole numbers beyond 64 bits",
        "c": "values of one field: 2 lists of several types",
    }


def test_a_few_values_of_another_type_do_not_hide_the_field(tmp_path):
    rows = [{"a": n, "b": n / 2} for n in range(60)] + [{"a": "x", "b": True}, {"a": None, "b": 1}]
    draft = draft_schema(write_lines(tmp_path / "a.jsonl", rows))
    assert draft.fields == (Field("a", "int64", (), True), Field("b", "float64"))
    seen = columns(draft)
    assert seen["a"].notes[0] == "1 of 61 values are text, and would be refused"
    assert seen["b"].notes == ("1 of 62 values are true or false, and would be refused",)


def test_lines_that_are_no_records_are_counted_and_not_hidden(tmp_path):
    (tmp_path / "a.log").write_text('{"a": 1}\n{broken\n\n[1]\n{"a": 2}\n')
    draft = draft_schema(tmp_path / "a.log")
    assert (draft.records, draft.unread) == (2, {"not JSON": 1, "no JSON object": 1})
    assert "Lines that are not JSON: 1; nothing here" in "\n".join(draft.lines())
    (tmp_path / "b.jsonl").write_text("broken\n")
    with pytest.raises(FormatError, match=r"not JSON: 1; a record is one line: jq -c \. FILE"):
        draft_schema(tmp_path / "b.jsonl")


def test_no_more_records_are_looked_at_than_asked_for(tmp_path):
    path = write_lines(tmp_path / "a.jsonl", [{"a": 1}] * 5 + [{"a": "x"}])
    draft = draft_schema(path, rows=5)
    assert (draft.records, draft.is_all, draft.fields) == (5, False, (Field("a", "int64"),))
    assert draft_schema(path).fields == ()


@pytest.mark.parametrize("suffix", ["gz", "bz2", "zst", "lz4", "snappy"])
@pytest.mark.parametrize("kind", ["jsonl", "csv"])
def test_compressed_files_give_the_draft_of_the_plain_ones(tmp_path, suffix, kind):
    texts = {"jsonl": '{"a": 1, "b": "x"}\n' * 50, "csv": "a,b\n" + "1,x\n" * 50}
    data = texts[kind].encode()
    packed = {
        "gz": lambda: gzip.compress(data[:30]) + gzip.compress(data[30:]),
        "bz2": lambda: bz2.compress(data),
        "zst": lambda: bytes(cramjam.zstd.compress(data)),
        "lz4": lambda: bytes(cramjam.lz4.compress(data)),
        "snappy": lambda: bytes(cramjam.snappy.compress(data)),
    }[suffix]()
    path = tmp_path / f"a.{kind}.{suffix}"
    path.write_bytes(packed)
    draft = draft_schema(path)
    assert (draft.records, draft.is_all) == (50, True)
    assert draft.fields == (Field("a", "int64"), Field("b", "str"))
    read = read_csv if kind == "csv" else read_json_lines
    assert len(list(read(path))) == 50
    assert open_sample_file(path, SourceOptions()).num_samples() == 50
    path.write_bytes(packed[: len(packed) // 2])
    with pytest.raises(FormatError, match=r"do not decompress|expected records"):
        draft_schema(path)


def test_logs_without_a_suffix_of_their_format_are_json_lines(tmp_path):
    (tmp_path / "part-00000").write_text('{"a": 1}\n')
    assert draft_schema(tmp_path / "part-00000").file_format == "jsonl"
    (tmp_path / "part-00000.gz").write_bytes(gzip.compress(b'{"a": 1}\n'))
    assert draft_schema(tmp_path / "part-00000.gz").file_format == "jsonl"
    (tmp_path / "rows").write_text("a,b\n1,2\n")
    with pytest.raises(FormatError, match="--format"):
        draft_schema(tmp_path / "rows")
    assert draft_schema(tmp_path / "rows", file_format="csv").records == 1


def test_a_file_that_states_its_schema_gives_that(tmp_path):
    schema = Schema((Field("x", "float32", (2,)), Field("t", "str", (), True)))
    sample = {"x": np.zeros(2, np.float32), "t": None}
    with (tmp_path / "a.parquet").open("wb") as file:
        write_parquet(file, [sample], schema)
    convert(str(tmp_path), lambda: iter([sample]), 1, "set", schema=schema)
    shard = next(tmp_path.glob("set-*-of-*"))
    for path in (tmp_path / "a.parquet", shard):
        draft = draft_schema(path)
        assert (draft.fields, draft.is_stated) == (schema.fields, True)
        assert "states" in next(draft.lines())


def test_what_shows_no_schema_is_refused_with_what_does(tmp_path):
    convert(str(tmp_path), lambda: iter([b"x"]), 1, "set")
    with pytest.raises(ConfigError, match="expected a file that states or shows a schema"):
        draft_schema(next(tmp_path.glob("set-*-of-*")))
    (tmp_path / "a.json").write_text('[{"a": 1}]')
    with pytest.raises(ConfigError, match="a JSON array"):
        draft_schema(tmp_path / "a.json")
    with pytest.raises(ConfigError, match="expected a format of"):
        draft_schema(tmp_path / "a.json", file_format="xml")
    with pytest.raises(NotFoundError):
        draft_schema(tmp_path / "none")


def test_a_damaged_table_is_an_error_that_names_the_file(tmp_path):
    pq.write_table(pa.table({"a": list(range(1000))}), tmp_path / "a.parquet")
    whole = (tmp_path / "a.parquet").read_bytes()
    (tmp_path / "a.parquet").write_bytes(whole[:-20])
    with pytest.raises(FormatError, match=r"a\.parquet"):
        draft_schema(tmp_path / "a.parquet")


def test_the_draft_of_a_table_is_the_schema_of_its_conversion(tmp_path):
    table = pa.table({"a": [1, 2], "v": pa.array([[1.0], [2.0]], pa.list_(pa.float64(), 1))})
    pq.write_table(table, tmp_path / "a.parquet")
    opened = open_sample_file(tmp_path / "a.parquet", SourceOptions())
    assert draft_schema(tmp_path / "a.parquet").fields == opened.schema.fields


def test_objects_of_very_many_keys_are_cut_and_say_so(tmp_path):
    path = write_lines(tmp_path / "a.jsonl", [{f"k{n}": n for n in range(1003)}])
    draft = draft_schema(path)
    assert (len(draft.columns), draft.more_keys) == (1000, 3)
    assert "and 3 more keys" in list(draft.lines())[-1]
    assert pasted(draft, tmp_path).fields == draft.fields
