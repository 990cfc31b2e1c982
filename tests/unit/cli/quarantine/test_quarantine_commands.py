"""``trainfeed quarantine``: the records that versions and failed builds rejected."""

from __future__ import annotations

import json
import os
import re

import pytest

from tests.unit.pipeline.clicks import START_MS, batch, event
from trainfeed.cli import main
from trainfeed.errors import GateError

GATE = "quality: [{check: quarantine_ratio, max: 0}]"
TARGET = "clicks/2024-03-01"
HOSTILE = b"\x1b[2J\x1b]0;owned\x07 not json"


@pytest.fixture
def cli(project, monkeypatch, capsys):
    """Run ``trainfeed quarantine …``; return status, output and messages."""
    monkeypatch.setenv("TRAINFEED_ROOT", project.env.root)
    monkeypatch.setenv("TRAINFEED_WORK", project.env.work)
    monkeypatch.setenv("TRAINFEED_DATASETS", str(project.env.datasets))

    def run(*arguments):
        monkeypatch.setattr("sys.argv", ["trainfeed", "quarantine", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        return (ended.value.code or 0, *capsys.readouterr())

    return run


@pytest.fixture
def broken(project):
    """A topic with two kinds of broken records, one of which a terminal should not print."""
    rows = [event(i, START_MS + i) for i in range(20)]
    rows[7] = {"value": HOSTILE, "timestamp": START_MS + 7}
    rows[8] = {"value": b"\xff\xfe", "timestamp": START_MS + 8}
    for number in (9, 11, 13):
        rows[number] = {"value": json.dumps({"n": number}).encode(), "timestamp": START_MS}
    project.record({0: [batch(rows)]})
    return project


def fail(project):
    """Build behind a gate that does not hold; return the command that the message names."""
    project.edit("seed: 7", f"seed: 7\n{GATE}")
    with pytest.raises(GateError) as caught:
        project.build()
    project.edit(f"\n{GATE}", "")
    return re.search("trainfeed quarantine (show .*)", str(caught.value))[1].split()


def parsed(result):
    status, output, _ = result
    assert status == 0
    return json.loads(output)


def test_the_command_of_the_message_shows_the_records_of_the_failed_build(broken, cli):
    command = fail(broken)
    report = parsed(cli(*command, "--json"))
    assert report["published"] is False
    assert report["plan"] == command[-1]
    assert report["reasons"] == {"no_value": 3, "not_json": 2}
    assert report["records"] == 5
    assert [row["offset"] for row in report["shown"]] == [7, 8, 9, 11, 13]
    assert {row["source"] for row in report["shown"]} == {"kafka:clicks/0"}
    assert report["shown"][2]["raw"] == '{"n": 9}'
    assert (report["shown"][1]["raw_base64"], "raw" in report["shown"][1]) == ("//4=", False)


def test_an_interval_means_its_last_build(broken, cli):
    command = fail(broken)
    assert parsed(cli("show", TARGET, "--json"))["plan"] == command[-1]
    broken.prebuilt()
    assert parsed(cli("show", TARGET, "--json"))["generation"] == "g0001"


def test_a_later_failure_is_shown_and_the_version_on_demand(broken, cli):
    broken.prebuilt()
    path = broken.version().path
    os.utime(path, (path.stat().st_atime - 60, path.stat().st_mtime - 60))
    broken.edit("raise Reject", "raise  Reject", "preprocess.py")
    broken.edit("seed: 7", f"seed: 7\n{GATE}")
    with pytest.raises(GateError):
        broken.build(rebuild="again")
    assert parsed(cli("show", TARGET, "--json"))["published"] is False
    assert parsed(cli("show", f"{TARGET}/g0001", "--json"))["generation"] == "g0001"


def test_records_are_chosen_by_reason_and_number(broken, cli):
    broken.prebuilt()
    report = parsed(cli("show", TARGET, "--reason", "no_value", "-n", "2", "--json"))
    assert [row["offset"] for row in report["shown"]] == [9, 11]
    status, output, said = cli("show", TARGET, "--reason", "no_value", "-n", "2")
    assert status == 0
    assert "2 of 3 are shown; -n 3 shows all" in said
    assert "not_json │" not in output


def test_a_misspelt_reason_is_answered_with_the_nearest(broken, cli):
    broken.prebuilt()
    status, output, said = cli("show", TARGET, "--reason", "not_jsn")
    assert (status, output) == (1, "")
    assert "did you mean 'not_json'" in said


def test_a_table_names_sources_and_prints_nothing_that_a_terminal_obeys(broken, cli):
    fail(broken)
    _, output, _ = cli("show", TARGET)
    assert "kafka:clicks/0" in output
    assert '{"n": 9}' in output
    assert "not published" in output.splitlines()[0]
    assert "\x1b" not in output
    assert r"\x1b[2J" in output


def test_reasons_are_counted_each_with_its_first_record(broken, cli):
    broken.prebuilt()
    report = parsed(cli("ls", TARGET, "--json"))
    assert [(row["reason"], row["records"]) for row in report["reasons"]] == [
        ("no_value", 3),
        ("not_json", 2),
    ]
    assert report["reasons"][0]["first"]["offset"] == 9
    _, output, said = cli("ls", TARGET)
    assert "kafka:clicks/0 offset 9" in output
    assert f"trainfeed quarantine show {TARGET} --reason no_value" in said


def test_a_version_without_broken_records_says_so(project, cli):
    project.record({0: [batch([event(1, START_MS)])]})
    project.prebuilt()
    status, output, _ = cli("ls", TARGET)
    assert status == 0
    assert "quarantined: none" in output
    assert parsed(cli("show", TARGET, "--json"))["shown"] == []


def test_an_interval_that_was_never_built_is_an_error_with_the_command_that_builds_it(cli):
    status, output, said = cli("show", "clicks/2024-03-02")
    assert (status, output) == (1, "")
    assert "trainfeed build clicks --interval 2024-03-02" in said


@pytest.mark.parametrize(
    "arguments",
    [
        ["clicks", "--plan", "x"],
        ["clicks/a/b/c"],
        ["clicks/2024-03-01/g0001", "--plan", "x"],
        ["../clicks/2024-03-01"],
        ["clicks/2024-03-01", "--plan", "../../x"],
    ],
)
def test_what_is_no_target_is_a_usage_error(cli, arguments):
    assert cli("show", *arguments)[0] == 2


def test_damaged_work_files_and_versions_are_damage(broken, cli):
    command = fail(broken)
    (file,) = broken.path.glob("work/spill/*/*.quarantine.arrow")
    file.write_bytes(file.read_bytes()[:-9])
    assert cli(*command)[0] == 3
    broken.prebuilt()
    (published,) = broken.version().path.glob("quarantine/*")
    published.chmod(0o600)
    published.write_bytes(b"no arrow")
    status, _, said = cli("show", TARGET)
    assert status == 3
    assert "expected quarantined records" in said
