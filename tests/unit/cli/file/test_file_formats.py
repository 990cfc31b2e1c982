"""``trainfeed file convert`` on foreign formats: required options, messages, written files."""

from __future__ import annotations

import json
import tarfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from trainfeed.cli import main


@pytest.fixture
def cli(monkeypatch, capsys, tmp_path):
    """Run ``trainfeed file …`` in a folder of its own; return status, output and messages."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        monkeypatch.setattr("sys.argv", ["trainfeed", "file", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        return (ended.value.code or 0, *capsys.readouterr())

    return run


def test_a_saved_data_set_of_hugging_face_converts(cli, tmp_path):
    with pa.ipc.new_stream(
        tmp_path / "data-00000-of-00001.arrow", pa.schema({"x": pa.int64()})
    ) as w:
        w.write_batch(pa.record_batch({"x": [1, 2, 3]}))
    assert cli("convert", "data-00000-of-00001.arrow", "x.jsonl")[0] == 0
    assert (tmp_path / "x.jsonl").read_text() == '{"x": 1}\n{"x": 2}\n{"x": 3}\n'
    assert cli("verify", "data-00000-of-00001.arrow", "--deep")[0] == 0


def test_verify_advises_repair_only_for_what_it_can_repair(cli, tmp_path):
    with pa.ipc.new_stream(tmp_path / "a.arrow", pa.schema({"x": pa.int64()})) as w:
        w.write_batch(pa.record_batch({"x": [1, 2, 3]}))
    whole = (tmp_path / "a.arrow").read_bytes()
    (tmp_path / "a.arrow").write_bytes(whole[:-8])
    status, output, messages = cli("verify", "a.arrow", "--deep")
    assert status == 3
    assert "expected the mark at the end" in output
    assert "repair" not in messages


def test_a_delimiter_is_asked_for_by_name_or_told_when_found(cli, tmp_path, caplog):
    (tmp_path / "a.csv").write_text("a;b\n1;2\n")
    assert cli("convert", "a.csv", "a.jsonl")[0] == 0
    assert "';' separates the cells" in caplog.text
    assert (tmp_path / "a.jsonl").read_text() == '{"a": "1", "b": "2"}\n'
    caplog.clear()
    assert cli("convert", "a.csv", "b.jsonl", "--delimiter", ";")[0] == 0
    assert not caplog.records


@pytest.mark.parametrize("command", ["head", "cat", "verify", "convert", "reshard"])
def test_an_unclear_header_is_an_error_that_names_the_option(cli, tmp_path, command):
    (tmp_path / "a.csv").write_text("a;b,c\n1;2,3\n")
    more = {"convert": ["x.jsonl"], "reshard": ["out", "--shards", "1", "--prefix", "p"]}
    arguments = [command, "a.csv", *more.get(command, [])]
    status, _, messages = cli(*arguments)
    assert (status, "--delimiter" in messages) == (2, True)
    assert cli(*arguments, "--delimiter", ";")[0] == 0


def test_latin_1_is_read_when_it_is_said(cli, tmp_path):
    (tmp_path / "a.csv").write_bytes("a,b\n1,é\n".encode("latin-1"))
    assert cli("convert", "a.csv", "x.jsonl")[0] == 3
    assert cli("convert", "a.csv", "x.jsonl", "--encoding", "latin-1")[0] == 0
    assert (tmp_path / "x.jsonl").read_text() == '{"a": "1", "b": "é"}\n'


def test_a_tar_of_webdataset_goes_in_and_out(cli, tmp_path):
    (tmp_path / "a.csv").write_text("key,cls,txt\na/1,7,x\na/2,8,y\n")
    kinds = {"key": "str", "cls": "int64", "txt": "str"}
    fields = [{"name": name, "dtype": dtype} for name, dtype in kinds.items()]
    (tmp_path / "s.json").write_text(json.dumps(fields))
    assert cli("convert", "a.csv", "a.tar", "--schema", "s.json")[0] == 0
    with tarfile.open(tmp_path / "a.tar") as tar:
        assert tar.getnames() == ["a/1.cls", "a/1.txt", "a/2.cls", "a/2.txt"]
    assert cli("convert", "a.tar", "b.csv")[0] == 0
    assert (tmp_path / "b.csv").read_text() == (tmp_path / "a.csv").read_text()
    assert cli("reshard", "a.tar", "out", "--shards", "2", "--prefix", "p")[0] == 0
    assert cli("verify", "a.tar", "--deep")[0] == 0
    (tmp_path / "a.tar").write_bytes((tmp_path / "a.tar").read_bytes()[:700])
    status, output, messages = cli("verify", "a.tar")
    assert (status, "the tar ends early" in output, "repair" in messages) == (3, True, False)


def test_columns_of_csv_take_the_names_of_fields(cli, tmp_path):
    (tmp_path / "a.csv").write_text("User Id;Zeit (s),ok\n1;2.5\n3;4.5\n")
    fields = [{"name": "user", "dtype": "int64"}, {"name": "seconds", "dtype": "float32"}]
    (tmp_path / "s.json").write_text(json.dumps(fields))
    asked = ("--schema", "s.json", "--rename", "User Id=user")
    status, _, messages = cli("convert", "a.csv", "a.jsonl", *asked, "--delimiter", ";")
    assert (status, "Zeit (s),ok" in messages) == (3, True)
    asked = (*asked, "--rename", "Zeit (s),ok=seconds")
    # The names of the schema tell which of two characters separates the cells.
    assert cli("convert", "a.csv", "a.jsonl", *asked)[0] == 0
    rows = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert rows == [{"user": 1, "seconds": 2.5}, {"user": 3, "seconds": 4.5}]
    for wrong in ("none=a", "User Id", "ok=user"):
        assert cli("convert", "a.csv", "b.jsonl", "--rename", wrong)[0] == 2
    assert cli("convert", "a.csv", "b.jsonl", "--rename", "User Id=Zeit (s),ok")[0] != 0
    assert cli("convert", "a.jsonl", "b.csv", "--rename", "user=id")[0] == 2
    assert not (tmp_path / "b.jsonl").exists()


def test_images_of_hugging_face_have_a_way_in(cli, tmp_path):
    rows = {"image": [{"bytes": b"x", "path": "a"}], "tags": [["é"]]}
    pq.write_table(pa.table(rows), tmp_path / "images.parquet")
    status, _, messages = cli("convert", "images.parquet", "x.jsonl")
    assert (status, "--flatten image" in messages) == (2, True)
    asked = ("--flatten", "image", "--json-columns", "tags")
    assert cli("convert", "images.parquet", "x.jsonl", *asked)[0] == 0
    assert json.loads((tmp_path / "x.jsonl").read_text()) == {
        "image.bytes": "eA==",
        "image.path": "a",
        "tags": '["é"]',
    }
    arguments = ("reshard", "images.parquet", "out", "--shards", "1", "--prefix", "p")
    assert cli(*arguments, *asked)[0] == 0


def test_arrays_of_numpy_go_in_and_out(cli, tmp_path):
    np.savez(tmp_path / "a.npz", x=np.arange(6.0).reshape(3, 2), label=np.arange(3))
    assert cli("convert", "a.npz", "a.recordio")[0] == 0
    assert cli("convert", "a.recordio", "b.npz")[0] == 0
    with np.load(tmp_path / "b.npz") as archive:
        assert {name: archive[name].tolist() for name in archive} == {
            "x": [[0, 1], [2, 3], [4, 5]],
            "label": [0, 1, 2],
        }
    assert cli("stats", "a.npz")[0] == cli("head", "a.npz")[0] == cli("inspect", "a.npz")[0] == 0
    np.save(tmp_path / "o.npy", np.array([{}]), allow_pickle=True)
    status, _, messages = cli("convert", "o.npy", "o.recordio")
    assert (status, "need no pickle" in messages) == (3, True)


def test_a_schema_is_drafted_and_converts_the_file(cli, tmp_path):
    (tmp_path / "a.csv").write_text("User Id,score\n1,0.5\n2,\\N\n")
    status, output, messages = cli("schema", "a.csv")
    assert (status, messages) == (0, "")
    assert output == (
        "  # A draft from all 2 records of a.csv (CSV).\n"
        '  user_id: {dtype: int64}                    # "User Id" in the file\n'
        "  score:   {dtype: float64, optional: true}  # 1 of 2 records lack it\n"
    )
    draft = json.loads(cli("schema", "a.csv", "--json")[1])
    (tmp_path / "s.json").write_text(json.dumps(draft["schema"]))
    asked = ("--schema", "s.json", "--rename", "User Id=user_id")
    assert cli("convert", "a.csv", "a.jsonl", *asked)[0] == 0
    rows = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert rows == [{"user_id": 1, "score": 0.5}, {"user_id": 2, "score": None}]


def test_a_draft_says_how_many_records_were_seen_and_what_was_left_out(cli, tmp_path):
    lines = [json.dumps({"a": n, "who": {"first": "x"}}) for n in range(5)]
    (tmp_path / "a.jsonl").write_text("\n".join([*lines, "\x1b[31mbroken"]) + "\n")
    status, output, _ = cli("schema", "a.jsonl", "--rows", "3")
    assert status == 0
    assert "A draft from the first 3 records of a.jsonl (JSON lines); there are more" in output
    assert "  # who: left out: a sample cannot hold struct<first: string>" in output
    seen = json.loads(cli("schema", "a.jsonl", "--json")[1])
    assert (seen["records"], seen["all"], seen["unread"]) == (5, True, {"not JSON": 1})
    assert [each["name"] for each in seen["columns"]] == ["a", "who"]
    assert [each["name"] for each in seen["schema"]] == ["a"]
    assert cli("schema", "a.jsonl", "--rows", "0")[0] == 2
    (tmp_path / "b.jsonl").write_text('{"who": {"\\u001b[31m": 1}}\n')
    status, output, _ = cli("schema", "b.jsonl")
    assert (status, "\x1b" in output) == (1, False)
