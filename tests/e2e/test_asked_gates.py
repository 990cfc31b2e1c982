"""Gates that ask, in a real Airflow: answered by REST; and the DAG ``waive.<data set>``."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.e2e.test_approval import task
from tests.e2e.ways import BUILD, NAMES, LocalGround, until
from trainfeed.versions import read_unpublished

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1200)]

WAIVE = "waive.flights"
# A day of January has fewer departures.
EDITS = [
    ("{check: count, min: 50, severity: block}", "{check: count, min: 5000, severity: ask}"),
    ("max: 0.01, severity: block", "max: 0.0, severity: warn"),
]


@pytest.fixture(scope="module")
def ground(recorded, tmp_path_factory):
    return LocalGround.make(tmp_path_factory.mktemp("asked"), recorded.kafka, edits=EDITS)


@pytest.fixture(scope="module")
def airflow(ground):
    with ground.airflow() as airflow:
        for dag in (BUILD, WAIVE):
            airflow.client.unpause(dag)
        yield airflow


@pytest.fixture(scope="module")
def asked(airflow):
    """Build runs by day, each of which waits for an answer."""
    runs = {name: airflow.client.trigger(BUILD, {"window_start": name}) for name in NAMES}
    for run in runs.values():
        until(lambda run=run: asks(airflow, run), "the question", 600)
    return runs


def asks(airflow, run):
    """Whether a run waits, and the scheduler has seen the end of the asking process."""
    found = task(airflow, run, "ask")
    if found.state != "awaiting_input":
        return False
    key = f"task_id='ask', run_id='{run.run_id}', try_number={found.try_number},"
    log = (airflow.stack.home / "logs" / "scheduler.log").read_text(errors="replace")
    return any(key in line for line in log.splitlines() if "Received executor event" in line)


def test_runs_that_wait_for_a_person_hold_no_slot_and_show_the_gates(airflow, ground, asked):
    until(lambda: airflow.client.occupied() == 0, "the end of the tasks that hold slots")
    question = airflow.client.question(asked[NAMES[0]], "ask")
    assert question["subject"] == f"Publish flights/{NAMES[0]} although gates ask?"
    assert "count is " in question["body"]
    assert "allowed: min 5000" in question["body"]
    assert read_unpublished(ground.folder, NAMES[0]).outcome == "waiting"
    assert ground.folder.intervals() == []


def test_an_approved_build_is_published_with_the_name_of_the_user(airflow, ground, asked):
    run = asked[NAMES[0]]
    airflow.client.answer(run, "ask", "Approve", {"why": "a quiet day", "days": 3})
    airflow.succeed([run])
    (waiver,) = ground.versions(NAMES[:1])[NAMES[0]].manifest.waivers
    assert (waiver["why"], waiver["account"]) == ("a quiet day", f"Airflow run {run.run_id}")
    assert waiver["who"] == airflow.client.question(run, "ask")["responded_by_user"]["name"]
    tries = {each.task_id: each.try_number for each in tasks(airflow, run)}
    assert (tries["preprocess"], tries["convert"], tries["check"]) == (1, 1, 1)


def tasks(airflow, run):
    return airflow.client.task_instances(run.dag_id, run.run_id)


def test_a_rejected_build_fails_for_good_and_the_record_names_who(airflow, ground, asked):
    run = asked[NAMES[1]]
    airflow.client.answer(run, "ask", "Reject", {"why": "a broken feed", "days": 7})
    (ended,) = airflow.client.wait_for([run], 600)
    assert ended.state == "failed"
    states = {each.task_id: each.state for each in tasks(airflow, run)}
    assert (states["ask"], states["publish"]) == ("failed", "upstream_failed")
    record = read_unpublished(ground.folder, NAMES[1])
    who = airflow.client.question(run, "ask")["responded_by_user"]["name"]
    assert f"{who} rejected it: a broken feed" in record.why
    assert ground.folder.generations(NAMES[1]) == []


def test_the_form_waives_a_rejected_build_and_a_new_run_publishes_what_was_made(
    airflow, ground, asked
):
    until_day = f"{datetime.now(UTC) + timedelta(days=5):%Y-%m-%d}"
    form = {"interval": NAMES[1], "why": "it is right", "until": until_day}
    waived = airflow.client.trigger(WAIVE, form)
    airflow.succeed([waived])
    run = next(r for r in airflow.client.dag_runs(BUILD) if r.run_id not in known(asked))
    airflow.succeed([run])
    assert airflow.client.xcom(run, "preprocess", 0)["verdict"] == "adopted"
    assert airflow.client.xcom(run, "convert", 0)["verdict"] == "adopted"
    assert task(airflow, run, "ask").state == "skipped"
    (waiver,) = ground.versions(NAMES[1:2])[NAMES[1]].manifest.waivers
    assert (waiver["why"], waiver["account"]) == ("it is right", f"Airflow run {waived.run_id}")
    assert waiver["who"]


def known(asked):
    return {run.run_id for run in asked.values()}
