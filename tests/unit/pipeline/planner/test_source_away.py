"""A published interval whose source is away is identical, with a note; other cases are errors."""

from __future__ import annotations

import logging
import shutil
from dataclasses import replace

import pytest

from tests.unit.pipeline.clicks import batch, day
from tests.unit.pipeline.log_project import make_log_project
from trainfeed.errors import (
    AccessDeniedError,
    ConfigError,
    ConflictError,
    SourceReplacedError,
    SourceUnreachableError,
    StorageError,
    TopicNotFoundError,
)
from trainfeed.files.stores import Location
from trainfeed.pipeline.planner import decision as logs_complete
from trainfeed.pipeline.preview import dry_run


@pytest.fixture
def unreachable(monkeypatch):
    """From now on, no broker answers."""

    def refuse(*_):
        raise SourceUnreachableError("topic 'clicks' at brokers b:9092: no answer in time")

    return lambda: monkeypatch.setattr("trainfeed.pipeline.inputs.topics.open_topic", refuse)


@pytest.fixture
def log_project(tmp_path):
    return make_log_project(tmp_path)


def forget_topic(project):
    shutil.rmtree(project.path / "recorded")


def test_a_published_interval_stays_green_when_its_topic_is_gone(project, caplog):
    first = project.build()
    forget_topic(project)
    with caplog.at_level(logging.WARNING):
        again = project.build()
    assert (again["verdict"], again["source_reads"]) == ("identical", 0)
    assert again["manifest_sha256"] == first["manifest_sha256"]
    note = (
        "g0001 is published from this code, specification and lookups; its source was not compared:"
        " TopicNotFoundError: expected recorded topic 'clicks'"
    )
    assert again["note"].startswith(note)
    assert note in caplog.text


def test_a_published_interval_stays_green_when_no_broker_answers(project, unreachable):
    project.build()
    unreachable()
    again = project.build()
    assert again["verdict"] == "identical"
    assert "not compared: SourceUnreachableError: topic 'clicks' at brokers" in again["note"]


def test_a_dry_run_says_the_same_when_the_topic_is_gone(project):
    project.build()
    forget_topic(project)
    report = dry_run(project.spec, project.interval(), project.env)
    assert report.verdict == "identical"
    assert "its source was not compared" in report.note


def test_a_published_plan_that_was_deleted_is_made_again_without_the_topic(project):
    project.build()
    plan_file = project.folder.plan("2024-03-01", project.version().manifest.plan)
    content = plan_file.read_bytes()
    plan_file.unlink()
    forget_topic(project)
    assert project.build()["verdict"] == "identical"
    assert plan_file.read_bytes() == content


def test_a_gap_that_was_allowed_does_not_hide_that_it_is_identical(project):
    project.record({0: [batch(day(1, 40), first=500)]})
    project.build("2024-03-01", allow_gap="lost")
    forget_topic(project)
    assert project.build("2024-03-01")["verdict"] == "identical"


def test_a_topic_that_was_made_again_is_still_a_replaced_one(project):
    project.build()
    rows = {p: [batch(day(0, 60 + p) + day(1, 40 + p) + day(2, 30))] for p in range(3)}
    project.record(rows, uuid="22222222-2222-4222-8222-222222222222")
    with pytest.raises(SourceReplacedError, match="were replaced"):
        project.build()


@pytest.mark.parametrize(
    ("file", "old", "new", "what"),
    [
        ("preprocess.py", '"label": n', '"label": n + 1', "the code"),
        ("dataset.yaml", "seed: 7", "seed: 8", "spec.seed: 7 → 8"),
    ],
)
def test_changed_code_or_specification_is_a_conflict_without_the_topic_too(
    project, file, old, new, what
):
    project.build()
    project.edit(old, new, file)
    forget_topic(project)
    with pytest.raises(ConflictError, match=f"published from other inputs: {what}"):
        project.build()


def test_an_interval_that_is_not_published_needs_its_topic(project):
    project.build()
    forget_topic(project)
    with pytest.raises(TopicNotFoundError):
        project.build("2024-03-02")


def test_a_rebuild_needs_its_topic(project):
    project.build()
    forget_topic(project)
    with pytest.raises(TopicNotFoundError):
        project.build(rebuild="labels")


def test_a_connection_that_is_not_defined_is_a_mistake_published_or_not(project):
    project.build()
    nothing = replace(project, env=replace(project.env, kafka={}))
    with pytest.raises(ConfigError, match="connection 'kafka_default' is not defined"):
        nothing.build()


def test_a_published_interval_stays_green_when_the_logs_do_not_answer(log_project, monkeypatch):
    log_project.build()
    down(monkeypatch, StorageError("webhdfs://n:9870: Connection refused"))
    assert ask(log_project) == 0
    again = log_project.build()
    assert again["verdict"] == "identical"
    assert "its source was not compared: StorageError: webhdfs://n:9870" in again["note"]


def test_logs_that_do_not_answer_stop_an_interval_that_is_not_published(log_project, monkeypatch):
    down(monkeypatch, StorageError("webhdfs://n:9870: Connection refused"))
    for call in (log_project.build, lambda: ask(log_project)):
        with pytest.raises(StorageError, match="Connection refused"):
            call()


def test_logs_that_may_not_be_read_are_a_mistake_published_or_not(log_project, monkeypatch):
    log_project.build()
    down(monkeypatch, AccessDeniedError("permission denied"))
    for call in (log_project.build, lambda: ask(log_project)):
        with pytest.raises(AccessDeniedError):
            call()


def ask(project):
    return logs_complete.require_complete(project.spec, project.interval(), project.env)


def down(monkeypatch, error):
    """From now on, the file system of the logs raises ``error``."""
    inside = Location.exists

    def refuse(location):
        if "/store/" in location.uri:
            raise error
        return inside(location)

    monkeypatch.setattr(Location, "exists", refuse)
