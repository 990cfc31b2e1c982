"""Folders of logs that are not complete in time: the outcome that the specification chooses."""

import json
import shutil
from datetime import UTC, datetime, timedelta

import pytest

from tests.unit.pipeline.log_project import DAY, make_log_project
from tests.unit.pipeline.preview.test_dry_run import tree
from trainfeed.errors import ConflictError, FormatError, LogsMissingError, WindowOpenError
from trainfeed.pipeline.planner.decision import require_complete, waits_until
from trainfeed.pipeline.preview import describe, dry_run
from trainfeed.versions import Manifest, read_skip

NEVER = "wait: 36500d"


@pytest.fixture
def project(tmp_path):
    """A day of long ago whose folder is not there, and whose wait has ended."""
    project = make_log_project(tmp_path)
    project.edit(NEVER, "wait: 2d")
    project.logs.rename(tmp_path / "kept")
    return project


def come(project):
    """Let the logs come after all."""
    (project.path / "kept").rename(project.logs)


def decide(project, missing):
    project.edit("wait: 2d", f"wait: 2d, missing: {missing}")


def test_the_wait_ends_a_while_after_the_interval_whenever_a_run_starts(project):
    ends = datetime(2024, 3, 4, tzinfo=UTC)
    assert waits_until(project.spec, project.interval()) == ends
    project.edit("wait: 2d", "wait: 2d, settle: 6h")
    assert waits_until(project.spec, project.interval()) == ends + timedelta(hours=6)


def test_a_folder_is_waited_for_two_days_unless_the_specification_says_otherwise(project):
    project.edit("wait: 2d", "")
    assert project.spec.source.logs.wait == timedelta(days=2)
    assert project.spec.source.logs.missing == "fail"


def test_until_the_wait_ends_the_interval_is_not_decided(project):
    project.edit("wait: 2d", "wait: 36500d, missing: skip")
    with pytest.raises(WindowOpenError, match="the folder is not there"):
        project.build()
    assert read_skip(project.folder, DAY) is None


def test_a_missing_folder_fails_with_what_was_expected_and_since_when(project):
    message = (
        r"expected the logs of clicks/2024-03-01, waited for from 2024-03-02T00:00:00Z to"
        r" 2024-03-04T00:00:00Z \(source\.logs\.wait\), got none: folder file://.*/dt=2024-03-01 is"
        r" not complete: the folder is not there; .*; nothing was read or written; .*run again"
    )
    with pytest.raises(LogsMissingError, match=message):
        project.build()
    with pytest.raises(LogsMissingError, match=message):
        require_complete(project.spec, project.interval(), project.env)
    assert not project.folder.interval(DAY).exists()


@pytest.mark.parametrize("rule", ["fail", "empty"])
def test_logs_that_changed_a_moment_ago_are_not_advised_to_be_left_out(project, rule):
    project.edit("wait: 2d", "wait: 2d, stable: 1h")
    decide(project, rule)
    come(project)
    with pytest.raises(LogsMissingError, match=r"run again after 20\S+Z$") as error:
        project.build()
    assert "missing: empty" not in str(error.value)
    assert "source.logs.missing" not in str(error.value)


def test_logs_that_changed_a_moment_ago_are_waited_for_and_not_skipped(project):
    project.edit("wait: 2d", "wait: 2d, stable: 1h")
    decide(project, "skip")
    come(project)
    with pytest.raises(WindowOpenError) as error:
        project.build()
    assert error.value.ready_at > datetime.now(UTC)
    assert read_skip(project.folder, DAY) is None


def test_the_neighbours_of_a_missing_folder_are_named(project):
    for name in ("dt=2024-02-28", "dt=2024-02-29", "dt=2024-03-02", "dt=2023-01-01", "other"):
        (project.logs.parent / name).mkdir()
    with pytest.raises(LogsMissingError, match="has dt=2024-02-28, dt=2024-02-29, dt=2024-03-02;"):
        project.build()


def test_a_folder_of_the_same_digits_is_named_alone(project):
    """The typical mistake: %Y-%m-%d in place of %Y%m%d."""
    for name in ("dt=20240301", "dt=2024-03-02", "dt=2024-02-29"):
        (project.logs.parent / name).mkdir()
    with pytest.raises(
        LogsMissingError,
        match=r"has dt=20240301, of the same digits: is source\.logs\.path right\?",
    ):
        project.build()


def test_of_a_path_that_is_not_there_the_last_part_that_is_there_is_looked_into(project):
    project.edit("/logs/clicks/", "/logs/cliks/daily/")
    with pytest.raises(LogsMissingError, match=r"file://\S*/store/logs has clicks;"):
        project.build()


