"""The task of the DAG ``tag``: who signs, once per run, and what fails at once."""

from __future__ import annotations

import pytest
from airflow.sdk.exceptions import AirflowFailException

from operators.corrections import TagVersionsOperator
from tests.unit.versions.tags.conftest import ASKED, DAYS, clicks
from trainfeed.versions.tag_files import current_tag, tag_history

__all__ = ["clicks"]

FORM = {
    "action": "tag",
    "dataset": "clicks",
    "tag": "prod",
    "range": ASKED,
    "why": "released",
    "allow_missing": False,
    "verify": False,
    "dry_run": False,
}


@pytest.fixture
def tagger(clicks, connections, set_connection, make_context):
    """Run the task with changes of the form; returns its report."""
    set_connection("cephfs_default", extra={"path": str(clicks.folder.root)})
    clicks.publish(*DAYS[:5])

    def run(request="run 1", user="ada", dag_id="tag", **params):
        context = make_context("manual")
        context["params"] = FORM | params
        context["dag_run"].run_id, context["dag_run"].dag_id = request, dag_id
        context["dag_run"].triggering_user_name = user
        return TagVersionsOperator(task_id="tag").execute(context)

    return run


def test_the_user_of_the_run_gives_the_tag_and_a_cleared_task_changes_nothing(clicks, tagger):
    assert tagger()["written"]
    assert current_tag(clicks.folder, "prod").decision.who == "ada"
    clicks.publish(DAYS[0], generation=2)
    assert tagger("run 2")["number"] == 2
    again = tagger("run 1")
    assert (again["number"], again["written"]) == (1, False)
    assert len(tag_history(clicks.folder, "prod")) == 2


@pytest.mark.parametrize("asked", [f"{DAYS[0]}/g0001", f"{DAYS[0]}T00:00:00Z"])
def test_a_cleared_task_finds_its_change_however_its_range_is_written(clicks, tagger, asked):
    first = tagger(range=asked)
    assert (first["number"], first["written"]) == (1, True)
    again = tagger(range=asked)
    assert (again["number"], again["written"]) == (1, False)
    with pytest.raises(AirflowFailException, match="asked for something else now"):
        tagger(range=DAYS[1])


def test_a_run_without_a_person_is_refused_whatever_its_id(clicks, tagger):
    with pytest.raises(AirflowFailException, match="expected a run that a user of Airflow started"):
        tagger(user=None)
    assert current_tag(clicks.folder, "prod") is None


def test_a_run_is_not_asked_for_something_else_later(clicks, tagger):
    tagger()
    for change in ({"range": DAYS[0]}, {"why": "another"}, {"action": "untag", "range": None}):
        with pytest.raises(AirflowFailException, match="asked for something else now"):
            tagger(**change)
    assert tagger(request="run 1", dag_id="other", range=DAYS[0])["number"] == 2


def test_an_unknown_data_set_is_told_with_the_nearest_name(tagger):
    with pytest.raises(AirflowFailException, match=r"got 'click'; .*clicks"):
        tagger(dataset="click")


def test_a_dry_run_logs_what_would_change(clicks, tagger, caplog):
    with caplog.at_level("INFO"):
        assert not tagger(dry_run=True)["written"]
    assert f"{DAYS[0]}: from nothing to g0001" in caplog.text
    assert current_tag(clicks.folder, "prod") is None


def test_a_tag_is_removed_as_a_whole(clicks, tagger):
    tagger()
    with pytest.raises(AirflowFailException, match="expected no range beside untag"):
        tagger("run 2", action="untag")
    assert not tagger("run 2", action="untag", range=None, dry_run=True)["written"]
    assert tagger("run 2", action="untag", range=None)["written"]
    assert not tagger("run 2", action="untag", range=None)["written"]
    assert current_tag(clicks.folder, "prod").kind == "untag"


def test_a_form_without_a_range_or_with_a_strange_name_fails_at_once(tagger):
    with pytest.raises(AirflowFailException, match="expected a range to tag"):
        tagger(range=None)
    with pytest.raises(AirflowFailException, match="expected the name of a tag"):
        tagger(tag="g0001")
