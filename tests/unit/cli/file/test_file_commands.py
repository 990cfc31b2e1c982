"""``trainfeed file …``: output, exit status, and hostile files."""

from __future__ import annotations

import contextlib
import json
import re

import numpy as np
import pytest

from trainfeed.cli import main
from trainfeed.conversion import convert
from trainfeed.recordio import RecordScanner, RecordWriter
from trainfeed.samples import Field, Schema
from trainfeed.tfrecord import TFRecordReader, TFRecordWriter

SCHEMA = Schema(
    (
        Field("x", "float32", (3,)),
        Field("label", "int64"),
        Field("note", "str", (), optional=True),
        Field("raw", "bytes"),
    )
)
# Colours, a cleared screen, a title, markup of rich, HTML, and text that runs backwards.
HOSTILE = "\x1b[31m\x1b[2J\x1b]0;owned\x07[red]x[/red]<script>alert(1)</script>\u202e\x9b31m\x7f"
FORBIDDEN = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]")


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


@pytest.fixture
def shards(tmp_path):
    """A set of three shards of typed samples."""

    def reader():
        for n in range(60):
            yield {
                "x": [n, 0.1, -n],
                "label": n % 7,
                "note": None if n % 3 else HOSTILE,
                "raw": b"\x1b[31m" * (n % 4),
            }

    convert(tmp_path / "set", reader, 3, "p", schema=SCHEMA, seed=1)
    return tmp_path / "set"


def loads(result):
    status, output, _ = result
    assert status == 0
    return json.loads(output)


def damage(path):
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def test_inspect_shows_what_files_are(cli, shards):
    accounts = loads(cli("inspect", "set", "--json"))
    assert [each["records"] for each in accounts] == [20, 20, 20]
    assert accounts[0]["schema"] == SCHEMA.to_json()
    assert accounts[0]["codecs"] == {"none": 1}
    status, output, _ = cli("inspect", "set/p-*")
    assert status == 0
    assert "p-00002-of-00002" in output
    (shards / "p-00001-of-00002").write_bytes(b"noise")
    status, output, _ = cli("inspect", "set/p-*", "--json")
    assert status == 3
    assert ["problem" in each for each in json.loads(output)] == [False, True, False]


def test_inspect_knows_the_other_formats(cli, shards):
    for suffix in ("tfrecord", "parquet", "arrow"):
        cli("convert", "set/p-00000-of-00002", f"a.{suffix}")
        (account,) = loads(cli("inspect", f"a.{suffix}", "--json"))
        assert (account["format"], account["records"]) == (suffix, 20)


def test_head_shows_typed_samples(cli, shards):
    status, output, _ = cli("head", "set/p-00000-of-00002", "-n", 2)
    assert status == 0
    assert output.count("#") == 2
    assert re.search(r"x  float32 \(3\) \[\d+\.0 0\.1 -\d+\.0\]", output)
    values = loads(cli("head", "set/p-00000-of-00002", "-n", 2, "--json"))
    assert [list(each) for each in values] == [["x", "label", "note", "raw"]] * 2


def test_head_goes_on_with_the_next_file(cli, shards):
    values = loads(cli("head", "set", "-n", 25, "--json"))
    assert values[:20] == loads(cli("head", "set/p-00000-of-00002", "-n", 20, "--json"))
    assert values[20:] == loads(cli("head", "set/p-00001-of-00002", "-n", 5, "--json"))


def test_head_shows_records_and_values(cli, tmp_path):
    with RecordWriter(tmp_path / "r") as writer:
        writer.write(b"\x00\xff" * 100)
    assert "200 bytes" in cli("head", "r")[1]
    convert(tmp_path / "v", lambda: [(1, "x", np.arange(100))], 1, "v")
    output = cli("head", "v/v-00000-of-00000")[1]
    assert "int64 (100) [0 1 2 3 4 5 6 7 …]" in output


