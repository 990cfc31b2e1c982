"""``trainfeed quarantine``: ranges, whole values, exact bytes, preview, replay and the audit."""

from __future__ import annotations

import json
import shutil
import stat

import pyarrow.compute as pc
import pytest

from tests.unit.pipeline.clicks import START_MS, batch, event
from trainfeed.cli import main
from trainfeed.errors import GateError
from trainfeed.files.stores import Location
from trainfeed.pipeline.landed_ranges import opened_landing, write_landing

GATE = "quality: [{check: quarantine_ratio, max: 0}]"
TARGET = "clicks/2024-03-01"
LARGE = b"not json " + b"\xff" * 1_000_000
EDGE = b"n" * 65_536
FIX = ("row = record.json()", 'row = {"value": float(len(record.value))}')


@pytest.fixture
def cli(project, monkeypatch, capfdbinary):
    """Run ``trainfeed quarantine …``; return status, output and messages."""
    places = {"ROOT": project.env.root, "LANDING": project.env.landing, "WORK": project.env.work}
    for name, value in places.items():
        monkeypatch.setenv(f"TRAINFEED_{name}", value)
    monkeypatch.setenv("TRAINFEED_DATASETS", str(project.env.datasets))

    def run(*arguments):
        monkeypatch.setattr("sys.argv", ["trainfeed", "quarantine", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        output, said = capfdbinary.readouterr()
        return ended.value.code or 0, output, said.decode()

    return run


@pytest.fixture
def large(project):
    """One day with a record of 1 MB, one of just the kept size, and one without a value."""
    rows = [event(i, START_MS + i) for i in range(10)]
    for number, value in ((3, LARGE), (5, EDGE), (7, None)):
        rows[number] = {"value": value, "timestamp": START_MS + number}
    project.record({0: [batch(rows)]})
    project.prebuilt()
    return project


def parsed(result):
    status, output, said = result
    assert status == 0, said
    return json.loads(output)


def test_cut_values_come_whole_from_landing_with_their_time(large, cli):
    shown = {row["offset"]: row for row in parsed(cli("show", TARGET, "--json"))["shown"]}
    assert (shown[3]["bytes"], shown[3]["whole"]) == (len(LARGE), True)
    assert (shown[5]["bytes"], shown[5]["whole"], shown[5]["raw"]) == (65_536, True, EDGE.decode())
    assert (shown[7]["bytes"], shown[7]["raw"]) == (0, None)
    assert shown[3]["time"] == "2024-03-01T00:00:00.003+00:00"
    _, output, _ = cli("show", TARGET)
    assert b"cut at 65536 bytes, read again whole: 1000009 bytes" in output
    assert b"null" in output


def test_without_landing_it_says_so_and_shows_what_is_kept(large, cli):
    shutil.rmtree(large.path / "landing")
    report = parsed(cli("show", TARGET, "--json"))
    row = report["shown"][0]
    assert (row["bytes"], row["whole"], row["time"]) == (65_536, False, None)
    assert "is gone" in row["not_from_landing"]
    _, output, said = cli("show", TARGET)
    assert b"(cut at 65536 bytes)" in output
    assert "as the quarantine keeps them" in said


def test_exact_bytes_go_to_a_new_private_file_or_a_pipe(large, cli, tmp_path):
    file = tmp_path / "record"
    status, _, said = cli("show", TARGET, "--at", "kafka:clicks/0:3", "--raw", str(file))
    assert (status, file.read_bytes()) == (0, LARGE), said
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    status, _, said = cli("show", TARGET, "--at", "kafka:clicks/0:5", "--raw", str(file))
    assert (status, file.read_bytes()) == (1, LARGE)
    assert "the name is taken" in said
    status, output, _ = cli("show", TARGET, "--at", "kafka:clicks/0:3", "--raw", "-")
    assert (status, output) == (0, LARGE)


def test_a_value_that_is_gone_is_not_written_in_part(large, cli, tmp_path):
    shutil.rmtree(large.path / "landing")
    file = tmp_path / "record"
    status, _, said = cli("show", TARGET, "--at", "kafka:clicks/0:3", "--raw", str(file))
    assert (status, file.exists()) == (1, False)
    assert "only the first 65536 bytes are kept" in said


def test_landing_with_another_value_is_named_as_damaged(large, cli):
    quarantined = large.version()
    large.record({0: [batch([event(i, START_MS + i) for i in range(10)])]}, uuid="2" * 8)
    (file,) = (large.path / "landing").rglob("*.arrow")
    other = large.elsewhere("other")
    other.prebuilt()
    (wrong,) = (large.path / "other" / "landing").rglob("*.arrow")
    shutil.copyfile(wrong, file)
    assert quarantined.manifest.quarantine["records"] == 3
    row = parsed(cli("show", TARGET, "--json"))["shown"][0]
    assert (row["whole"], row["bytes"]) == (False, 65_536)
    assert "another value at this position" in row["not_from_landing"]


def test_a_record_that_landing_lost_is_not_shown_as_whole(large, cli):
    (file,) = (large.path / "landing").rglob("*.arrow")
    with opened_landing(Location.parse(str(file))) as landing:
        batches = [batch.filter(pc.field("offset") != 7) for batch in landing.iter_batches()]
    file.unlink()
    with file.open("wb") as written:
        write_landing(written, batches, "kafka:clicks/0")
    rows = {row["offset"]: row for row in parsed(cli("show", TARGET, "--json"))["shown"]}
    assert rows[3]["whole"]
    assert "not_from_landing" not in rows[3]
    assert (rows[7]["time"], rows[7]["raw"]) == (None, "")
    assert "got none at 1 offsets, the first is 7" in rows[7]["not_from_landing"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["--raw", "x"],
        ["--at", "kafka:clicks/0:3", "--raw", "x", "--json"],
        ["--at", "kafka:clicks/0"],
        ["--at", "3"],
    ],
)
def test_what_names_no_record_is_a_usage_error(large, cli, arguments):
    assert cli("show", TARGET, *arguments)[0] == 2


def test_a_position_without_quarantined_record_is_an_error(large, cli):
    status, output, said = cli("show", TARGET, "--at", "kafka:clicks/0:4")
    assert (status, output) == (1, b"")
    assert "offset 4" in said


def test_without_an_interval_the_newest_with_rejected_records_is_shown(project, cli):
    project.prebuilt()
    project.prebuilt("2024-03-02")
    found = parsed(cli("ls", "clicks", "--json"))["builds"]
    with_records = [each["interval"] for each in found if each["records"]]
    status, output, said = cli("show", "clicks", "-n", "1")
    first = f"the newest published interval with rejected records is {with_records[0]}"
    assert (status, output.decode().splitlines()[0]) == (0, first), said
    assert parsed(cli("show", "clicks", "--json"))["interval"] == with_records[0]
    reason = found[0]["reasons"][0]["reason"]
    first = f"the newest published interval with rejected records of the reason {reason} is"
    assert cli("show", "clicks", "--reason", reason)[1].decode().startswith(first)
    status, output, said = cli("show", "clicks", "--reason", "no_such")
    assert (status, output, "no_such" in said) == (1, b"", True)
    assert cli("show", "clicks", "--at", "kafka:clicks/0:3")[0] == 2


def test_an_older_interval_is_shown_where_the_newest_has_no_rejected_records(project, cli):
    project.prebuilt()
    edited = ("row = record.json()", 'row = {"value": 1.0, "label": 0}')
    project.edit(*edited, "preprocess.py")
    project.prebuilt("2024-03-02")
    assert cli("show", "clicks", "-n", "1")[1].decode().splitlines()[0].endswith("is 2024-03-01")


def test_no_rejected_records_at_all_is_said_and_is_no_failure(project, cli):
    status, output, said = cli("show", "clicks")
    assert (status, output) == (1, b"")
    assert "expected a published version of clicks" in " ".join(said.split())
    project.edit("row = record.json()", 'row = {"value": 1.0, "label": 0}', "preprocess.py")
    project.prebuilt()
    status, output, said = cli("show", "clicks")
    assert status == 0
    assert output.decode().splitlines()[0] == "no published interval of clicks has rejected records"
    assert "quarantine ls clicks" in said
    assert parsed(cli("show", "clicks", "--json"))["shown"] == []


def test_a_range_lists_versions_and_failed_builds_the_newest_first(project, cli):
    project.prebuilt()
    project.edit("seed: 7", f"seed: 7\n{GATE}")
    with pytest.raises(GateError):
        project.build("2024-03-02")
    for target in ("clicks", "clicks/2024-03", "clicks/2024-03-01/2024-03-02"):
        report = parsed(cli("ls", target, "--json"))
        assert [build["interval"] for build in report["builds"]] == ["2024-03-02", "2024-03-01"]
        assert [build["published"] for build in report["builds"]] == [False, True]
        assert report["records"] == sum(build["records"] for build in report["builds"])
        assert len(report["builds"][0]["reasons"][0]["examples"]) == 3
    assert set(report["builds"][0]["reasons"][0]["first"]) == {"source", "offset", "reason"}
    _, output, _ = cli("ls", "clicks")
    assert b"not published" in output
    assert b"Expecting" not in output
    assert b"2 builds; quarantined: 30 not_json" in output
    assert parsed(cli("audit", "clicks", "--json"))["accesses"] == 0


def test_a_range_without_any_build_is_an_error(project, cli):
    project.prebuilt()
    assert cli("ls", "clicks/2024-04")[0] == 1
    assert cli("ls", "klicks")[0] == 1
    assert cli("ls", "clicks/2024-13")[0] == 2


def test_a_reason_that_no_build_has_is_an_error_also_of_a_preview(project, cli):
    project.prebuilt()
    for target in (TARGET, "clicks/2024-03"):
        status, output, said = cli("preview", target, "--reason", "not_jsn")
        assert (status, output) == (1, b"")
        assert "got 'not_jsn'" in said
        assert "not_json" in said


def test_preview_then_replay_of_a_range_which_names_each_failure(project, cli):
    for name in ("2024-03-01", "2024-03-02"):
        project.prebuilt(name)
    project.edit(*FIX, "preprocess.py")
    reports = parsed(cli("preview", "clicks/2024-03", "--json"))
    assert [(each["interval"], each["valid"]) for each in reports] == [
        ("2024-03-01", 18),
        ("2024-03-02", 12),
    ]
    _, output, said = cli("preview", TARGET)
    assert b"18 would be valid" in output
    assert "quarantine replay clicks/2024-03-01" in said
    assert project.folder.last_generation("2024-03-01") == 1
    report = parsed(cli("replay", TARGET, "--json"))
    assert (report["verdict"], report["source_reads"], report["quarantined"]) == ("built", 0, 0)
    status, output, said = cli("replay", "clicks/2024-03-01/2024-03-03", "--jobs", "3", "--json")
    assert [each.get("verdict") for each in json.loads(output)] == ["identical", "built", None]
    assert json.loads(output)[2]["error"]["kind"] == "NotFoundError"
    assert (status, "1 of 3 intervals are not replayed" in said) == (1, True)
    assert [row["command"] for row in parsed(cli("audit", "clicks", "--json"))["shown"]] == [
        "preview"
    ] * 3


def test_a_blank_reason_is_a_usage_error(project, cli):
    assert cli("replay", "clicks/2024-03-01/2024-03-02", "--why", " ")[0] == 2


def test_the_audit_lists_the_last_reading_first_and_names_damage(large, cli):
    cli("show", TARGET)
    cli("show", TARGET, "--at", "kafka:clicks/0:3")
    report = parsed(cli("audit", "clicks", "--json"))
    assert [row["command"] for row in report["shown"]] == ["show --at", "show"]
    assert [row["records"] for row in report["shown"]] == [1, 3]
    _, output, said = cli("audit", "clicks", "-n", "1")
    assert b"show --at" in output
    assert "1 of 2 are shown" in said
    with large.folder.quarantine_audit.open("ab") as file:
        file.write(b"torn")
    status, output, said = cli("audit", "clicks", "--json")
    assert (status, json.loads(output)["damaged_lines"]) == (3, [3])
    assert "lines are damaged" in said
