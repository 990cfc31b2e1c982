"""A new data set for real records: what is drafted from them builds at once, and loses none."""

from __future__ import annotations

import gzip
import json
import os
import runpy
import time
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest

from trainfeed.cli import main
from trainfeed.cli.scaffold.from_records import DatedFolder
from trainfeed.core.config import environment_from_environ
from trainfeed.pipeline.local import build
from trainfeed.preprocessing import Record, Reject
from trainfeed.specification import load_spec
from trainfeed.versions import DatasetFolder, Version, init_root

HOUR_AGO = 3600


@pytest.fixture
def cli(monkeypatch, capsys, tmp_path):
    """Run ``trainfeed …`` in a folder of its own; return status, output and messages."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TRAINFEED_LOGS", raising=False)
    monkeypatch.delenv("TRAINFEED_KAFKA", raising=False)
    monkeypatch.setenv("TRAINFEED_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("TRAINFEED_DATASETS", str(tmp_path / "sets"))
    init_root(tmp_path / "data" / "root")

    def run(*arguments):
        monkeypatch.setattr("sys.argv", ["trainfeed", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        return (ended.value.code or 0, *capsys.readouterr())

    return run


def row(number):
    found = {"userId": number % 7, "price": number / 3, "ok": number % 2 == 0, "city": "é"}
    found |= {"v": [number, 1], "words": list(range(number % 3))}
    if number % 50 == 0:
        found["price"] = None
    return found


def write_day(folder, *, first=0, age_s=HOUR_AGO):
    folder.mkdir(parents=True)
    lines = [json.dumps(row(first + number)) for number in range(200)]
    lines += ["{broken", "[]", json.dumps({**row(1), "userId": "x"}), json.dumps({"price": 1})]
    path = folder / "part-0.jsonl.gz"
    path.write_bytes(gzip.compress("\n".join(lines).encode() + b"\n"))
    then = time.time() - age_s
    for each in (path, folder):
        os.utime(each, (then, then))
    return path


def built(name, interval, logs=None):
    env = environment_from_environ(logs=logs)
    spec = load_spec(env.datasets / name)
    build(spec, spec.schedule_model().interval_named(interval), env)
    return Version.resolve(DatasetFolder(Path(env.root), name), interval)


def test_a_folder_of_logs_builds_at_once_and_no_line_is_lost(cli, tmp_path):
    for day in (3, 1, 2):
        path = write_day(tmp_path / "logs" / "hops" / f"dt=2001-01-0{day}", first=day * 1000)
    status, output, _ = cli("new", "hops", "--from", path)
    assert status == 0
    assert "export TRAINFEED_LOGS=/" in output
    assert "trainfeed build hops --interval 2001-01-02 --limit 100" in output
    spec = load_spec(tmp_path / "sets" / "hops")
    assert spec.source.logs.path == f"{tmp_path}/logs/hops/dt={{start:%Y-%m-%d}}"
    assert (spec.schedule, f"{spec.start:%Y-%m-%d}") == ("@daily", "2001-01-01")
    version = built("hops", "2001-01-02", "/")
    manifest = version.manifest
    assert (manifest.num_samples(), manifest.quarantine["records"]) == (201, 3)
    assert manifest.quarantine["reasons"] == {"bad_value": 1, "no_object": 1, "not_json": 1}
    assert [(field.name, str(field), field.optional) for field in version.schema] == [
        ("user_id", "int64", True),
        ("price", "float64", True),
        ("ok", "bool", True),
        ("city", "str", True),
        ("v", "int64 (2)", True),
        ("words", "int64 (n)", True),
    ]


def test_where_the_logs_start_is_left_out_of_the_path(cli, tmp_path, monkeypatch):
    path = write_day(tmp_path / "data" / "logs" / "hops" / "2001" / "01" / "03")
    status, output, _ = cli("new", "hops", "--from", path)
    assert (status, "TRAINFEED_LOGS" in output) == (0, False)
    spec = load_spec(tmp_path / "sets" / "hops")
    assert spec.source.logs.path == "/logs/hops/{start:%Y}/{start:%m}/{start:%d}"
    assert built("hops", "2001-01-03").manifest.num_samples() == 201


def test_a_proposal_says_that_it_is_one_and_what_it_was_made_of(cli, tmp_path):
    cli("new", "hops", "--from", write_day(tmp_path / "dt=2001-01-03"))
    text = (tmp_path / "sets" / "hops" / "dataset.yaml").read_text()
    assert "drafted by `trainfeed new` from 202 records of part-0.jsonl.gz" in text
    assert "# A proposal from these records" in text
    assert "{check: quarantine_ratio, max: 0.05}   # 1.47% of what was seen" in text
    assert '{check: null_ratio, field: "price", max: 0.04, severity: warn}   # 1.98%' in text
    assert '# - {check: range, field: "user_id", min: 0, max: 6}' in text
    assert '"userId" in the file; 1 of 201 values are text, and would be refused' in text


def test_the_marker_of_a_folder_is_the_rule_and_a_fresh_copy_has_a_stopgap(cli, tmp_path):
    marked = write_day(tmp_path / "a" / "dt=2001-01-03")
    (marked.parent / "_SUCCESS").touch()
    cli("new", "marked", "--from", marked)
    assert load_spec(tmp_path / "sets" / "marked").source.logs.marker == "_SUCCESS"
    cli("new", "old", "--from", write_day(tmp_path / "b" / "dt=2001-01-03"))
    assert load_spec(tmp_path / "sets" / "old").source.logs.stable.total_seconds() == 600
    fresh = write_day(tmp_path / "c" / "dt=2001-01-03", age_s=5)
    assert "the logs changed minutes ago" in cli("new", "fresh", "--from", fresh)[1]
    assert load_spec(tmp_path / "sets" / "fresh").source.logs.stable.total_seconds() == 1
    assert built("fresh", "2001-01-03", "/").manifest.num_samples() == 201


def test_the_lines_of_any_other_file_are_recorded(cli, tmp_path):
    (tmp_path / "events.log").write_text(
        "".join(json.dumps(row(number)) + "\n" for number in range(90)) + "broken\n"
    )
    status, output, _ = cli("new", "events", "--from", "events.log", "--json")
    made = json.loads(output)
    assert (status, made["source"], made["records"]) == (0, "recorded", 91)
    samples = quarantined = 0
    for day in (1, 2, 3):
        manifest = built("events", f"2026-01-0{day}").manifest
        samples += manifest.num_samples()
        quarantined += manifest.quarantine["records"]
    assert (samples, quarantined) == (90, 1)


@pytest.mark.parametrize(
    "change",
    [
        {"userId": 1.5}, {"userId": True}, {"userId": 1 << 63}, {"userId": []}, {"price": "x"},
        {"price": True}, {"price": 10**400}, {"ok": 1}, {"city": 1}, {"city": "\ud800"},
        {"v": [1]}, {"v": [1, 2.5]}, {"v": 1}, {"words": ["x"]}, {"words": {"a": 1}},
        {"v": [1, None]},
    ],
)  # fmt: skip
def test_a_value_of_another_type_is_refused_and_stops_no_build(cli, tmp_path, change):
    cli("new", "hops", "--from", write_day(tmp_path / "dt=2001-01-03"))
    module = runpy.run_path(str(tmp_path / "sets" / "hops" / "preprocess.py"))
    make = partial(module["make_sample"], lookups={})
    good = Record(json.dumps(row(1)).encode(), None, 0, (), "s", 0)
    expected = row(1)
    assert make(good) == {"user_id": expected.pop("userId")} | expected
    with pytest.raises(Reject) as refused:
        make(good._replace(value=json.dumps(row(1) | change).encode()))
    assert refused.value.reason == "bad_value"
    assert next(iter(change)) in refused.value.message


CSV = (
    "User Id;name;zip;score;ok;v\n"
    '1;"a;b";00700;0.5;true;[1, 2]\n'
    "2;ü;12345;;False;[3, 4]\n"
    "3;;23456;NA;true;\\N\n"
    "4;x;1\n"
    "x;x;34567;1;true;[1, 2]\n"
)


def test_csv_builds_at_once_and_its_header_is_filtered(cli, tmp_path):
    folder = tmp_path / "logs" / "dt=2001-01-03"
    folder.mkdir(parents=True)
    (folder / "people.csv").write_text(CSV.partition("4;x")[0])
    assert cli("new", "people", "--from", folder / "people.csv")[0] == 0
    (folder / "people.csv").write_text(CSV, newline="\r\n")
    (folder / "more.csv").write_text("\ufeff" + CSV)
    spec = tmp_path / "sets" / "people" / "dataset.yaml"
    spec.write_text(spec.read_text().replace("quarantine_ratio, max: 0.05", "count, max: 99"))
    then = time.time() - HOUR_AGO
    for path in (*folder.iterdir(), folder):
        os.utime(path, (then, then))
    version = built("people", "2001-01-03", "/")
    manifest = version.manifest
    assert manifest.filtered == {"header": 2}
    assert (manifest.num_samples(), manifest.quarantine["reasons"]) == (
        6, {"bad_value": 2, "not_csv": 2}
    )  # fmt: skip
    status, output, _ = cli("head", "people/2001-01-03", "--json", "-n", "9")
    samples = sorted(json.loads(output), key=lambda sample: sample["user_id"])
    assert status == 0
    assert samples[0] == {
        "user_id": 1, "name": "a;b", "zip": "00700", "score": 0.5, "ok": True, "v": [1, 2]
    }  # fmt: skip
    assert samples[-1]["score"] is samples[-1]["v"] is None


def test_a_topic_gives_its_last_records_and_becomes_the_source(cli, tmp_path, monkeypatch):
    cli("new", "clicks")
    sample = tmp_path / "sets" / "clicks" / "sample"
    (tmp_path / "recorded").mkdir()
    sample.rename(tmp_path / "recorded" / "clicks")
    monkeypatch.setenv("TRAINFEED_KAFKA", f"recorded:{tmp_path / 'recorded'}")
    status, output, _ = cli("new", "visits", "--from", "clicks", "--rows", "100")
    assert status == 0, output
    spec = load_spec(tmp_path / "sets" / "visits")
    (topic,) = spec.source.kafka
    assert (topic.topic, topic.connection) == ("clicks", "kafka_default")
    assert list(spec.fields) == ["visitor", "pages", "seconds", "returning", "bought", "bot"]
    manifest = built("visits", "2026-01-03").manifest
    assert manifest.num_samples() + manifest.quarantine["records"] == 200
    status, output, message = cli("new", "other", "--from", "klicks")
    assert (status, output) == (1, "")
    assert "expected a file or a topic, 'klicks' is no file here" in message
    assert not (tmp_path / "sets" / "other").exists()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", '{"a": {"b": 1}}\n', "expected a value that a field can hold"),
        ("a.jsonl", "broken\n", "expected records, got none"),
        ("a.npy", "", "no such file or directory"),
        ("a.parquet", "PAR1", "the file is damaged"),
    ],
)
def test_what_gives_no_data_set_makes_no_folder(cli, tmp_path, name, content, message):
    if content:
        (tmp_path / name).write_text(content)
    status, _, said = cli("new", "bad", "--from", name)
    assert status != 0
    assert message in " ".join(said.split())
    assert not (tmp_path / "sets" / "bad").exists()
    assert cli("new", "bad", "--from", name, "--batch")[0] == 2


def test_files_that_builds_do_not_read_as_lines_are_refused_with_a_way(cli, tmp_path):
    (tmp_path / "a.jsonl").write_text('{"a": 1}\n')
    (tmp_path / "s.json").write_text('[{"name": "a", "dtype": "int64"}]')
    assert cli("file", "convert", "a.jsonl", "a.parquet", "--schema", "s.json")[0] == 0
    status, _, said = cli("new", "bad", "--from", "a.parquet")
    assert (status, "expected JSON lines or CSV" in said) == (2, True)


AT = datetime(2001, 2, 3, tzinfo=UTC)


@pytest.mark.parametrize(
    ("folder", "template", "at"),
    [
        ("/a/dt=2001-02-03", "/a/dt={start:%Y-%m-%d}", AT),
        ("/a/20010203/eu", "/a/{start:%Y%m%d}/eu", AT),
        ("/a/2001/02/03", "/a/{start:%Y}/{start:%m}/{start:%d}", AT),
        (
            "/a/year=2001/month=02/day=03/hour=04",
            "/a/year={start:%Y}/month={start:%m}/day={start:%d}/hour={start:%H}",
            AT.replace(hour=4),
        ),
        ("/a/2001-02-03T04", "/a/{start:%Y-%m-%dT%H}", AT.replace(hour=4)),
        ("/a/dt=2001-02-03/04", "/a/dt={start:%Y-%m-%d}/{start:%H}", AT.replace(hour=4)),
        ("/1999-01-01/dt=2001-02-03", "/1999-01-01/dt={start:%Y-%m-%d}", AT),
        ("/a/2001-13-03", None, None),
        ("/a/120010203", None, None),
        ("/a/b", None, None),
    ],
)
def test_a_date_in_a_path_is_the_time_of_an_interval(folder, template, at):
    found = DatedFolder.of(Path(folder))
    assert (found and found.template, found and found.at) == (template, at)


def test_the_first_folder_of_the_same_form_is_the_start(tmp_path):
    for name in (
        "dt=2001-02-03",
        "dt=2001-01-31",
        "x=2000-01-01",
        "dt=2001-02-03T04",
        "dt=1999-99-01",
    ):
        (tmp_path / name).mkdir()
    found = DatedFolder.of(tmp_path / "dt=2001-02-03")
    assert (found.start, found.interval, found.schedule) == ("2001-01-31", "2001-02-03", "@daily")
    hourly = DatedFolder.of(tmp_path / "dt=2001-02-03T04")
    assert (hourly.start, hourly.interval) == ("2001-02-03T04:00:00Z", "2001-02-03T04")