@pytest.mark.parametrize(
    "command",
    [
        ("head", "set/p-00000-of-00002", "-n", "60"),
        ("head", "set/p-00000-of-00002", "-n", "60", "--json"),
        ("cat", "set"),
        ("inspect", "set"),
        ("stats", "set"),
        ("verify", "set"),
    ],
    ids=" ".join,
)
def test_no_byte_of_a_file_reaches_the_terminal_as_it_is(cli, shards, command):
    status, output, messages = cli(*command)
    assert status == 0
    assert not FORBIDDEN.search(output + messages)


def test_hostile_values_and_names_are_spelt_out(cli, tmp_path):
    convert(tmp_path / "v", lambda: [HOSTILE, {HOSTILE: HOSTILE}, [HOSTILE]], 1, "v")
    _, output, _ = cli("head", "v/v-00000-of-00000")
    assert not FORBIDDEN.search(output)
    assert "[red]x[/red]" in output
    (tmp_path / "a.csv").write_text(f'"{HOSTILE}"\n1,2\n')
    status, output, messages = cli("cat", "a.csv")
    assert status == 3
    assert not FORBIDDEN.search(output + messages)


def test_cat_prints_a_line_per_sample(cli, shards):
    status, output, _ = cli("cat", "set")
    samples = [json.loads(line) for line in output.splitlines()]
    assert (status, len(samples)) == (0, 60)
    assert sorted(sample["x"][0] for sample in samples) == list(range(60))
    assert {sample["note"] for sample in samples} == {None, HOSTILE}


def test_verify_finds_damage_and_what_is_missing(cli, shards):
    assert cli("verify", "set")[0] == cli("verify", "set", "--deep")[0] == 0
    damage(shards / "p-00001-of-00002")
    # Headers and sizes are as they were.
    assert cli("verify", "set")[0] == 0
    for target in ("set", "set/p-*"):
        status, output, messages = cli("verify", target, "--deep")
        assert status == 3
        assert "p-00001-of-00002" in output
        assert "repair" in messages
    (shards / "p-00002-of-00002").unlink()
    status, output, _ = cli("verify", "set", "--json")
    assert status == 3
    assert json.loads(output)[str(shards.relative_to(shards.parent))] == [
        "p-00002-of-00002: missing"
    ]


def test_the_remedy_names_the_program_as_it_was_called(cli, torn, monkeypatch):
    monkeypatch.setattr("trainfeed.cli.file_contents.program", lambda: "python -m trainfeed")
    _, _, messages = cli("verify", "a", "--deep")
    remedy = "keep what is whole: python -m trainfeed file repair FILE --output NEW\n"
    assert remedy in messages


def test_verify_decodes_samples_when_it_goes_deep(cli, tmp_path):
    with RecordWriter(tmp_path / "a") as writer:
        writer.write(b"short")
    (tmp_path / "s.json").write_text(json.dumps(SCHEMA.to_json()))
    assert cli("verify", "a", "--schema", "s.json")[0] == 0
    assert cli("verify", "a", "--schema", "s.json", "--deep")[0] == 3


@pytest.fixture
def torn(tmp_path):
    """A file of three chunks, the second one damaged."""
    with RecordWriter(tmp_path / "a", max_chunk_bytes=20, quantum_records=1) as writer:
        for n in range(6):
            writer.write(b"%010d" % n)
    data = bytearray((tmp_path / "a").read_bytes())
    data[writer.chunks[1].offset_bytes + 25] ^= 1
    (tmp_path / "a").write_bytes(data)
    return tmp_path / "a"


def test_repair_writes_a_new_file_and_says_what_it_dropped(cli, torn):
    before = torn.read_bytes()
    report = loads(cli("repair", "a", "--output", "b", "--json"))
    assert (report["records"], report["chunks"]) == (4, 2)
    (dropped,) = report["dropped"]
    assert dropped["records"] == 2
    assert torn.read_bytes() == before
    assert [int(r) for r in RecordScanner(["b"])] == [0, 1, 4, 5]
    assert cli("repair", "a", "--output", "b")[0] == 1
    assert "nothing was dropped" in cli("repair", "b", "--output", "c")[1]


