"""Every error of trainfeed has the outcome that its class promises; others pass through."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowRescheduleException

from operators._outcome import airflow_outcome, call_again
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
def test_the_cause_stays_in_the_log(kind):
    with pytest.raises(Exception, match="why") as caught, airflow_outcome():
        raise kind("why")
    assert isinstance(caught.value.__cause__ or caught.value, kind)


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
