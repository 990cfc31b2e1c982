"""A training DAG that is paused while versions are published: no training is lost, none runs twice.

Also: a training whose process is killed, and the reason of a failure.
"""

from __future__ import annotations

import pytest

from tests.e2e.ways import BUILD, NAMES, RUN_S, TRAIN, LocalGround, until

pytestmark = pytest.mark.timeout(1800)

KILLS_ITSELF_ONCE = """
import os
from pathlib import Path

_mark = Path({mark!r})
if not _mark.exists():
    _mark.touch()
    os.kill(os.getpid(), 9)
"""


@pytest.fixture(scope="module")
def ground(recorded, tmp_path_factory):
    """Days of flights whose first training is killed, as by the kernel when memory runs out."""
    path = tmp_path_factory.mktemp("paused")
    ground = LocalGround.make(path, recorded.kafka)
    module = ground.datasets / "flights" / "train.py"
    code = KILLS_ITSELF_ONCE.format(mark=str(path / "killed"))
    module.write_text(module.read_text() + code)
    return ground


@pytest.fixture(scope="module")
def airflow(ground):
    with ground.airflow() as airflow:
        airflow.client.pause(TRAIN)
        airflow.client.unpause(BUILD)
        yield airflow


def build(airflow, name, **params):
    (run,) = airflow.succeed([airflow.client.trigger(BUILD, {"window_start": name, **params})])
    return airflow.client.xcom(run, "publish"), run


def trained(airflow, count):
    """Wait for so many training runs in all; return their intervals, sorted."""
    until(lambda: len(airflow.client.dag_runs(TRAIN)) >= count, "the training runs")
    return sorted(run.partition_key for run in airflow.succeed(airflow.client.dag_runs(TRAIN)))


def log_of(airflow, run, task_id):
    (task,) = (
        task
        for task in airflow.client.task_instances(run.dag_id, run.run_id)
        if task.task_id == task_id
    )
    return airflow.client.log(run.dag_id, run.run_id, task)


def test_what_was_published_while_paused_is_trained_on_after_the_next_build(airflow, ground):
    for number, name in enumerate(NAMES[:2], start=1):
        report, run = build(airflow, name)
        assert (report["training"]["state"], report["training"]["untrained"]) == ("paused", number)
        assert report["training"]["caught_up"] == []
        assert "is paused, so Airflow drops the event" in log_of(airflow, run, "publish")
    airflow.client.unpause(TRAIN)
    report, _ = build(airflow, NAMES[2])
    assert report["training"]["caught_up"] == NAMES[:2]
    assert trained(airflow, 3) == NAMES
    assert len(ground.jobs()) == 3


def test_the_training_that_was_killed_was_tried_again(airflow):
    tries = [
        task.try_number
        for run in airflow.client.dag_runs(TRAIN)
        for task in airflow.client.task_instances(TRAIN, run.run_id)
        if task.task_id == "train"
    ]
    assert max(tries) == 2


def test_a_rebuild_while_paused_is_caught_up_by_an_identical_run_and_no_job_runs_twice(
    airflow, ground
):
    airflow.client.pause(TRAIN)
    build(airflow, NAMES[0], rebuild="to see")
    airflow.client.unpause(TRAIN)
    report, run = build(airflow, NAMES[1])
    assert (report["verdict"], report["training"]["caught_up"]) == ("identical", NAMES[:1])
    assert trained(airflow, 5) == sorted([*NAMES, *NAMES[:2]])
    assert len(ground.jobs()) == 3
    said = log_of(airflow, run, "publish")
    assert "published before; this run made nothing to compare with it" in said
    assert "clear" not in said


def test_a_further_run_starts_its_own_training_alone(airflow, ground):
    report, _ = build(airflow, NAMES[2])
    assert report["training"]["caught_up"] == []
    assert len(trained(airflow, 6)) == 6
    assert len(ground.jobs()) == 3


def test_the_log_of_a_failed_task_has_the_reason(airflow):
    run = airflow.client.trigger(BUILD, {"window_start": "2015-01-01"})
    (ended,) = airflow.client.wait_for([run], RUN_S)
    assert ended.state == "failed"
    assert "lies after the last interval, 2014-01-01" in airflow.logs(ended)