def test_repair_keeps_what_is_whole_behind_the_damage_of_a_tfrecord_file(cli, tmp_path):
    with TFRecordWriter(tmp_path / "a.tfrecord") as writer:
        for n in range(6):
            writer.write(b"%010d" % n)
    data = bytearray((tmp_path / "a.tfrecord").read_bytes())
    data[26 * 2 + 15] ^= 1
    (tmp_path / "a.tfrecord").write_bytes(data)
    report = loads(cli("repair", "a.tfrecord", "--output", "b.tfrecord", "--json"))
    assert report["records"] == 5
    (dropped,) = report["dropped"]
    assert (dropped["start_bytes"], dropped["end_bytes"], dropped["records"]) == (52, 78, 1)
    assert [int(r) for r in TFRecordReader(["b.tfrecord"])] == [0, 1, 3, 4, 5]


def test_repair_replaces_a_file_only_if_asked(cli, torn):
    assert cli("repair", "a")[0] == cli("repair", "a", "--output", "b", "--in-place")[0] == 2
    assert cli("repair", "a", "--in-place")[0] == 0
    assert [int(r) for r in RecordScanner([torn])] == [0, 1, 4, 5]
    assert [path.name for path in torn.parent.iterdir()] == ["a"]


def test_convert_takes_the_format_from_the_name_or_an_option(cli, shards):
    report = loads(cli("convert", "set/p-00000-of-00002", "a.parquet", "--json"))
    assert report["samples"] == 20
    loads(cli("convert", "a.parquet", "b", "--to", "recordio", "--codec", "zstd", "--json"))
    assert loads(cli("inspect", "b", "--json"))[0]["codecs"] == {"zstd": 1}
    assert cli("convert", "a.parquet", "c")[0] == 2
    assert cli("convert", "a.parquet", "c", "--to", "tar")[0] == 2
    assert cli("convert", "a.parquet", "b", "--to", "csv")[0] == 1


def test_convert_reads_lines_of_libsvm_only_when_told_where_indices_start(cli, tmp_path):
    (tmp_path / "a.svm").write_text("1 1:0.5 3:2\n0 2:1\n")
    assert cli("convert", "a.svm", "a.tfrecord")[0] == 2
    assert cli("convert", "a.svm", "a.tfrecord", "--num-features", 3)[0] == 2
    assert loads(cli("convert", "a.svm", "a.tfrecord", "--index-base", 1, "--json"))["samples"] == 2
    samples = loads(cli("head", "a.tfrecord", "--json"))
    assert [sample["indices"] for sample in samples] == [[0, 2], [1]]
    assert [sample["shape"] for sample in samples] == [[3], [3]]


@pytest.mark.parametrize(
    ("line", "option"),
    [
        ("1.0 1:0.5", ["--label-dtype", "float64"]),
        ("0.25 1:0.5", ["--label-dtype", "float32"]),
        ("1 1:123456.789", ["--value-dtype", "float64"]),
        ("1 1:123456.789", ["--round-values"]),
    ],
)
def test_what_a_refused_line_of_libsvm_advises_is_an_option(cli, tmp_path, line, option):
    (tmp_path / "a.svm").write_text(f"{line}\n")
    status, *printed = cli("convert", "a.svm", "a.jsonl", "--index-base", 1)
    assert status == 3
    assert option[0] in str(printed)
    for command in (
        ["convert", "a.svm", "a.jsonl"],
        ["reshard", "a.svm", "set", "--shards", 1, "--prefix", "p"],
    ):
        assert cli(*command, "--index-base", 1, *option)[0] == 0
    assert cli("convert", "a.svm", "b.jsonl", *option)[0] == 2, "without the first index"


