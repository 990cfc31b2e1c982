"""Ranges on the command line: intervals that are built, listed, verified, or missing."""

import json
import logging
import os
import shutil
import signal
import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest

from tests.unit.cli.conftest import cli
from tests.unit.processes import LIMIT_S, until
from trainfeed.readers import open_dataset

__all__ = ["cli"]

ROOT = Path(__file__).parents[4]


@pytest.fixture
def built(project):
    for name in ("2024-03-01", "2024-03-03"):
        project.prebuilt(name)
    return project


def test_a_range_is_built_some_at_once_and_one_table_says_what_came_of_each(cli, project):
    status, output, message = cli("build", "clicks/2024-03-01/2024-03-03", "--jobs", "2")
    assert (status, message) == (0, "")
    lines = [line for line in output.splitlines() if line.startswith("│")]
    assert [line.split("│")[1].strip() for line in lines] == [
        "2024-03-01",
        "2024-03-02",
        "2024-03-03",
    ]
    assert all("built" in line and "g0001" in line for line in lines)
    status, output, _ = cli("build", "clicks", "--interval", "2024-03-01/2024-03-03", "--json")
    reports = json.loads(output)
    assert (status, [report["verdict"] for report in reports]) == (0, ["identical"] * 3)
    assert [report["content_digest"] for report in reports] == [
        project.version(f"2024-03-0{d}").manifest.content_digest for d in (1, 2, 3)
    ]


def test_an_interval_that_fails_leaves_the_others_alone(cli, project):
    fail = (
        "row = record.json()\n    if record.timestamp_ms // 86_400_000 == 19784: raise OSError(7)"
    )
    project.edit("row = record.json()", fail, "preprocess.py")
    status, output, message = cli("build", "clicks/2024-03-01/2024-03-03", "--json")
    reports = json.loads(output)
    assert status == 1
    assert [report["status"] for report in reports] == [0, 1, 0]
    assert reports[1]["error"]["kind"] == "PreprocessError"
    assert "raised OSError: 7" in reports[1]["error"]["message"]
    assert "clicks/2024-03-02: PreprocessError: " in message
    assert message.splitlines()[-1].startswith("1 of 3 intervals are not built; run again")
    assert project.folder.intervals()[0] == "2024-03-01"


def test_the_class_of_an_error_is_not_read_from_what_a_function_prints(cli, project):
    noisy = (
        "row = record.json()\n"
        "    print('DataError: row 17', file=__import__('sys').stderr, flush=True)\n"
        "    if record.timestamp_ms // 86_400_000 == 19784: raise OSError(7)"
    )
    project.edit("row = record.json()", noisy, "preprocess.py")
    _, output, _ = cli("build", "clicks/2024-03-01/2024-03-02", "--json")
    error = json.loads(output)[1]["error"]
    assert error["kind"] == "PreprocessError"
    assert "raised OSError: 7" in error["message"]
    assert "row 17" not in error["message"]


