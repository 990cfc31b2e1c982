"""An attempt that does not publish its interval says why in the data set's folder, for people."""

import shutil
from datetime import UTC, datetime

import pytest

from tests.unit.pipeline.clicks import CODE
from tests.unit.pipeline.log_project import DAY, make_log_project
from tests.unit.pipeline.preview.test_dry_run import tree
from trainfeed.core.intervals import parse_time
from trainfeed.errors import (
    GateError,
    LogsMissingError,
    PreprocessError,
    TopicNotFoundError,
    WindowOpenError,
)
from trainfeed.pipeline.planner.decision import require_complete
from trainfeed.pipeline.preview import dry_run
from trainfeed.versions import read_skip, read_unpublished

GATE = "seed: 7\nquality:\n  - {check: count, min: 10000}\n"


def record(project, name="2024-03-01"):
    return read_unpublished(project.folder, name)


def test_a_failed_gate_is_recorded_in_one_line_and_a_publication_removes_the_record(project):
    project.edit("seed: 7\n", GATE)
    before = datetime.now(UTC).replace(microsecond=0)
    with pytest.raises(GateError) as failed:
        project.build()
    found = record(project)
    assert (found.work, found.outcome, found.error) == ("check", "failed", "GateError")
    assert found.why == str(failed.value).splitlines()[0]
    assert [found.plan] == project.folder.plan_ids("2024-03-01")
    assert before <= parse_time(found.since) <= datetime.now(UTC)
    project.edit(GATE, "seed: 7\n")
    project.build()
    assert record(project) is None


def test_the_record_names_the_error_of_a_function_without_its_secrets(project):
    project.edit(
        CODE,
        CODE.replace("row = record.json()", "raise ValueError('password=hunter2')"),
        "preprocess.py",
    )
    with pytest.raises(PreprocessError):
        project.build()
    found = record(project)
    assert (found.work, found.error) == ("preprocess", "PreprocessError")
    assert "hunter2" not in found.why
    assert "\n" not in found.why


def test_what_the_source_no_longer_has_is_recorded_before_there_is_a_plan(project):
    shutil.rmtree(project.path / "recorded")
    with pytest.raises(TopicNotFoundError):
        project.build()
    found = record(project)
    assert (found.work, found.plan, found.error) == ("plan", None, "TopicNotFoundError")


def test_a_failed_rebuild_is_recorded_beside_the_version_that_stays(project):
    project.build()
    project.edit("seed: 7\n", GATE)
    with pytest.raises(GateError):
        project.build(rebuild="gates")
    found = record(project)
    assert found.plan.endswith("-g0002")
    assert project.version().path.name == "g0001"
    project.edit(GATE, "seed: 7\n")
    assert project.build()["verdict"] == "identical"
    assert record(project) is None


def test_an_interval_that_is_not_over_leaves_no_record(project):
    project.edit("settle: 0s", "settle: 36500d")
    with pytest.raises(WindowOpenError):
        project.build()
    assert record(project) is None


def test_a_dry_run_leaves_no_record(project):
    shutil.rmtree(project.path / "recorded")
    before = tree(project.path)
    with pytest.raises(TopicNotFoundError):
        dry_run(project.spec, project.interval(), project.env)
    assert tree(project.path) == before


def test_a_record_that_cannot_be_written_hides_no_error(project, monkeypatch, caplog):
    from trainfeed.pipeline import run_stage as _recorded_end

    def refuse(*_):
        raise PermissionError("closed")

    monkeypatch.setattr(_recorded_end, "write_unpublished", refuse)
    project.edit("seed: 7\n", GATE)
    with pytest.raises(GateError):
        project.build()
    assert "trainfeed status will not name this error" in caplog.text


@pytest.fixture
def logs(tmp_path):
    """A day whose folder is not there."""
    project = make_log_project(tmp_path)
    project.logs.rename(tmp_path / "kept")
    return project


def test_a_wait_for_logs_is_recorded_with_its_begin(logs):
    with pytest.raises(WindowOpenError):
        require_complete(logs.spec, logs.interval(), logs.env)
    first = record(logs, DAY)
    assert (first.work, first.outcome, first.error) == ("logs", "waiting", "WindowOpenError")
    assert "the folder is not there" in first.why
    with pytest.raises(WindowOpenError):
        require_complete(logs.spec, logs.interval(), logs.env)
    assert record(logs, DAY) == first


def test_logs_that_never_came_are_a_failure_and_a_decision_to_skip_removes_the_record(logs):
    logs.edit("wait: 36500d", "wait: 2d")
    with pytest.raises(LogsMissingError):
        require_complete(logs.spec, logs.interval(), logs.env)
    assert record(logs, DAY).outcome == "failed"
    logs.edit("wait: 2d", "wait: 2d, missing: skip")
    logs.build()
    assert read_skip(logs.folder, DAY) is not None
    assert record(logs, DAY) is None