def test_merge_and_reshard_keep_every_record(cli, shards):
    report = loads(cli("reshard", "set", "new", "--shards", 5, "--prefix", "q", "--json"))
    assert (report["shards"], report["samples"]) == (5, 60)
    assert loads(cli("merge", "new/q-*", "all", "--json"))["records"] == 60
    assert sorted(RecordScanner(["all"])) == sorted(RecordScanner(["set/p-*"]))
    again = loads(cli("reshard", "set", "again", "--shards", 5, "--prefix", "q", "--json"))
    assert again == {**report, "folder": "again"}
    for i in range(5):
        name = f"q-{i:05d}-of-00004"
        assert (shards.parent / "new" / name).read_bytes() == (
            shards.parent / "again" / name
        ).read_bytes()
    assert cli("reshard", "set", "x", "--shards", 0, "--prefix", "q")[0] == 2
    assert cli("reshard", "set", "x", "--shards", 1, "--prefix", "a/b")[0] == 2


def test_index_says_where_chunks_and_records_are(cli, shards):
    (chunk,) = loads(cli("index", "set/p-00000-of-00002"))["chunks"]
    assert (chunk["offset_bytes"], chunk["records"]) == (0, 20)
    cli("convert", "set/p-00000-of-00002", "a.tfrecord")
    assert cli("index", "a.tfrecord", "--output", "i.json")[0] == 0
    assert len(json.loads((shards.parent / "i.json").read_text())["records"]) == 20
    assert cli("index", "a.tfrecord", "--output", "i.json")[0] == 1
    cli("convert", "set/p-00000-of-00002", "a.csv")
    assert cli("index", "a.csv")[0] == 2


def test_stats_counts_every_field(cli, shards):
    result = loads(cli("stats", "set", "--json"))
    assert (result["label"]["count"], result["label"]["max"]) == (60, 6)
    assert result["note"]["nulls"] == 40
    assert "float32 (3)" in cli("stats", "set")[1]


def test_a_page_of_plots_stands_alone_and_obeys_no_text_of_a_file(cli, shards, tmp_path):
    (tmp_path / "set").rename(tmp_path / "<img src=x>")
    assert cli("stats", "<img src=x>", "--html", "a.html")[0] == 0
    page = (tmp_path / "a.html").read_text()
    assert page.count("<svg") == 4
    assert "<script" not in page
    assert "<img" not in page
    assert not re.search(r"""(src|href)\s*=|url\(|@import|https?:""", page)
    assert "default-src 'none'" in page
    assert cli("stats", "<img src=x>", "--html", "a.html")[0] == 1


def test_a_plot_tells_apart_what_the_histogram_of_the_statistics_has_in_one_bin(cli, tmp_path):
    """All seconds of a day are in one bin of an eighth of a power of two; texts have no bins."""
    schema = Schema((Field("second", "int64"), Field("text", "str")))
    samples = [{"second": 1_356_998_400 + 450 * i, "text": "x" * i} for i in range(192)]
    convert(tmp_path / "day", lambda: iter(samples), 1, "p", schema=schema)
    found = loads(cli("stats", "day", "--json", "--html", "a.html"))
    assert len(found["second"]["histogram"]) == 1
    assert "histogram" not in found["text"]
    plots = re.findall(r"<svg.*?</svg>", (tmp_path / "a.html").read_text())
    assert [plot.count("<rect") for plot in plots] == [32, 32]


