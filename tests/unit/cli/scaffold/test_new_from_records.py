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

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from tests.support.avro_files import container
from tests.unit.pipeline.clicks import START_MS
from tests.unit.pipeline.inputs.avro_clicks import NEW, OLD, FakeRegistry, framed
from trainfeed.cli import main
from trainfeed.cli.scaffold import framed_topics
from trainfeed.cli.scaffold.folder import TimedLine, record_lines
from trainfeed.cli.scaffold.from_records import DatedFolder
from trainfeed.core.config import environment_from_environ
from trainfeed.errors import LogsMissingError
from trainfeed.pipeline.inputs import registries
from trainfeed.pipeline.local import build
from trainfeed.preprocessing import Record, Reject
from trainfeed.readers import open_dataset
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


def test_the_marker_of_a_folder_is_the_rule_and_a_fresh_copy_has_to_wait(cli, tmp_path):
    marked = write_day(tmp_path / "a" / "dt=2001-01-03")
    (marked.parent / "_SUCCESS").touch()
    cli("new", "marked", "--from", marked)
    assert load_spec(tmp_path / "sets" / "marked").source.logs.marker == "_SUCCESS"
    cli("new", "old", "--from", write_day(tmp_path / "b" / "dt=2001-01-03"))
    assert load_spec(tmp_path / "sets" / "old").source.logs.stable.total_seconds() == 600
    fresh = write_day(tmp_path / "c" / "dt=2001-01-03", age_s=5)
    output = cli("new", "fresh", "--from", fresh)[1]
    # The specification is one for nightly runs; the way to look at a copy is a hint.
    assert load_spec(tmp_path / "sets" / "fresh").source.logs.stable.total_seconds() == 600
    with pytest.raises(LogsMissingError):
        built("fresh", "2001-01-03", "/")
    spec = tmp_path / "sets" / "fresh" / "dataset.yaml"
    assert f"Of a copy that is whole: stable: 1s in {spec}" in " ".join(output.split())
    spec.write_text(spec.read_text().replace("stable: 10m", "stable: 1s"))
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
        ("a.parquet", "PAR1", "expected a file of parquet that is whole"),
        ("a.avro", "Obj\x01", "expected a file of avro that is whole"),
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


def test_files_that_builds_do_not_read_are_refused_with_a_way(cli, tmp_path):
    np.save(tmp_path / "a.npy", np.zeros(3))
    status, _, said = cli("new", "bad", "--from", "a.npy")
    assert (status, "expected JSON lines, CSV, Parquet" in said) == (2, True)


def rides(count, first=0):
    numbers = range(first, first + count)
    moments = pa.array([number * 1_000_000 + 5 for number in numbers], pa.int64())
    return pa.table(
        {
            "rideId": pa.array(numbers, pa.int32()),
            "fare": pa.array([None if n % 10 == 3 else n / 2 for n in numbers], pa.float64()),
            "at": moments.cast(pa.timestamp("us", "UTC")),
            "day": pa.array(numbers, pa.int32()).cast(pa.date32()),
            "name": ["é" * (number % 3) for number in numbers],
            "photo": [b"x" * (number % 4) for number in numbers],
            "place": pa.array([[0.5, number] for number in numbers], pa.list_(pa.float32())),
            "nested": [{"a": number} for number in numbers],
        }
    )


def samples_of(tmp_path, name):
    for split in ("train", "eval"):
        root = tmp_path / "data" / "root"
        yield from open_dataset(name, interval="2001-01-03", split=split, root=root).reader()()


def write_table(table, path):
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=30)
    elif path.suffix == ".orc":
        orc.write_table(table, path)
    else:
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table)
    then = time.time() - HOUR_AGO
    for each in (path, path.parent):
        os.utime(each, (then, then))
    return path


@pytest.mark.parametrize("suffix", ["parquet", "orc", "arrow"])
def test_rows_of_a_file_build_at_once_with_the_types_of_the_file(cli, tmp_path, suffix):
    folder = tmp_path / "logs" / "rides"
    path = write_table(rides(120), folder / "dt=2001-01-03" / f"part-0.{suffix}")
    status, output, _ = cli("new", "rides", "--from", path)
    assert (status, "left out, for the reasons in dataset.yaml: nested" in output) == (0, True)
    logs = load_spec(tmp_path / "sets" / "rides").source.logs
    assert (logs.format, logs.columns) == (
        suffix, ("rideId", "fare", "at", "day", "name", "photo", "place")
    )  # fmt: skip
    assert logs.bytes_per_record == path.stat().st_size // 120
    version = built("rides", "2001-01-03", "/")
    assert (version.manifest.num_samples(), version.manifest.quarantine["records"]) == (120, 0)
    assert [(field.name, str(field), field.optional) for field in version.schema] == [
        ("ride_id", "int32", False),
        ("fare", "float64", True),
        ("at", "int64", False),
        ("day", "int32", False),
        ("name", "str", False),
        ("photo", "bytes", False),
        ("place", "float32 (2)", False),
    ]
    sample = next(each for each in samples_of(tmp_path, "rides") if each["ride_id"] == 77)
    assert (sample["at"], sample["day"], sample["fare"]) == (77_000_005, 77, 38.5)
    assert sample["place"].tolist() == [0.5, 77.0]


