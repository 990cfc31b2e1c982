"""The task of the DAG ``withdraw``: who signs, once per run, and what fails at once."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime

import pytest
from airflow.sdk.exceptions import AirflowFailException

from operators.corrections import WithdrawVersionOperator
from tests.unit.pipeline.conftest import make_project
from trainfeed.versions.withdraw import withdrawal_of

DAY = "2024-03-01"
FORM = {
    "action": "withdraw",
    "dataset": "clicks",
    "interval": DAY,
    "generation": None,
    "why": "labels of yesterday",
    "move_tags": False,
    "dry_run": False,
}


# A run keeps the time after which it may run when it is cleared.
STARTED = defaultdict(lambda: datetime.now(UTC))


@pytest.fixture
def project(tmp_path, connections, set_connection):
    STARTED.clear()
    project = make_project(tmp_path)
    project.prebuilt()
    set_connection("cephfs_default", extra={"path": project.env.root})
    return project


@pytest.fixture
def run(project, make_context):
    def go(request="run 1", user="ada", asked_at=None, **params):
        context = make_context("manual")
        context["params"] = FORM | params
        context["dag_run"].run_id, context["dag_run"].dag_id = request, "withdraw"
        context["dag_run"].run_after = asked_at or STARTED[request]
        context["dag_run"].triggering_user_name = user
        return WithdrawVersionOperator(task_id="withdraw").execute(context)

    return go


def test_the_user_of_the_run_signs_and_a_cleared_task_finds_it_done(project, run):
    assert not run(dry_run=True)["written"]
    assert run() == {
        "action": "withdraw",
        "target": f"clicks/{DAY}/g0001",
        "readers_get": None,
        "written": True,
    }
    assert not run()["written"]
    mark = withdrawal_of(project.folder, DAY, 1)
    assert (mark.who, mark.account) == ("ada", "Airflow run withdraw/run 1")
    with pytest.raises(AirflowFailException, match="withdrawn already"):
        run("run 2", generation="g0001")
    given = run("run 3", action="restore", why="they were right")
    assert (given["readers_get"], given["written"]) == ("g0001", True)
    assert not run("run 3", action="restore", why="they were right")["written"]


def test_a_run_without_a_person_and_wrong_forms_change_nothing(project, run):
    for wrong in (
        {"user": None},
        {"why": "x"},
        {"generation": "g0009"},
        {"action": "restore", "move_tags": True},
    ):
        with pytest.raises(AirflowFailException, match="nothing was changed"):
            run(**wrong)
    assert project.version().name == f"{DAY}/g0001"


def test_a_cleared_restoration_takes_no_later_withdrawal_back(project, run):
    run()
    asked_at = datetime.now(UTC)
    assert run("run 2", action="restore", asked_at=asked_at)["written"]
    run("run 3", why="wrong after all")
    # The run finds its own decision; a run that began before the withdrawal has none.
    assert not run("run 2", action="restore", asked_at=asked_at)["written"]
    with pytest.raises(AirflowFailException, match="after this restoration was asked for"):
        run("run 4", action="restore", asked_at=asked_at)
    assert withdrawal_of(project.folder, DAY, 1).why == "wrong after all"


def test_an_unknown_data_set_is_told_with_the_nearest_name(project, run):
    with pytest.raises(AirflowFailException, match=r"got 'click'; .*clicks"):
        run(dataset="click")


def test_a_tag_that_cannot_be_read_after_the_mark_fails_the_task_and_the_withdrawal_stands(
    project, run
):
    tags = project.folder.tags / "Old"
    tags.mkdir(parents=True)
    with pytest.raises(AirflowFailException, match="expected the name of a tag"):
        run()
    tags.rmdir()
    run()
    tags.mkdir()
    with pytest.raises(AirflowFailException, match=r"g0001 is withdrawn, which stands; .*tag Old"):
        run()
