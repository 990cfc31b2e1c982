from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pendulum
import pytest

from trainfeed.core.intervals import (
    Schedule,
    WindowRequest,
    format_time,
    parse_time,
    ready_at,
    resolve_interval,
)
from trainfeed.errors import WindowError

SCHEDULE = Schedule("@daily", datetime(2013, 1, 1, tzinfo=UTC), datetime(2013, 1, 31, tzinfo=UTC))
DAY = {
    "data_interval_start": pendulum.datetime(2013, 1, 3),
    "data_interval_end": pendulum.datetime(2013, 1, 4),
}


def resolved(**given: Any) -> str:
    return resolve_interval(SCHEDULE, WindowRequest(**given)).name


def refused(**given: Any) -> str:
    with pytest.raises(WindowError) as error:
        resolve_interval(SCHEDULE, WindowRequest(**given))
    return str(error.value)


def test_a_scheduled_run_builds_its_data_interval() -> None:
    assert resolved(**DAY, is_scheduled=True) == "2013-01-03"


def test_a_backfill_run_builds_its_data_interval() -> None:
    assert resolved(**DAY, is_backfill=True) == "2013-01-03"


def test_the_parameter_wins_over_everything() -> None:
    assert resolved(window_start="2013-01-05", partition_key="2013-01-04", **DAY) == "2013-01-05"
    assert resolved(window_start="2013-01-05T00:00:00+00:00") == "2013-01-05"


def test_the_partition_key_wins_over_the_data_interval() -> None:
    assert resolved(partition_key="2013-01-04", **DAY) == "2013-01-04"


def test_empty_texts_count_as_not_given() -> None:
    assert resolved(window_start="", partition_key="", **DAY) == "2013-01-03"


def test_the_parameter_is_refused_in_a_backfill() -> None:
    assert refused(window_start="2013-01-05", is_backfill=True, **DAY) == (
        "window_start='2013-01-05' is refused in a backfill, where it would send every run to one"
        " interval; leave it out, the backfill's dates decide"
    )


def test_nothing_given_says_what_to_set() -> None:
    assert refused() == (
        "expected an interval to build, got none: the run has no window_start, no partition key and"
        " no data interval; set window_start to a tick of the schedule '0 0 * * *', from 2013-01-01"
        " to 2013-01-31"
    )


def test_a_triggered_run_past_the_end_is_told_what_was_meant_and_what_there_is() -> None:
    assert refused(
        data_interval_start=pendulum.datetime(2026, 11, 21),
        data_interval_end=pendulum.datetime(2026, 11, 22),
    ) == (
        "expected an interval of the schedule, got the data interval of the run,"
        " [2026-11-21T00:00:00Z, 2026-11-22T00:00:00Z): window_start is empty, so the run is for"
        " the last interval that had ended at its logical date: 2026-11-21T00:00:00Z lies after"
        " the last interval, 2013-01-31; ask for an earlier one or move the schedule's end;"
        " trigger again with window_start set to a tick of the schedule '0 0 * * *', from"
        " 2013-01-01 to 2013-01-31"
    )


def test_a_backfill_is_not_told_to_set_the_parameter() -> None:
    start = pendulum.datetime(2026, 11, 21)
    assert "window_start" not in refused(data_interval_start=start, is_backfill=True)


def test_an_endless_schedule_has_no_last_one_in_the_message() -> None:
    with pytest.raises(WindowError, match=r"from 2013-01-01 on$"):
        resolve_interval(Schedule("@daily", SCHEDULE.first), WindowRequest())


@pytest.mark.parametrize(
    ("given", "origin"),
    [
        ({"window_start": "2013-01-05", **DAY}, "window_start='2013-01-05'"),
        ({"partition_key": "2013-01-04", **DAY}, "the partition key '2013-01-04' of the run"),
        ({}, "nothing"),
        (
            {**DAY, "is_scheduled": True},
            "the data interval of the run, [2013-01-03T00:00:00Z, 2013-01-04T00:00:00Z)",
        ),
        (
            {"data_interval_start": DAY["data_interval_start"], "is_backfill": True},
            "the data interval of the run, [2013-01-03T00:00:00Z, …)",
        ),
    ],
)
def test_a_request_says_what_decides(given: dict[str, Any], origin: str) -> None:
    assert WindowRequest(**given).origin == origin


def test_a_parameter_off_the_ticks_names_the_nearest() -> None:
    assert refused(window_start="2013-01-05T07:30:00Z").endswith(
        "the nearest are 2013-01-05T00:00:00Z and 2013-01-06T00:00:00Z"
    )


def test_a_partition_key_is_a_name_and_not_a_time() -> None:
    assert "expected an interval name like 2013-01-01" in refused(
        partition_key="2013-01-05T00:00:00Z"
    )


def test_a_data_interval_of_no_length_is_refused() -> None:
    start = DAY["data_interval_start"]
    assert refused(data_interval_start=start, data_interval_end=start) == (
        "expected the data interval of one tick, [2013-01-03T00:00:00Z, 2013-01-04T00:00:00Z), got"
        " an end of 2013-01-03T00:00:00Z; use a backfill for more than one interval"
    )


def test_a_data_interval_of_several_ticks_is_refused() -> None:
    assert "use a backfill" in refused(
        data_interval_start=DAY["data_interval_start"],
        data_interval_end=pendulum.datetime(2013, 1, 10),
    )


def test_a_start_alone_is_enough() -> None:
    assert resolved(data_interval_start=DAY["data_interval_start"]) == "2013-01-03"


@pytest.mark.parametrize("day", ["2012-12-31", "2013-02-01"])
def test_an_interval_outside_the_schedule_is_refused(day: str) -> None:
    assert (
        "lies before the first" in (text := refused(window_start=day)) or "after the last" in text
    )


def test_an_interval_is_ready_when_it_has_settled() -> None:
    interval = SCHEDULE.interval_named("2013-01-03")
    assert ready_at(interval, timedelta(minutes=30)) == datetime(2013, 1, 4, 0, 30, tzinfo=UTC)


def test_times_read_and_write_as_the_manifest_has_them() -> None:
    assert format_time(pendulum.datetime(2013, 1, 1, 9, tz="Asia/Tokyo")) == "2013-01-01T00:00:00Z"
    assert parse_time("2013-01-01T00:00:00Z") == datetime(2013, 1, 1, tzinfo=UTC)
    assert parse_time("2013-01-01T05:00") == datetime(2013, 1, 1, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    "text", ["yesterday", "2013-13-01", "1" * 500, "2013-W01-2", "2013-01-01T00:00:00Zulu"]
)
def test_a_text_that_is_no_time_is_refused_and_shown_in_part(text: str) -> None:
    with pytest.raises(WindowError) as error:
        parse_time(text)
    assert text[:20] in str(error.value)
    assert len(str(error.value)) < 150
