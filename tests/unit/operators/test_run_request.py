"""Each kind of run asks for its interval, whatever keys its context lacks."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from operators.runs import window_request
from trainfeed.core.intervals import Schedule, resolve_interval
from trainfeed.errors import WindowError

FIRST, SECOND = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)
SCHEDULE = Schedule("@daily", FIRST)
DAY = {"data_interval_start": FIRST, "data_interval_end": SECOND}
TYPES = ("scheduled", "backfill", "manual", "asset_triggered", "operator_triggered")


def resolve(context):
    return resolve_interval(SCHEDULE, window_request(context)).name


@pytest.mark.parametrize("run_type", ["scheduled", "backfill", "manual"])
def test_a_run_with_a_data_interval_gets_it(make_context, run_type):
    assert resolve(make_context(run_type, **DAY)) == "2026-01-01"


def test_a_partitioned_run_gets_its_key(make_context):
    assert resolve(make_context("asset_triggered", partition_key="2026-01-05")) == "2026-01-05"


@pytest.mark.parametrize("run_type", ["scheduled", "manual", "asset_triggered"])
def test_the_parameter_comes_before_everything_else(make_context, run_type):
    params = {"window_start": "2026-01-09"}
    context = make_context(run_type, params=params, partition_key="2026-01-05", **DAY)
    assert resolve(context) == "2026-01-09"


def test_the_parameter_is_refused_in_a_backfill(make_context):
    with pytest.raises(WindowError, match="refused in a backfill"):
        resolve(make_context("backfill", params={"window_start": "2026-01-09"}, **DAY))


def test_a_triggered_run_without_any_of_them_is_told_what_to_set(make_context):
    with pytest.raises(WindowError, match="set window_start"):
        resolve(make_context("manual"))


def test_an_empty_data_interval_counts_as_none(make_context):
    empty = {"data_interval_start": FIRST, "data_interval_end": FIRST}
    with pytest.raises(WindowError, match="set window_start"):
        resolve(make_context("manual", **empty))


@pytest.mark.parametrize("run_type", TYPES)
def test_only_the_schedule_and_backfills_count_as_such(make_context, run_type):
    request = window_request(make_context(run_type))
    assert request.is_scheduled is (run_type == "scheduled")
    assert request.is_backfill is (run_type == "backfill")
