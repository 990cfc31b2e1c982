"""Published versions that no training has seen: found, and trained on without a scheduler."""

from __future__ import annotations

import json
import logging
import subprocess

import pytest

from tests.unit.processes import LIMIT_S
from tests.unit.training.test_launch import arguments, run, trained  # noqa: F401
from trainfeed.errors import ConfigError, JobFailedError
from trainfeed.training.launch import missed, train_missed
from trainfeed.versions import TrainingMarks, Untrained

DAYS = ["2024-03-01", "2024-03-02"]


def untrained(project, *, older=False):
    found = missed(project.spec, TrainingMarks(project.folder), older=older)
    return [(each.interval, each.generation) for each in found]


def reports(project, *, older=False):
    return [
        (report["interval"], report["verdict"])
        for report in train_missed(project.spec, project.env, older=older)
    ]


def test_every_published_interval_is_trained_on_once_in_order(trained):  # noqa: F811
    for name in reversed(DAYS):
        trained.prebuilt(name)
    assert untrained(trained) == [(name, 1) for name in DAYS]
    assert reports(trained) == [(name, "ran") for name in DAYS]
    assert reports(trained) == []


def test_a_version_published_again_is_untrained_and_its_equal_content_no_further_job(trained):  # noqa: F811
    trained.prebuilt()
    run(trained)
    trained.prebuilt(rebuild="to see")
    assert untrained(trained) == [(DAYS[0], 2)]
    assert reports(trained) == [(DAYS[0], "adopted")]
    assert untrained(trained) == []


def test_an_interval_whose_window_is_incomplete_says_so_and_stays_untrained(trained, caplog):  # noqa: F811
    trained.build(DAYS[1])
    with caplog.at_level(logging.WARNING):
        assert reports(trained) == [(DAYS[1], "incomplete")]
    assert "not published yet: 2024-03-01" in caplog.text
    trained.build(DAYS[0])
    assert reports(trained) == [(name, "ran") for name in DAYS]


def test_a_job_that_fails_stops_the_others_which_stay_untrained(trained):  # noqa: F811
    for name in DAYS:
        trained.prebuilt(name)
    trained.edit("import os", "import os\n1 / 0", "train.py")
    with pytest.raises(JobFailedError):
        reports(trained)
    assert untrained(trained) == [(DAYS[1], 1)]


def test_a_training_added_later_leaves_older_versions_alone_unless_asked(project):
    project.prebuilt(DAYS[0])
    (project.env.datasets / "clicks" / "train.py").write_text("def main(job):\n    return {'a': 1}")
    project.edit("seed: 7", 'seed: 7\ntrain: {entry: "train:main"}')
    project.prebuilt(DAYS[1])
    assert untrained(project) == [(DAYS[1], 1)]
    assert reports(project, older=True) == [(name, "ran") for name in DAYS]


def test_the_interval_that_is_built_when_the_training_comes_is_not_older(project):
    project.prebuilt(DAYS[0])
    (project.env.datasets / "clicks" / "train.py").write_text("def main(job):\n    return {'a': 1}")
    project.edit("seed: 7", 'seed: 7\ntrain: {entry: "train:main"}')
    assert project.build(DAYS[0])["verdict"] == "identical"
    assert untrained(project) == [(DAYS[0], 1)]


def test_a_training_that_is_taken_away_for_a_while_asks_for_nothing_of_that_time(trained):  # noqa: F811
    trained.prebuilt(DAYS[0])
    run(trained)
    part = '\ntrain: {entry: "train:main", window: 2}'
    trained.edit(part, "")
    trained.prebuilt(DAYS[1])
    trained.edit("seed: 7", f"seed: 7{part}")
    trained.prebuilt(DAYS[0])
    assert untrained(trained) == []


def test_without_a_training_there_is_nothing_to_catch_up(project):
    with pytest.raises(ConfigError, match="has no training"):
        reports(project)


def test_an_interval_that_is_no_tick_any_more_is_left_out_and_named(trained, caplog):  # noqa: F811
    for name in DAYS:
        trained.build(name)
    trained.edit("start: 2024-03-01", "start: 2024-03-02")
    with caplog.at_level(logging.WARNING):
        assert untrained(trained) == [(DAYS[1], 1)]
    assert "clicks/2024-03-01 cannot be trained on" in caplog.text


def test_versions_are_compared_by_interval():
    assert Untrained("2024-03-01", 2) < Untrained("2024-03-02", 1)


def test_the_command_line_catches_up_and_says_when_nothing_is_left(trained):  # noqa: F811
    trained.prebuilt(DAYS[0])
    first, second = (catch_up(trained) for _ in range(2))
    assert [report["verdict"] for report in json.loads(first.stdout)] == ["ran"]
    assert (second.returncode, json.loads(second.stdout)) == (0, [])


def catch_up(project):
    asked = arguments(project)
    command = [*asked["args"][:4], "clicks", "--catch-up", "missed", "--json"]
    return subprocess.run(
        command, env=asked["env"], capture_output=True, text=True, check=False, timeout=LIMIT_S
    )