def test_rows_of_avro_and_times_of_day_build_as_well(cli, tmp_path):
    schema = {"type": "record", "name": "Row", "fields": [
        {"name": "n", "type": ["null", "long"]},
        {"name": "clock", "type": {"type": "long", "logicalType": "time-micros"}},
    ]}  # fmt: skip
    rows = [{"n": n if n % 4 else None, "clock": n * 1_000_001} for n in range(1, 41)]
    path = tmp_path / "logs" / "20010103" / "rows"
    path.parent.mkdir(parents=True)
    path.write_bytes(container(schema, rows, 16))
    then = time.time() - HOUR_AGO
    for each in (path, path.parent):
        os.utime(each, (then, then))
    assert cli("new", "rows", "--from", path)[0] == 0
    text = (tmp_path / "sets" / "rows" / "dataset.yaml").read_text()
    assert '{check: null_ratio, field: "n", max: 0.5, severity: warn}   # 25.00%' in text
    manifest = built("rows", "2001-01-03", "/").manifest
    assert (manifest.num_samples(), manifest.quarantine["records"]) == (40, 0)
    assert sum(sample["clock"] for sample in samples_of(tmp_path, "rows")) == sum(
        row["clock"] for row in rows
    )


def test_rows_in_no_folder_with_a_date_are_refused_with_the_way(cli, tmp_path):
    path = write_table(rides(10), tmp_path / "rides.parquet")
    status, _, said = cli("new", "rides", "--from", path)
    assert (status, "expected a folder with a date in its path" in said) == (2, True)
    assert not (tmp_path / "sets" / "rides").exists()


def test_a_topic_behind_a_registry_gets_its_newest_schema(cli, tmp_path, monkeypatch):
    page = {"name": "page", "type": "string", "default": "none"}
    new = {**NEW, "fields": [page, *NEW["fields"][1:]]}
    registry = FakeRegistry()
    registry.known |= {1: OLD, 4: new}
    for module in (framed_topics, registries):
        monkeypatch.setattr(module, "SchemaRegistry", registry)
    monkeypatch.setenv("TRAINFEED_REGISTRY", "http://registry")
    lines = [TimedLine(START_MS, b"broken")]
    for number in range(60):
        row = {"value": number / 2, "copies": number, "page": "p"}
        value = framed(new, 4, row) if number % 2 else framed(OLD, 1, row)
        lines.append(TimedLine(START_MS + number, value))
    (tmp_path / "recorded").mkdir()
    record_lines(tmp_path / "recorded" / "clicks", "clicks", lines)
    monkeypatch.setenv("TRAINFEED_KAFKA", f"recorded:{tmp_path / 'recorded'}")
    status, output, said = cli("new", "visits", "--from", "clicks")
    assert status == 0, output + said
    folder = tmp_path / "sets" / "visits"
    spec = load_spec(folder)
    (topic,) = spec.source.kafka
    assert (topic.value.format, topic.value.reader_schema) == ("avro", "value.avsc")
    assert json.loads((folder / "value.avsc").read_text()) == new
    assert {name: field.dtype for name, field in spec.fields.items()} == {
        "page": "str", "value": "float64", "copies": "int32"
    }  # fmt: skip
    assert "1.64% of what was seen" in (folder / "dataset.yaml").read_text()
    manifest = built("visits", "2024-03-01").manifest
    assert (manifest.num_samples(), manifest.quarantine["reasons"]) == (60, {"no_schema_id": 1})


def test_a_topic_whose_schemas_the_registry_lacks_is_refused(cli, tmp_path, monkeypatch):
    monkeypatch.setattr(framed_topics, "SchemaRegistry", FakeRegistry())
    (tmp_path / "recorded").mkdir()
    lines = [TimedLine(START_MS, framed(OLD, 1, {"value": 1.0, "copies": 1}))]
    record_lines(tmp_path / "recorded" / "clicks", "clicks", lines)
    monkeypatch.setenv("TRAINFEED_KAFKA", f"recorded:{tmp_path / 'recorded'}")
    monkeypatch.delenv("TRAINFEED_REGISTRY", raising=False)
    assert "set TRAINFEED_REGISTRY" in cli("new", "visits", "--from", "clicks")[2]
    monkeypatch.setenv("TRAINFEED_REGISTRY", "http://registry")
    status, _, said = cli("new", "visits", "--from", "clicks")
    assert (status, "expected a schema of its values" in said) == (2, True)
    assert not (tmp_path / "sets" / "visits").exists()


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
