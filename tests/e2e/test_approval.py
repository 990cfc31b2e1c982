"""``promote: approve`` in a real Airflow: a person is asked, answers by REST, and may change a no.

The answers go to the interface that the page *Required Actions* uses.
"""

from __future__ import annotations

import pytest

from services.airflow_client import AirflowRequestError
from tests.e2e.ways import BUILD, NAMES, TRAIN, LocalGround, until
from trainfeed.training.models import (
    CANDIDATE,
    PROD,
    ModelsFolder,
    current,
    current_version,
    history,
)

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1200)]

EDITS = [("promote: automatic", "promote: approve"), ("window: 3", "window: 1")]


@pytest.fixture(scope="module")
def ground(recorded, tmp_path_factory):
    return LocalGround.make(tmp_path_factory.mktemp("approval"), recorded.kafka, edits=EDITS)


@pytest.fixture(scope="module")
def airflow(ground):
    with ground.airflow() as airflow:
        airflow.client.unpause(BUILD)
        yield airflow


@pytest.fixture(scope="module")
def asked(airflow):
    """Training runs by day, each of which waits for an answer."""
    names = NAMES[:2]
    for name in names:
        airflow.succeed([airflow.client.trigger(BUILD, {"window_start": name})])
    until(lambda: len(airflow.client.dag_runs(TRAIN)) == len(names), "the training runs", 600)
    runs = {run.partition_key: run for run in airflow.client.dag_runs(TRAIN)}
    for run in runs.values():
        until(lambda run=run: asks(airflow, run), "the question", 600)
    return runs


def asks(airflow, run):
    """Whether a run waits for an answer, and the scheduler has seen the end of the asking process.

    An answer that comes earlier starts the task again before the scheduler looks at that end. The
    scheduler then takes the new process for one that was lost, and asks again.
    """
    approve = task(airflow, run, "approve")
    if approve.state != "awaiting_input":
        return False
    key = f"task_id='approve', run_id='{run.run_id}', try_number={approve.try_number},"
    log = (airflow.stack.home / "logs" / "scheduler.log").read_text(errors="replace")
    return any(key in line for line in log.splitlines() if "Received executor event" in line)


def task(airflow, run, task_id):
    tasks = airflow.client.task_instances(run.dag_id, run.run_id)
    return next(each for each in tasks if each.task_id == task_id)


def state(airflow, run, task_id):
    return task(airflow, run, task_id).state


def models(ground):
    return ModelsFolder(ground.root).known("flights")


def test_a_run_that_waits_for_a_person_holds_no_slot_and_says_what_it_asks(airflow, ground, asked):
    until(lambda: airflow.client.occupied() == 0, "the end of the tasks that hold slots")
    question = airflow.client.question(asked[NAMES[1]], "approve")
    version = current_version(models(ground), CANDIDATE)
    assert question["subject"] == f"Promote flights/{version}?"
    assert "passed its gate (not compared: there is no promoted model)" in question["body"]
    assert "Approved, prod of flights points to it; rejected" in question["body"]
    assert question["options"] == ["Approve", "Reject"]
    assert current(models(ground), PROD) is None


def test_a_model_that_is_approved_is_promoted(airflow, ground, asked):
    run = asked[NAMES[0]]
    version = airflow.client.xcom(run, "evaluate")["version"]
    airflow.client.answer(run, "approve", "Approve")
    airflow.succeed([run])
    assert state(airflow, run, "promote") == "success"
    assert current_version(models(ground), PROD) == version
    with pytest.raises(AirflowRequestError, match="409"):
        airflow.client.answer(run, "approve", "Reject")


def test_a_model_that_is_rejected_stays_the_candidate_and_its_run_ends_green(
    airflow, ground, asked
):
    run, before = asked[NAMES[1]], history(models(ground), PROD)
    version = airflow.client.xcom(run, "evaluate")["version"]
    airflow.client.answer(run, "approve", "Reject")
    airflow.succeed([run])
    assert (state(airflow, run, "approve"), state(airflow, run, "promote")) == (
        "success",
        "skipped",
    )
    assert history(models(ground), PROD) == before
    assert (models(ground).path / version).is_dir()


def test_a_rejected_promotion_that_is_cleared_alone_is_skipped_again(airflow, ground, asked):
    run, before = asked[NAMES[1]], history(models(ground), PROD)
    airflow.client.clear(TRAIN, run.run_id, task_ids=["promote"])
    airflow.succeed([run])
    assert state(airflow, run, "promote") == "skipped"
    assert history(models(ground), PROD) == before


def test_a_rejection_that_is_cleared_asks_again_and_may_be_approved(airflow, ground, asked):
    run = asked[NAMES[1]]
    airflow.client.clear(TRAIN, run.run_id, task_ids=["approve", "promote"])
    until(lambda: asks(airflow, run), "the question")
    question = airflow.client.question(run, "approve")
    assert question["response_received"] is False
    airflow.client.answer(run, "approve", "Approve")
    airflow.succeed([run])
    version = airflow.client.xcom(run, "evaluate")["version"]
    assert airflow.client.xcom(run, "promote")["prod"] == version
    assert current_version(models(ground), PROD) == version
    assert len(ground.jobs()) == 2