def test_a_range_that_is_ended_ends_its_builds_and_starts_no_other(project, tmp_path):
    mark = tmp_path / "begun"
    wait = f"row = record.json()\n    open({str(mark)!r}, 'a').close()\n    while True: pass"
    project.edit("row = record.json()", wait, "preprocess.py")
    env = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT / "include"),
        "TRAINFEED_ROOT": project.env.root,
        "TRAINFEED_LANDING": project.env.landing,
        "TRAINFEED_WORK": project.env.work,
        "TRAINFEED_KAFKA": f"recorded:{project.path / 'recorded'}",
        "TRAINFEED_DATASETS": str(project.env.datasets),
    }
    command = [sys.executable, "-m", "trainfeed", "build", "clicks/2024-03", "--json"]
    with subprocess.Popen(
        command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        until(mark.exists)
        process.send_signal(signal.SIGINT)
        output, message = process.communicate(timeout=LIMIT_S)
    reports = json.loads(output)
    assert process.returncode == 130, message
    assert {report["status"] for report in reports} == {None}
    assert [report["error"]["message"] for report in reports] == ["ended"] + ["not started"] * 30
    assert "Traceback" not in message


def test_a_dry_run_says_once_that_a_source_is_away_and_a_build_warns_of_it(cli, project, caplog):
    said = "its source was not compared"
    project.build()
    shutil.rmtree(project.path / "recorded")
    status, output, _ = cli("build", "clicks/2024-03-01", "--dry-run")
    assert (status, output.count(said), caplog.text.count(said)) == (0, 1, 0)
    assert cli("build", "clicks/2024-03-01")[0] == 0
    assert caplog.text.count(said) == 1


def test_a_dry_run_of_a_range_says_each_and_fails_if_one_would(cli, project):
    status, output, _ = cli("build", "clicks/2024-03-01/2024-03-02", "--dry-run")
    assert status == 0
    assert output.count("nothing was written") == 2
    project.edit("end: 2024-03-31", "end: 2124-03-31")
    status, output, message = cli(
        "build", "clicks", "--interval", "2124-03-30/2124-03-31", "--dry-run", "--json"
    )
    assert status == 1
    assert [row["error"]["kind"] for row in json.loads(output)] == ["WindowOpenError"] * 2
    assert "2 of 2 intervals cannot be planned: a build of them would fail" in message
    assert message.count("2 of 2") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("build", "clicks"), "expected the interval or range once"),
        (("build", "clicks/2024-03-01", "--interval", "2024-03-01"), "got both"),
        (("build", "clicks/2024-03-33"), "2024-03-33 does not exist"),
        (("verify", "clicks/2024-03-33"), "2024-03-33 does not exist"),
        (("show", "clicks/2024-03-33/g0001"), "2024-03-33 does not exist"),
        (("bench", "read", "clicks/2024-03-33"), "2024-03-33 does not exist"),
        (("train", "clicks", "--interval", "2024-03-33"), "2024-03-33 does not exist"),
        (("build", "clicks/2024-04"), "the nearest: 2024-03-31"),
        (("build", "clicks/2024-03", "--limit", "9"), "expected one interval beside --limit"),
        (("build", "clicks/2024-03-02/2024-03-01"), "write 2024-03-01/2024-03-02"),
        (("build", "clicks/2024-03", "--jobs", "0"), "--jobs"),
    ],
)
def test_what_is_no_range_is_wrong_usage_and_not_something_to_build(cli, arguments, message):
    status, output, said = cli(*arguments)
    assert (status, output) == (2, "")
    assert message in said


def test_a_data_set_and_a_range_of_it_are_listed_and_what_is_missing_ends_with_status_1(cli, built):
    assert cli("show", "clicks", "--json")[1] == cli("ls", "clicks", "--json")[1]
    status, output, message = cli("show", "clicks/2024-03-01/2024-03-03", "--json")
    assert (status, [row["interval"] for row in json.loads(output)]) == (
        1,
        ["2024-03-01", "2024-03-03"],
    )
    assert "lacks 1 of 3 intervals" in message
    assert "build it: trainfeed build clicks --interval 2024-03-02" in message
    built.prebuilt("2024-03-02")
    assert cli("show", "clicks/2024-03-01/2024-03-03")[0] == 0


def test_a_range_is_verified_and_a_missing_interval_is_no_success(cli, built):
    status, output, message = cli("verify", "clicks/2024-03-01/2024-03-03")
    assert (status, output.splitlines()) == (
        1,
        ["clicks/2024-03-01/g0001 is intact", "clicks/2024-03-03/g0001 is intact"],
    )
    assert "lacks 1 of 3" in message
    path = built.version("2024-03-03").path / "MANIFEST.json"
    path.chmod(0o644)
    path.write_bytes(path.read_bytes() + b" ")
    status, output, message = cli("verify", "clicks/2024-03-01/2024-03-03", "--json")
    assert status == 3
    assert [bool(report["problems"]) for report in json.loads(output)] == [False, True]


def test_a_range_is_measured_only_when_it_is_whole(cli, built):
    status, output, message = cli("bench", "read", "clicks/2024-03-01/2024-03-03")
    assert (status, output) == (1, "")
    assert "lacks 1 of 3 intervals" in message


def test_a_table_holds_no_literals_of_python(cli, built):
    output = cli("show", "clicks/2024-03-01")[1]
    assert not [mark for mark in ("{", "}", "True", "None", "['") if mark in output]
    count = built.version().manifest.quarantine["records"]
    assert f"{count} (not_json {count})" in output


