"""What the source says about published intervals: changes, losses, late records, absence."""

from __future__ import annotations

import shutil

import pytest

from tests.unit.pipeline.clicks import DAY_MS, START_MS, batch, day, event
from tests.unit.pipeline.log_project import make_log_project
from trainfeed.look.outdated import compare_with_source, find_outdated

DAY, NEXT = "2024-03-01", "2024-03-02"


@pytest.fixture
def log_project(tmp_path):
    found = make_log_project(tmp_path)
    found.build()
    return found


def compared(project):
    spec = project.spec
    return compare_with_source(spec, project.env, find_outdated(spec, project.env))


def source(project, interval=DAY):
    return {each.interval: each.source for each in compared(project).intervals}[interval]


def log_files(project):
    return sorted(path for path in project.logs.iterdir() if not path.name.startswith("_"))


def test_a_source_with_the_same_records_says_nothing(project):
    project.build()
    found = source(project)
    assert (found.state, found.told) == ("same", "")
    assert compared(project).is_in_order


def test_a_topic_that_was_made_again_is_replaced(project):
    project.build()
    project.record(
        {p: [batch(day(0, 60 + p))] for p in range(3)}, uuid="22222222-2222-4222-8222-222222222222"
    )
    assert source(project).state == "replaced"
    assert not compared(project).is_in_order


def test_a_topic_that_is_gone_is_away_and_nothing_to_decide(project):
    project.build()
    shutil.rmtree(project.path / "recorded")
    assert source(project).state == "away"
    assert compared(project).is_in_order


def test_records_that_retention_deleted_are_lost_unless_they_landed(project):
    project.build()
    kept = {p: [batch((day(0, 60 + p) + day(1, 40 + p))[10:], first=10)] for p in range(3)}
    project.record(kept)
    assert source(project).state == "same"
    shutil.rmtree(project.env.landing)
    found = source(project)
    assert (found.state, "OffsetOutOfRangeError" in found.text) == ("lost", True)
    assert compared(project).is_in_order


def test_a_log_file_that_came_later_is_a_change(log_project):
    assert source(log_project).state == "same"
    (log_project.logs / "zz-later.jsonl").write_bytes(b'{"value": 1}\n')
    found = source(log_project)
    assert found.state == "changed"
    assert "zz-later.jsonl" in found.text


def test_a_log_file_that_was_written_again_is_replaced(log_project):
    log_files(log_project)[0].write_bytes(b'{"value": 1}\n')
    assert source(log_project).state == "replaced"


def test_a_log_file_that_is_gone_is_replaced(log_project):
    log_files(log_project)[0].unlink()
    found = source(log_project)
    assert (found.state, "it is gone" in found.text) == ("replaced", True)


def test_late_records_are_told_with_the_interval_that_has_them(project):
    late = [event(7, START_MS + DAY_MS - 5)]
    project.record({p: [batch(day(0, 60) + day(1, 40) + late + day(2, 30))] for p in range(3)})
    for name in (DAY, NEXT, "2024-03-03"):
        project.build(name)
    told = {each.interval: each.source.late for each in compared(project).intervals}
    assert [name for name, late in told.items() if late] == [DAY]
    assert "late records are in" in told[DAY]


def test_an_error_about_one_interval_keeps_no_other_from_its_answer(project, monkeypatch):
    project.build()
    project.build(NEXT)
    for path in project.folder.path.glob("boundaries/*/*/20240301T000000Z.json"):
        path.write_text("{")
    assert source(project).state == "failed"
    assert source(project, NEXT).state == "same"


def test_outdated_intervals_are_compared_too(project):
    project.build()
    project.edit("seed: 7", "seed: 8")
    (each,) = compared(project).intervals
    assert (each.state, each.source.state) == ("outdated", "same")


def test_every_interval_is_counted(project):
    project.build()
    project.build(NEXT)
    spec, seen = project.spec, []
    report = find_outdated(spec, project.env)
    compare_with_source(spec, project.env, report, on_interval=lambda *now: seen.append(now))
    assert seen == [(2, 0), (2, 1)]