def test_a_picture_has_a_plot_per_field(cli, shards, tmp_path):
    assert cli("stats", "set", "--png", "a.png")[0] == 0
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_without_matplotlib_the_error_says_what_to_install(cli, shards, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    status, _, messages = cli("stats", "set", "--png", "a.png")
    assert status == 2
    assert "trainfeed[plots]" in messages


def test_plots_of_odd_values_do_not_fail(cli, tmp_path):
    schema = Schema((Field("x", "float64"), Field("n", "int64"), Field("m", "float32", (), True)))
    odd = [np.nan, np.inf, 1.7e308, -1.7e308, 5e-324]
    convert(
        tmp_path / "odd",
        lambda: [{"x": x, "n": (1 << 62) + i, "m": None} for i, x in enumerate(odd)],
        1,
        "p",
        schema=schema,
    )
    convert(tmp_path / "none", list, 1, "p", schema=schema)
    for name in ("odd", "none"):
        assert cli("stats", name, "--html", f"{name}.html")[0] == 0


def test_the_status_tells_usage_from_failure_and_damage(cli, shards, tmp_path):
    assert cli("head", "gone")[0] == 1
    assert cli("head", "set/p-00000-of-00002", "--format", "tar")[0] == 2
    assert cli("head")[0] == 2
    assert cli("nonsense")[0] == 2
    (tmp_path / "noise").write_bytes(b"noise")
    assert cli("head", "noise")[0] == 3
    assert cli("index", "set")[0] == 3


def test_verify_lists_every_shard_that_is_missing(cli, shards):
    for path in shards.glob("p-0*"):
        path.unlink()
    status, output, _ = cli("verify", "set", "--json")
    assert status == 3
    assert json.loads(output) == {"set": [f"p-0000{n}-of-00002: missing" for n in range(3)]}


def test_verify_keeps_the_problems_of_every_set_of_a_folder(cli, shards):
    convert(shards, lambda: [1], 1, "q")
    for path in [*shards.glob("p-00000-*"), *shards.glob("q-*")]:
        path.unlink()
    status, output, _ = cli("verify", "set", "--json")
    assert status == 3
    assert json.loads(output)["set"] == ["p-00000-of-00002: missing", "q-00000-of-00000: missing"]


def test_verify_refuses_a_folder_without_a_set(cli, shards):
    (shards.parent / "none").mkdir()
    for folders in (["none"], ["set", "none"]):
        status, output, messages = cli("verify", *folders)
        assert (status, output) == (2, "")
        assert "expected none to be a published version, or to hold one set of shards" in messages


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (("convert", "set/p-00000-of-00002", "a.jsonl"), (0, 0)),
        (("convert", "set/p-00000-of-00002", "a.recordio"), (0, 0)),
        (("merge", "set/p-*", "all.recordio"), (3, 2)),
        (("repair", "set/p-00000-of-00002", "-o", "whole"), None),
    ],
)
def test_long_work_tells_how_far_it_is(cli, shards, monkeypatch, command, told):
    calls = []
    monkeypatch.setattr(
        "trainfeed.cli.new_files.progress",
        lambda _: contextlib.nullcontext(lambda *numbers: calls.append(numbers)),
    )
    assert cli(*command)[0] == 0
    size = (shards / "p-00000-of-00002").stat().st_size
    assert calls[-1] == (told or (size, size))


@pytest.mark.parametrize(
    ("command", "status"),
    [
        ("inspect set/{} --json", 3),
        ("head set/{}", 3),
        ("cat set/p-*", 3),
        ("verify set/{}", 3),
        ("verify set", 3),
        ("convert set/{} rows.jsonl", 3),
        ("merge set/p-* one.recordio", 3),
        ("reshard set/p-* out --shards 2 --prefix q", 3),
        ("reshard set out --shards 2 --prefix q", 3),
        ("index set/{}", 3),
        ("stats set/p-*", 3),
    ],
)
@pytest.mark.parametrize("left", [0, 0.5, 2])
def test_commands_name_a_shard_that_has_not_the_size_of_its_manifest(
    cli, shards, command, status, left
):
    name = "p-00001-of-00002"
    path = shards / name
    content = path.read_bytes()
    path.write_bytes((content * 2)[: int(left * len(content))])
    ended, out, err = cli(*command.format(name).split())
    assert ended == status
    text = (out + err).replace("\n", " ")
    assert name in text
    assert str(len(content)) in text


def test_repair_keeps_what_is_whole_in_a_shard_that_was_cut(cli, shards):
    path = shards / "p-00001-of-00002"
    path.write_bytes(path.read_bytes()[:-3])
    status, _, _ = cli("repair", path, "--output", "whole.recordio")
    assert status == 0
    assert cli("head", "whole.recordio")[0] == 0
