"""Gates that ask: the question in Airflow, each answer, and the DAG ``waive.<data set>``."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from airflow.providers.standard.operators import hitl
from airflow.sdk.exceptions import (
    AirflowFailException,
    AirflowSkipException,
    TaskAwaitingInput,
)

from operators.ask_waiver import ANSWER_FORM, AskWaiverOperator
from operators.corrections import WaiveGatesOperator
from operators.stages import CheckOperator
from tests.unit.pipeline.clicks import Project
from tests.unit.pipeline.conftest import make_project
from trainfeed.errors import GateError
from trainfeed.pipeline import PlanRef
from trainfeed.pipeline.waivers import WaiverWish, waivable, waive
from trainfeed.versions import read_unpublished
from trainfeed.versions.waive import read_waivers

DAY = "2024-03-01"
ASK = "quality: [{check: quarantine_ratio, max: 0.05, severity: ask}]"
BOTH = "quality: [{check: quarantine_ratio, max: 0.05, severity: ask}, {check: count, max: 3}]"
USER = {"id": "1", "name": "ana"}


@pytest.fixture
def project(tmp_path, monkeypatch, set_connection):
    """A data set whose gate asks, and the connections of its tasks."""
    project = make_project(tmp_path)
    monkeypatch.setenv("TRAINFEED_DATASETS", str(project.env.datasets))
    places = {"landing": project.env.landing, "work": project.env.work}
    set_connection("hdfs_default", conn_type="file", extra=places)
    set_connection("cephfs_default", extra={"path": project.env.root})
    recorded = {"recorded": str(tmp_path / "recorded")}
    set_connection("kafka_default", conn_type="kafka", extra=recorded)
    return project


@pytest.fixture
def asked(project):
    return refused(project, ASK)


def refused(project, gates):
    project.edit("seed: 7", f"seed: 7\n{gates}")
    with pytest.raises(GateError):
        project.build()
    return project


@pytest.fixture
def questions(monkeypatch):
    """The questions that tasks wrote to Airflow's database."""
    made = []
    monkeypatch.setattr(hitl, "upsert_hitl_detail", lambda **question: made.append(question))
    return made


def plan_of(project: Project):
    ref = PlanRef("clicks", DAY, project.folder.plan_ids(DAY)[0])
    units = {stage: [{"unit": 0}] for stage in ("ingest", "preprocess", "convert")}
    return {**ref.to_json(), "generation": "g0001", "verdict": "build", "seconds": 0.1, **units}


def check(project, make_context, *, asks=True):
    task = CheckOperator(task_id="check", dataset="clicks", plan=plan_of(project), asks=asks)
    return task.execute(make_context("scheduled"))


def ask(project, checked):
    return AskWaiverOperator(
        task_id="ask",
        dataset="clicks",
        plan=plan_of(project),
        checked=checked,
        params=dict(ANSWER_FORM),
        response_timeout=timedelta(days=7),
    )


def event(option="Approve", *, user=USER, timed_out=False, **form):
    return {
        "chosen_options": [option],
        "params_input": {"why": None, "days": 7, **form},
        "responded_at": datetime.now(UTC),
        "responded_by_user": user,
        "timedout": timed_out,
    }


def answer(project, make_context, context=None, *, checked=None, **changes):
    task = ask(project, checked or check(project, make_context))
    return task.execute_complete(context or context_of(make_context, task), event(**changes))


def waiting_context(make_context, project):
    context = context_of(make_context, ask(project, {}))
    return {**context, "task_instance": type("Instance", (), {"id": "1"})}


def context_of(make_context, task):
    context = make_context("scheduled")
    return {**context, "task": task}


def test_a_check_that_only_asks_leaves_the_question_to_the_next_task(asked, make_context):
    report = check(asked, make_context)
    assert report["verdict"] == "asks"
    assert report["report"]["gates"][0]["passed"] is False
    with pytest.raises(AirflowFailException, match="is not published: quarantine_ratio"):
        check(asked, make_context, asks=False)


