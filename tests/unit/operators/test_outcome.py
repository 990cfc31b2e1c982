"""Every error of trainfeed has the outcome that its class promises; others pass through."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from airflow.sdk.exceptions import (
    AirflowFailException,
    AirflowRescheduleException,
    AirflowSkipException,
)

from operators.outcome import airflow_outcome, call_again
from trainfeed import errors

TREE = [getattr(errors, name) for name in errors.__all__ if name != "Outcome"]
RAISED = {errors.Outcome.FAIL: AirflowFailException}


@pytest.mark.parametrize("kind", TREE, ids=lambda kind: kind.__name__)
def test_every_class_of_the_tree_has_its_outcome(kind):
    expected = RAISED.get(kind.outcome, kind)
    with pytest.raises(expected, match="the message stays") as caught, airflow_outcome():
        raise kind("the message stays")
    assert type(caught.value) is expected


@pytest.mark.parametrize("kind", TREE, ids=lambda kind: kind.__name__)
def test_the_log_begins_with_class_and_message(kind, caplog):
    with pytest.raises(Exception, match="why"), airflow_outcome():
        raise kind("why\nand where")
    first = caplog.records[0]
    assert (first.levelname, first.getMessage()) == ("ERROR", f"{kind.__name__}: why\nand where")
    assert first.exc_info is None


def test_what_fails_for_good_is_told_without_the_stack_that_led_to_it(caplog):
    caplog.set_level("DEBUG", "operators.outcome")
    failed = errors.GateError("why")
    with pytest.raises(AirflowFailException) as caught, airflow_outcome():
        raise failed from KeyError("a")
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
    assert caplog.records[1].exc_info[1] is failed
    assert caplog.records[1].levelname == "DEBUG"


@pytest.mark.parametrize("kind", TREE, ids=lambda kind: kind.__name__)
def test_a_failure_is_left_for_the_page_of_the_run(kind, make_context):
    context = make_context()
    with pytest.raises(Exception, match="why"), airflow_outcome(context):
        raise kind("why " + "x" * 100_000)
    left = context["ti"].xcoms["failure"]
    assert left["error"] == kind.__name__
    assert left["message"].startswith("why x")
    assert len(left["message"]) == 8_000
    assert left["retries"] is (kind.outcome is errors.Outcome.RETRY)


def test_a_failed_gate_leaves_its_report(make_context):
    context = make_context()
    with pytest.raises(AirflowFailException), airflow_outcome(context):
        raise errors.GateError("why", report={"counts": {"read": 3}})
    assert context["ti"].xcoms["failure"]["report"] == {"counts": {"read": 3}}


def test_a_failure_that_cannot_be_left_does_not_hide_the_failure(make_context, caplog):
    context = make_context()
    context["ti"].xcom_push = lambda **_: 1 / 0
    with pytest.raises(AirflowFailException, match="why"), airflow_outcome(context):
        raise errors.GateError("why")
    assert "will not have the message: division by zero" in caplog.text


@pytest.mark.parametrize(
    ("raised", "name"),
    [(OSError("why"), "OSError"), (AirflowFailException("why"), "AirflowFailException")],
)
def test_what_is_no_error_of_trainfeed_is_left_as_well(make_context, raised, name):
    context = make_context()
    with pytest.raises(type(raised)), airflow_outcome(context):
        raise raised
    assert context["ti"].xcoms["failure"]["error"] == name


@pytest.mark.parametrize(
    "raised", [AirflowSkipException("skipped"), call_again(datetime(2026, 1, 1, tzinfo=UTC))]
)
def test_what_is_no_failure_is_left_nowhere(make_context, raised, caplog):
    context = make_context()
    with pytest.raises(type(raised)), airflow_outcome(context):
        raise raised
    assert context["ti"].xcoms == {}
    assert caplog.records == []


def test_every_outcome_occurs():
    assert {kind.outcome for kind in TREE} == set(errors.Outcome)


@pytest.mark.parametrize("kind", [OSError, ConnectionResetError, KeyError, ValueError])
def test_what_trainfeed_does_not_know_passes_and_is_retried(kind):
    with pytest.raises(kind) as caught, airflow_outcome():
        raise kind
    assert caught.value.__cause__ is None


def test_success_is_left_alone():
    with airflow_outcome():
        pass


def test_waiting_names_the_time_of_the_next_call():
    at = datetime(2026, 1, 1, tzinfo=UTC)
    called = call_again(at)
    assert isinstance(called, AirflowRescheduleException)
    assert called.reschedule_date == at
