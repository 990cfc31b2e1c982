"""Replay of quarantined records: from plan and landing alone, once, and the same after kills."""

import json
from dataclasses import replace

import pytest

from tests.unit.pipeline.clicks import START_MS, batch, event
from tests.unit.pipeline.log_project import make_log_project, rewrite
from trainfeed.errors import ConfigError, GateError, NotFoundError, SourceReplacedError

OLD = "row = record.json()"
FIXED = 'row = record.json() if record.value != b"not json" else {"value": 0.5}'
GATE = "quality: [{check: quarantine_ratio, max: 0}]"


def fix(project):
    project.edit(OLD, FIXED, "preprocess.py")


def without_broker(project):
    """The project with no connection, and no recorded topic in place of one."""
    for path in (project.path / "recorded").rglob("*"):
        if path.is_file():
            path.unlink()
    return type(project)(project.path, replace(project.env, kafka={}))


def ledger(project):
    return project.version().manifest.ledger


def test_a_replay_makes_the_next_generation_without_broker(project):
    before = project.build()
    fix(project)
    alone = without_broker(project)
    report = alone.build(replay=True)
    assert (report["verdict"], report["generation"]) == ("built", "g0002")
    assert (report["source_reads"], report["quarantined"]) == (0, 0)
    assert report["samples"] == before["samples"] + before["quarantined"]
    why = alone.version().manifest.supersedes["why"]
    assert why == f"replay of the quarantine of g0001: {before['quarantined']} not_json"
    assert "replay of the quarantine of g0001" in report["note"]


def test_a_replay_has_the_bytes_of_a_rebuild_from_the_source(project):
    project.build()
    fix(project)
    other = project.elsewhere("other")
    other.build()
    project.build(replay=True)
    mine, others = project.version().manifest, other.version().manifest
    assert mine.content_digest == others.content_digest
    assert mine.ledger == others.ledger
    assert mine.fingerprint == others.fingerprint


def test_a_second_replay_is_identical_whatever_its_reason(project):
    project.build()
    fix(project)
    project.build(replay=True)
    for why in (None, "again"):
        report = project.build(replay=True, rebuild=why)
        assert (report["verdict"], report["generation"]) == ("identical", "g0002")
    assert project.build()["verdict"] == "identical"
    assert project.folder.last_generation("2024-03-01") == 2


def test_a_replay_with_the_code_of_the_version_builds_nothing_and_says_what_stays(project):
    project.build()
    report = project.build(replay=True)
    assert (report["verdict"], report["generation"]) == ("identical", "g0001")
    assert "nothing is built" in report["note"]
    assert "not_json" in report["note"]


def test_an_interval_without_quarantine_is_skipped_with_the_reason(project):
    project.record({0: [batch([event(1, START_MS)])]})
    project.build()
    fix(project)
    report = project.build(replay=True)
    assert report["verdict"] == "skipped"
    assert "no record is quarantined in g0001" in report["note"]


def test_the_reason_of_a_person_is_recorded(project):
    project.build()
    fix(project)
    project.build(replay=True, rebuild="the parser learned a form")
    assert project.version().manifest.supersedes["why"] == "the parser learned a form"


def test_a_replay_of_a_failed_build_is_the_build_of_its_plan(project):
    project.edit("seed: 7", f"seed: 7\n{GATE}")
    with pytest.raises(GateError):
        project.build()
    fix(project)
    alone = without_broker(project)
    report = alone.build(replay=True)
    assert (report["verdict"], report["generation"]) == ("built", "g0001")
    assert "this is the build of the interval" in report["note"]
    assert alone.version().manifest.supersedes is None


def test_an_interval_that_was_never_built_is_an_error_with_the_command(project):
    with pytest.raises(NotFoundError, match="trainfeed build clicks --interval 2024-03-01"):
        project.build(replay=True)


def test_landing_that_was_removed_is_an_error_and_the_version_stays(project):
    project.build()
    fix(project)
    files = sorted((project.path / "landing").rglob("*.arrow"))
    files[0].unlink()
    with pytest.raises(NotFoundError, match="1 of 3 landing files are gone or torn") as caught:
        project.build(replay=True)
    assert "--rebuild WHY" in str(caught.value)
    assert project.folder.last_generation("2024-03-01") == 1


def test_a_torn_landing_file_is_refused_before_anything_is_built(project):
    project.build()
    fix(project)
    file = min((project.path / "landing").rglob("*.arrow"))
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(NotFoundError, match="gone or torn"):
        project.build(replay=True)


def test_landing_files_are_found_after_the_size_of_tasks_changed(project):
    project.build()
    fix(project)
    project.edit("seed: 7", "seed: 7\nresources: {records_per_task: 7}")
    report = without_broker(project).build(replay=True)
    assert (report["verdict"], report["source_reads"]) == ("built", 0)


def test_a_plan_that_is_gone_is_made_again_from_the_version(project):
    project.build()
    for path in project.folder.plans("2024-03-01").glob("*.json"):
        path.unlink()
    fix(project)
    assert without_broker(project).build(replay=True)["verdict"] == "built"


def test_no_gap_is_allowed_beside_a_replay(project):
    project.build()
    with pytest.raises(ConfigError, match="allow_gap"):
        project.build(replay=True, allow_gap="lost")


def test_accepted_gaps_stay_recorded(project):
    project.build()
    manifest = json.loads((project.version().path / "MANIFEST.json").read_bytes())
    assert manifest["gaps"] == []
    fix(project)
    project.build(replay=True)
    assert project.version().manifest.inputs == manifest["inputs"]


def test_log_files_are_read_again_while_they_are_those_of_the_plan(tmp_path):
    project = make_log_project(tmp_path)
    before = project.build()
    fix(project)
    report = project.build(replay=True)
    assert (report["verdict"], report["quarantined"]) == ("built", 0)
    assert report["samples"] == before["samples"] + before["quarantined"]


def test_log_files_that_changed_refuse_a_replay_and_are_named(tmp_path):
    project = make_log_project(tmp_path)
    project.build()
    fix(project)
    rewrite(project.logs / "part-0.txt", b"not json", b"NOT json")
    with pytest.raises(SourceReplacedError, match=r"part-0\.txt"):
        project.build(replay=True)
    assert project.folder.last_generation("2024-03-01") == 1


def test_landed_log_files_are_not_needed_any_more(tmp_path):
    project = make_log_project(tmp_path)
    project.edit("wait: 36500d", "wait: 36500d, land: true")
    project.build()
    fix(project)
    for path in project.logs.iterdir():
        path.unlink()
    report = project.build(replay=True)
    assert (report["verdict"], report["quarantined"], report["source_reads"]) == ("built", 0, 0)