def test_a_gate_that_blocks_fails_the_check_also_beside_one_that_asks(project, make_context):
    refused(project, BOTH)
    with pytest.raises(AirflowFailException, match="is not published"):
        check(project, make_context)


def test_the_question_shows_the_gates_and_the_status_says_that_a_person_is_asked(
    asked, make_context, questions
):
    task = ask(asked, check(asked, make_context))
    context = context_of(make_context, task)
    context["task_instance"] = type("Instance", (), {"id": "1"})
    with pytest.raises(TaskAwaitingInput):
        task.execute(context)
    (question,) = questions
    assert question["subject"] == f"Publish clicks/{DAY} although gates ask?"
    assert "quarantine_ratio is 0.0983607, allowed: max 0.05" in question["body"]
    assert set(question["params"]) == {"why", "days"}
    assert question["defaults"] == ["Reject"]
    waiting = read_unpublished(asked.folder, DAY)
    assert (waiting.outcome, waiting.work) == ("waiting", "ask")
    assert "a person is asked in Airflow" in waiting.why


def test_the_task_is_skipped_when_no_gate_asks(asked):
    with pytest.raises(AirflowSkipException, match="no gate asks"):
        ask(asked, {"verdict": "built"}).execute({})


def test_an_approval_is_a_waiver_of_the_airflow_user_and_the_build_passes(asked, make_context):
    report = answer(asked, make_context, why="a storm", days=3)
    (waiver,) = read_waivers(asked.folder, DAY, plan_of(asked)["plan_id"]).values()
    assert (waiver.who, waiver.account, waiver.why) == (
        "ana",
        "Airflow run some_dag/run 1",
        "a storm",
    )
    assert report["verdict"] == "built"
    (told,) = report["waived"]
    assert told.startswith("quarantine_ratio waived by ana (Airflow run some_dag/run 1) until ")
    asked.prebuilt()
    assert asked.version().manifest.waivers[0]["who"] == "ana"


def test_a_second_try_after_the_answer_does_not_ask_again(asked, make_context, questions):
    checked = check(asked, make_context)
    answer(asked, make_context, checked=checked, why="a storm")
    report = ask(asked, checked).execute(make_context("scheduled"))
    assert (report["verdict"], questions) == ("built", [])
    ben = {"id": "2", "name": "ben"}
    answer(asked, make_context, checked=checked, why="another reason", user=ben)
    assert len(read_waivers(asked.folder, DAY, plan_of(asked)["plan_id"])) == 1


def test_a_question_of_an_earlier_release_is_asked_in_its_own_words(asked, make_context, questions):
    checked = check(asked, make_context)
    for gate in checked["question"]["gates"]:
        gate["because"] = "12 records of 122"
    with pytest.raises(TaskAwaitingInput):
        ask(asked, checked).execute(waiting_context(make_context, asked))
    answer(asked, make_context, checked=checked, why="a storm")
    assert asked.build()["verdict"] == "built"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"option": "Reject", "why": "no storm"}, "gates ask, and ana rejected it: no storm;"),
        ({"option": "Reject"}, "gates ask, and ana rejected it;"),
        (
            {"option": "Reject", "user": None, "timed_out": True},
            r"gates ask, and nobody answered within 7 days, 0:00:00;",
        ),
    ],
)
def test_without_an_approval_the_run_fails_for_good_and_says_why(
    asked, make_context, changes, message
):
    context = make_context("scheduled")
    with pytest.raises(AirflowFailException, match=message):
        answer(asked, make_context, context, **changes)
    failure = context["ti"].xcoms["failure"]
    assert (failure["error"], failure["retries"]) == ("GateError", False)
    ended = read_unpublished(asked.folder, DAY)
    assert (ended.outcome, ended.work) == ("failed", "ask")
    assert asked.folder.generations(DAY) == []