def test_keys_of_json_are_words_that_a_script_can_name(cli, built):
    def keys(value):
        if isinstance(value, dict):
            return {*value, *(key for each in value.values() for key in keys(each))}
        return {key for each in value for key in keys(each)} if isinstance(value, list) else set()

    commands = [
        ("ls",),
        ("ls", "clicks"),
        ("show", "clicks/2024-03-01"),
        ("verify", "clicks"),
        ("gc",),
        ("prune", "clicks"),
        ("build", "clicks/2024-03-01"),
        ("build", "clicks/2024-03-02", "--dry-run"),
        ("build", "clicks/2024-03-02", "--limit", "9"),
        ("head", "clicks/2024-03-01"),
        ("stats", "clicks/2024-03-01"),
        ("bench", "read", "clicks/2024-03-01"),
    ]
    for command in commands:
        status, output, message = cli(*command, "--json")
        assert status == 0, message
        assert not [key for key in keys(json.loads(output)) if " " in key], command


def test_remedies_of_errors_name_the_program_once(cli, project, monkeypatch):
    monkeypatch.setattr("trainfeed.cli.printing.program", lambda: "python -m trainfeed")
    monkeypatch.setattr("trainfeed.cli._app.program", lambda: "python -m trainfeed")
    for command in (
        ("verify", "clicks"),
        ("verify", "clicks/2024-03-01"),
        ("show", "clicks/2024-03"),
    ):
        message = cli(*command)[2]
        assert message.count("python -m trainfeed build clicks --interval ") == 1
        assert "python -m python" not in message


def test_samples_and_statistics_of_a_version_are_shown_by_its_own_schema(cli, built):
    status, output, _ = cli("head", "clicks/2024-03-01", "-n", "2", "--json")
    samples = json.loads(output)
    assert (status, len(samples), sorted(samples[0])) == (0, 2, ["label", "value"])
    reader = open_dataset(built.version().path, split="train").reader()
    assert samples == [{k: float(v) for k, v in s.items()} for s in islice(reader(), 2)]
    output = cli("head", "clicks/2024-03-01/g0001", "--split", "eval", "-n", "1")[1]
    assert output.startswith("clicks/2024-03-01/g0001, split eval: ")
    assert "np." not in output
    assert "value" in output
    found = json.loads(cli("stats", "clicks/2024-03-01", "--json")[1])
    assert {split: part["label"]["count"] for split, part in found.items()} == {
        split: built.version().num_samples(split) for split in ("eval", "train")
    }
    assert "split eval: " not in cli("stats", "clicks/2024-03-01", "--split", "train")[1]
    assert cli("stats", "clicks/2024-03-01", "--split", "test")[0] == 2


def test_damaged_statistics_are_not_shown(cli, built):
    path = built.version().path / "statistics.json"
    path.chmod(0o644)
    path.write_bytes(b"{}")
    status, output, message = cli("stats", "clicks/2024-03-01")
    assert (status, output) == (3, "")
    assert "statistics.json" in message


def test_the_folder_of_a_version_is_shown_like_a_set_of_shards(cli, built):
    version = built.version()
    samples = json.loads(cli("file", "head", str(version.path), "--json")[1])
    assert sorted(samples[0]) == ["label", "value"]
    shard = version.shard_paths("train")[0]
    first = json.loads(cli("file", "head", str(shard), "-n", "1", "--json")[1])
    assert first == json.loads(cli("head", "clicks/2024-03-01", "-n", "1", "--json")[1])
    counts = json.loads(cli("file", "stats", str(version.path), "--json")[1])
    assert counts["label"]["count"] == version.manifest.num_samples()


def test_what_a_function_prints_is_seen_in_a_preview(cli, project, monkeypatch, capsys):
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    text = 'row = record.json()\n    print("row", sorted(row))'
    project.edit("row = record.json()", text, "preprocess.py")
    message = cli("build", "clicks/2024-03-01", "--limit", "3")[2]
    assert "printed: row ['value']" in message


def test_a_forgotten_setting_of_the_cluster_is_named(cli, project, monkeypatch):
    monkeypatch.delenv("TRAINFEED_KAFKA")
    monkeypatch.setenv("TRAINFEED_DATA", str(project.path / "elsewhere"))
    message = cli("build", "clicks/2024-03-01")[2]
    assert "expected recorded topic 'clicks'" in message
    assert "or set TRAINFEED_KAFKA, which is not set: host:9092 for a cluster" in message
    monkeypatch.setenv("TRAINFEED_KAFKA", f"recorded:{project.path / 'elsewhere'}")
    assert "or change TRAINFEED_KAFKA\n" in cli("build", "clicks/2024-03-01")[2]


def test_the_hint_of_a_missing_interval_is_of_the_data_set(cli, project):
    status, _, message = cli("build", "clicks")
    assert status == 2
    assert "clicks --interval 2024-03-01" in message
