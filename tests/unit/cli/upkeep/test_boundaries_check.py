"""``trainfeed boundaries check``: the comparison of boundary files, and the output."""

from __future__ import annotations

import json
import shlex
import shutil

import pytest

from tests.unit.pipeline.clicks import DAY_MS, START_MS, batch, day, rewrite_sealed
from trainfeed.pipeline.planner import planner as _planner
from trainfeed.versions import Version

DAYS = ("2024-03-01", "2024-03-02", "2024-03-03")


@pytest.fixture
def files(project):
    """Three days, built; gives the boundary files in order of time."""
    project.record({0: [batch(day(0, 300) + day(1, 300) + day(2, 300) + day(3, 300))]})
    for name in DAYS:
        project.prebuilt(name)
    return sorted((project.folder.path / "boundaries").rglob("*.json"))


def rewrite(path, **changes):
    """Change what a boundary file says of partition 0, as an older version would have written."""

    def change(value):
        value["partitions"]["0"].update(changes)
        value["partitions"]["0"].pop("evidence", None)

    rewrite_sealed(path, change)


def run_repairs(cli, commands):
    for command in commands:
        program, *arguments = shlex.split(command)
        if program == "mv":
            shutil.move(*arguments)
        else:
            assert program == "trainfeed"
            assert cli(*arguments)[0] == 0


def test_boundaries_that_are_right_end_with_status_0(cli, files):
    status, output, _ = cli("boundaries", "check", "clicks")
    assert (status, output) == (0, "4 right, 0 differs, 0 cannot be checked\n")
    for path in files:
        rewrite(path)
    assert cli("boundaries", "check", "clicks")[0] == 0


def test_a_wrong_boundary_is_named_with_what_puts_it_right(cli, project, files, monkeypatch):
    """Two days were published wrongly: one has the records of the other."""
    right = [project.version(name).manifest.content_digest for name in DAYS]
    rewrite(files[1], offset=600, record_timestamp_ms=START_MS + 2 * DAY_MS, method="scan")
    with monkeypatch.context() as older:
        older.setattr(_planner, "require_neighbours_agree", lambda *_: None)
        for name in DAYS[:2]:
            project.build(name, rebuild="as the older version", allow_gap="as the older version")
    assert project.version(DAYS[1]).manifest.empty
    status, output, _ = cli("boundaries", "check", "clicks", "--json")
    report = json.loads(output)
    assert status == 3
    assert "until all of these have ended" in report["repairs"][0]["warning"]
    assert [file["verdict"] for file in report["files"]] == ["right", "differs", "right", "right"]
    assert report["files"][1]["partitions"] == [
        {"partition": 0, "stored": 600, "found": 300, "records": 300}
    ]
    (repair,) = report["repairs"]
    assert repair["intervals"] == list(DAYS[:2])
    assert repair["commands"] == [
        f"mv {files[1]} {files[1]}.wrong",
        "trainfeed build clicks --interval 2024-03-01 --rebuild 'a boundary was wrong'",
        "trainfeed build clicks --interval 2024-03-02 --rebuild 'a boundary was wrong'",
    ]
    run_repairs(cli, repair["commands"])
    assert cli("boundaries", "check", "clicks")[0] == 0
    again = [Version.resolve(project.folder, name).manifest.content_digest for name in DAYS]
    assert again == right


def test_the_table_names_place_and_remedy(cli, files):
    rewrite(files[2], offset=300, record_timestamp_ms=START_MS + DAY_MS, method="scan")
    status, output, messages = cli("boundaries", "check", "clicks")
    assert status == 3
    assert "3 right, 1 differs, 0 cannot be checked" in output
    assert "topic clicks, intervals 2024-03-02, 2024-03-03:" in output
    assert "mv " in output
    assert "twice or not at all" in " ".join(messages.split())


def test_a_boundary_whose_records_are_gone_cannot_be_checked(cli, project, files):
    project.record({0: [batch(day(2, 300) + day(3, 300), first=600)]})
    status, output, _ = cli("boundaries", "check", "clicks", "--json")
    assert status == 0
    verdicts = [file["verdict"] for file in json.loads(output)["files"]]
    assert verdicts[:2] == ["cannot be checked"] * 2
    assert verdicts[3] == "right"


def test_boundaries_of_a_topic_that_was_deleted_cannot_be_checked(cli, project, files):
    project.record({0: [batch(day(0, 300))]}, uuid="22222222-2222-4222-8222-222222222222")
    status, output, _ = cli("boundaries", "check", "clicks", "--json")
    assert status == 0
    assert [file["verdict"] for file in json.loads(output)["files"]] == ["cannot be checked"] * 4


def test_a_data_set_that_was_never_built_has_nothing_to_check(cli, project):
    status, output, _ = cli("boundaries", "check", "clicks")
    assert (status, output) == (0, "0 right, 0 differs, 0 cannot be checked\n")


def test_files_are_restored_from_the_versions_on_both_sides(cli, files):
    assert cli("boundaries", "restore", "clicks")[0] == 0
    files[1].unlink()
    files[2].unlink()
    files[2].write_bytes(b"{")
    status, output, _ = cli("boundaries", "restore", "clicks", "--json")
    assert status == 0
    assert json.loads(output)["files"] == [
        {"path": str(files[1]), "was": "missing", "why_not": None},
        {"path": str(files[2]), "was": "damaged", "why_not": None},
    ]
    status, output, _ = cli("boundaries", "check", "clicks")
    assert (status, output) == (0, "4 right, 0 differs, 0 cannot be checked\n")


def test_a_file_that_versions_recorded_differently_is_status_3(cli, project, files, monkeypatch):
    rewrite(files[1], offset=310, method="scan")
    with monkeypatch.context() as older:
        older.setattr(_planner, "require_neighbours_agree", lambda *_: None)
        project.build(DAYS[1], rebuild="as the older version")
    status, output, _ = cli("boundaries", "restore", "clicks")
    assert status == 3
    assert "different" in " ".join(output.split())