@pytest.mark.parametrize("why", [None, "   ", " a ", "two\nlines"])
def test_an_approval_without_a_reason_is_asked_again(asked, make_context, questions, why):
    context = waiting_context(make_context, asked)
    with pytest.raises(TaskAwaitingInput):
        answer(asked, make_context, context, why=why)
    assert "quarantine_ratio is 0.0983607" in questions[0]["body"]
    assert read_unpublished(asked.folder, DAY).outcome == "waiting"
    assert read_waivers(asked.folder, DAY, plan_of(asked)["plan_id"]) == {}


def test_an_approval_waives_no_gate_that_another_waiver_let_pass(project, make_context):
    refused(project, BOTH)
    now = datetime.now(UTC)
    wish = WaiverWish("bob", "bob", "only today", now + timedelta(hours=1), ("count",))
    waive(project.env, waivable(project.folder, DAY), wish, now)
    answer(project, make_context, why="a storm")
    waivers = read_waivers(project.folder, DAY, plan_of(project)["plan_id"]).values()
    names = {each.who: [gate["check"] for gate in each.gates] for each in waivers}
    assert names == {"bob": ["count"], "ana": ["quarantine_ratio"]}


def test_an_answer_to_a_question_about_other_gates_waives_nothing(asked, make_context, questions):
    checked = check(asked, make_context)
    asked.edit("severity: ask}]", "severity: ask}, {check: count, max: 3}]")
    with pytest.raises(GateError):
        asked.build()
    with pytest.raises(AirflowFailException, match="measured again, or waived, since the question"):
        answer(asked, make_context, checked=checked, why="a storm")
    assert read_waivers(asked.folder, DAY, plan_of(asked)["plan_id"]) == {}
    asked.edit("{check: count, max: 3}", "{check: count, max: 3, severity: ask}")
    with pytest.raises(GateError):
        asked.build()
    with pytest.raises(AirflowFailException, match="clear the task check"):
        ask(asked, checked).execute(waiting_context(make_context, asked))
    assert questions == []


def form(make_context, user="ana", **changes):
    context = make_context("manual")
    context["dag_run"].triggering_user_name = user
    until = f"{datetime.now(UTC) + timedelta(days=2):%Y-%m-%d}"
    empty = dict.fromkeys(("plan", "check", "field"))
    wanted = {"interval": DAY, "why": "a storm", "until": until}
    context["params"] = {**wanted, **empty, **changes}
    return context


def test_the_form_waives_in_the_name_of_the_user_and_says_which_run_publishes(
    project, make_context
):
    refused(project, BOTH)
    task, context = WaiveGatesOperator(task_id="waive", dataset="clicks"), form(make_context)
    done = task.execute(context)
    assert done["waiver"]["who"] == "ana"
    assert [gate["check"] for gate in done["waiver"]["gates"]] == ["quarantine_ratio", "count"]
    assert done["conf"] == {
        "window_start": DAY,
        "replay": False,
        "rebuild": None,
        "allow_gap": None,
    }
    assert task.execute(context) == done
    assert project.build()["verdict"] == "built"


def test_the_form_waives_a_chosen_gate_only(project, make_context):
    refused(project, BOTH)
    done = WaiveGatesOperator(task_id="waive", dataset="clicks").execute(
        form(make_context, check="count")
    )
    assert [gate["check"] for gate in done["waiver"]["gates"]] == ["count"]


@pytest.mark.parametrize(
    ("user", "changes", "message"),
    [
        (None, {}, "a run that a user of Airflow started"),
        ("ana", {"whoo": "eve"}, "got 'whoo'"),
        ("ana", {"until": "2020-01-01"}, "an end of the waiver after now"),
        ("ana", {"interval": "2024-03-02"}, "there is nothing to waive"),
    ],
)
def test_a_wrong_form_fails_at_once_and_writes_nothing(asked, make_context, user, changes, message):
    with pytest.raises(AirflowFailException, match=message):
        WaiveGatesOperator(task_id="waive", dataset="clicks").execute(
            form(make_context, user, **changes)
        )
    assert read_waivers(asked.folder, DAY, plan_of(asked)["plan_id"]) == {}