def test_a_missing_folder_may_be_published_as_empty_with_the_reason(project):
    decide(project, "empty")
    report = project.build()
    assert (report["verdict"], report["samples"]) == ("built", 0)
    manifest = project.version().manifest
    assert manifest.empty
    assert manifest.empty_because == {
        f"/logs/clicks/dt={DAY}": "missing: the folder is not there; it was waited for until"
        " 2024-03-04T00:00:00Z"
    }
    assert project.build()["verdict"] == "identical"


def test_two_builds_of_a_missing_folder_give_the_same_manifest(project):
    decide(project, "empty")
    other = project.elsewhere("other")
    assert project.build()["manifest_sha256"] == other.build()["manifest_sha256"]


def test_a_version_that_is_not_empty_for_a_missing_folder_says_nothing_of_it(project):
    come(project)
    project.build()
    data = json.loads((project.version().path / "MANIFEST.json").read_bytes())
    assert "empty_because" not in data
    assert (
        Manifest.model_validate(data).to_bytes()
        == (project.version().path / "MANIFEST.json").read_bytes()
    )


@pytest.mark.parametrize("name", ["part-0.txt", "part-0.txt.tmp", "_temporary"])
def test_a_folder_that_holds_something_is_not_taken_as_empty(project, name):
    decide(project, "empty")
    project.logs.mkdir()
    (project.logs / name).write_text("lines\n")
    with pytest.raises(LogsMissingError, match="'missing: empty' speaks only for a folder that"):
        project.build()


def test_an_empty_interval_whose_logs_come_later_is_built_again_with_a_reason(project):
    decide(project, "empty")
    project.build()
    come(project)
    with pytest.raises(ConflictError, match="--rebuild"):
        project.build()
    report = project.build(rebuild="the logs came late")
    assert (report["generation"], report["samples"]) == ("g0002", 175)
    assert project.version().manifest.empty_because == {}


def test_a_missing_interval_may_be_left_out_with_a_marker(project):
    decide(project, "skip")
    report = project.build()
    assert (report["verdict"], report["source_reads"]) == ("skipped", 0)
    assert "build it by hand" in report["note"]
    skip = read_skip(project.folder, DAY)
    assert (skip.interval, skip.until) == (DAY, "2024-03-04T00:00:00Z")
    assert skip.why == (
        f"folder /logs/clicks/dt={DAY} of hdfs_default is not complete: the folder is not there; it"
        " was waited for until 2024-03-04T00:00:00Z"
    )
    assert not project.folder.interval(DAY).exists()
    assert require_complete(project.spec, project.interval(), project.env) == 0


def test_a_second_run_of_an_interval_that_is_left_out_keeps_the_first_decision(project):
    decide(project, "skip")
    project.build()
    first = read_skip(project.folder, DAY)
    assert project.build()["verdict"] == "skipped"
    assert read_skip(project.folder, DAY) == first


def test_an_interval_that_was_left_out_is_built_when_its_logs_have_come(project):
    decide(project, "skip")
    project.build()
    come(project)
    assert project.build()["verdict"] == "built"
    assert read_skip(project.folder, DAY) is None


def test_a_marker_that_a_kill_left_beside_a_version_goes_with_the_next_run(project):
    decide(project, "skip")
    project.build()
    marker = project.folder.skip(DAY).read_bytes()
    come(project)
    project.build()
    project.folder.skip(DAY).write_bytes(marker)
    assert project.build()["verdict"] == "identical"
    assert read_skip(project.folder, DAY) is None


def test_a_published_interval_is_never_left_out(project):
    come(project)
    project.build()
    decide(project, "skip")
    shutil.rmtree(project.logs)
    assert project.build()["verdict"] == "identical"
    with pytest.raises(WindowOpenError, match="the folder is not there"):
        project.build(rebuild="again")
    assert read_skip(project.folder, DAY) is None


@pytest.mark.parametrize("is_marked", [False, True])
def test_a_dry_run_says_that_the_interval_would_be_left_out_and_writes_nothing(project, is_marked):
    decide(project, "skip")
    if is_marked:
        project.build()
    before = tree(project.path)
    report = dry_run(project.spec, project.interval(), project.env)
    assert report.to_json()["verdict"] == "skipped"
    assert "would publish nothing" in describe(report)[0]
    assert tree(project.path) == before


@pytest.mark.parametrize("land", ["false", "true"])
def test_neither_rule_nor_wait_enters_the_content(project, land):
    come(project)
    other = project.elsewhere("other")
    project.build()
    project.edit("wait: 2d", f"wait: 9d, missing: skip, cut_line: keep, land: {land}")
    other.build()
    assert project.version().manifest.fingerprint == other.version().manifest.fingerprint


def test_a_damaged_marker_stops_nothing_but_the_decision(project):
    decide(project, "skip")
    project.folder.skip(DAY).parent.mkdir(parents=True)
    project.folder.skip(DAY).write_text("{}")
    with pytest.raises(FormatError, match="remove the file"):
        project.build()
    come(project)
    assert project.build()["verdict"] == "built"
