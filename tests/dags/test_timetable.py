"""The timetable of builds: its bounds, the meaning of a trigger, and the names of runs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pendulum
import pytest
from airflow.serialization.decoders import decode_timetable
from airflow.serialization.encoders import encode_timetable
from airflow.timetables.base import DataInterval, TimeRestriction
from airflow.utils.types import DagRunType
from hypothesis import given
from hypothesis import strategies as st

from operators.timetable import BEFORE_ALL, IntervalTimetable
from trainfeed.core.intervals import Schedule, parse_time

# Airflow's own reading of .airflowignore, when it looks for the plugin that registers the class.
pytestmark = pytest.mark.filterwarnings("ignore:GitWildMatchPattern:DeprecationWarning")

FIRST, LAST = datetime(2013, 1, 1, tzinfo=UTC), datetime(2013, 1, 5, tzinfo=UTC)
DAILY = IntervalTimetable(Schedule("@daily", FIRST, LAST))
ENDLESS = IntervalTimetable(Schedule("@daily", FIRST))
NEVER = pendulum.datetime(2030, 1, 1)


def between(timetable, earliest, latest, *, catchup=True):
    """The starts of all runs that Airflow would make in a range, as schedule and backfill do."""
    restriction = TimeRestriction(pendulum.instance(earliest), latest, catchup)
    info, found = None, []
    while info := timetable.next_dagrun_info(
        last_automated_data_interval=info and info.data_interval, restriction=restriction
    ):
        found.append(info.data_interval.start)
    return found


def run_id(timetable, run_type, start):
    begin = pendulum.instance(start)
    return timetable.generate_run_id(
        run_type=run_type, run_after=begin, data_interval=DataInterval(begin, begin.add(days=1))
    )


def scheduled(cron, start):
    return run_id(IntervalTimetable(Schedule(cron, start)), DagRunType.SCHEDULED, start)


def test_the_schedule_makes_exactly_the_intervals_from_first_to_last():
    found = between(DAILY, BEFORE_ALL, NEVER)
    assert found == [FIRST + timedelta(days=number) for number in range(5)]


def test_a_backfill_over_both_ends_makes_only_the_intervals_inside():
    days = [datetime(2013, 1, 1, tzinfo=UTC), datetime(2013, 1, 2, tzinfo=UTC)]
    assert between(DAILY, datetime(2012, 12, 20, tzinfo=UTC), pendulum.datetime(2013, 1, 2)) == days
    assert between(DAILY, datetime(2013, 1, 5, tzinfo=UTC), NEVER) == [LAST]
    assert between(DAILY, datetime(2013, 1, 6, tzinfo=UTC), NEVER) == []


def test_without_catch_up_a_schedule_that_is_over_makes_no_run():
    assert between(DAILY, BEFORE_ALL, None, catchup=False) == []


def test_without_catch_up_an_endless_schedule_begins_with_the_last_interval_that_ended():
    restriction = TimeRestriction(pendulum.instance(BEFORE_ALL), None, catchup=False)
    info = ENDLESS.next_dagrun_info(last_automated_data_interval=None, restriction=restriction)
    assert info.data_interval.end <= pendulum.now("UTC") < info.data_interval.end.add(days=1)


def test_a_schedule_that_starts_later_makes_its_first_interval_first():
    later = IntervalTimetable(Schedule("@daily", datetime(2999, 1, 1, tzinfo=UTC)))
    restriction = TimeRestriction(pendulum.instance(BEFORE_ALL), None, catchup=False)
    info = later.next_dagrun_info(last_automated_data_interval=None, restriction=restriction)
    assert info.data_interval.start == datetime(2999, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("timetable", [DAILY, ENDLESS])
def test_a_triggered_run_is_for_the_last_interval_that_had_ended(timetable):
    interval = timetable.infer_manual_data_interval(run_after=pendulum.datetime(2026, 11, 22, 14))
    assert interval.start == datetime(2026, 11, 21, tzinfo=UTC)


@pytest.mark.parametrize("timetable", [DAILY, ENDLESS])
def test_it_is_the_same_after_serialization(timetable):
    assert decode_timetable(encode_timetable(timetable)) == timetable
    assert DAILY != ENDLESS


@pytest.mark.parametrize(
    ("cron", "start", "name"),
    [
        ("@daily", "2013-01-05T00:00", "2013-01-05"),
        ("@hourly", "2013-01-05T00:00", "2013-01-05T00"),
        ("*/10 * * * *", "2013-01-05T05:10", "2013-01-05T0510"),
        ("@weekly", "2013-01-06T00:00", "2013-01-06"),
        # The interval is called 2013-01-05; so was that of midnight, were the schedule changed.
        ("30 6 * * *", "2013-01-05T06:30", "2013-01-05T0630"),
        ("30 * * * *", "2013-01-05T06:30", "2013-01-05T0630"),
        ("0 6 * * *", "2013-01-05T06:00", "2013-01-05T06"),
    ],
)
def test_a_scheduled_run_is_named_after_its_interval(cron, start, name):
    assert scheduled(cron, datetime.fromisoformat(f"{start}+00:00")) == f"scheduled__{name}"


@given(
    st.lists(
        st.datetimes(datetime(1971, 1, 1), datetime(2100, 1, 1)).map(  # noqa: DTZ001 - zoned below
            lambda time: time.replace(second=0, microsecond=0, tzinfo=UTC)
        ),
        min_size=2,
        max_size=2,
        unique=True,
    ),
    st.lists(st.sampled_from(["* * * * *", "@hourly", "@daily"]), min_size=2, max_size=2),
)
def test_two_intervals_never_share_a_name_whatever_the_schedule_was(starts, crons):
    named = set()
    for start, cron in zip(starts, crons, strict=True):
        timetable = IntervalTimetable(Schedule(cron, BEFORE_ALL))
        named.add(run_id(timetable, DagRunType.SCHEDULED, start))
    assert len(named) == 2


def berlin(cron="@daily", first="2026-03-27T23", last=None):
    end = None if last is None else parse_time(last)
    return IntervalTimetable(Schedule(cron, parse_time(first), end, "Europe/Berlin"))


@pytest.mark.parametrize(
    ("first", "last", "hours"),
    [
        ("2026-03-27T23", "2026-03-29T22", [24, 23, 24]),
        ("2026-10-23T22", "2026-10-25T23", [24, 25, 24]),
    ],
)
def test_days_of_a_zone_are_runs_over_a_change_of_its_clocks(first, last, hours):
    timetable = berlin(first=first, last=last)
    schedule = timetable.schedule
    assert between(timetable, BEFORE_ALL, NEVER) == [each.start for each in schedule.intervals()]
    restriction = TimeRestriction(pendulum.instance(schedule.first), None, True)
    info, lengths, names = None, [], []
    for _ in hours:
        info = timetable.next_dagrun_info(
            last_automated_data_interval=info and info.data_interval, restriction=restriction
        )
        lengths.append((info.data_interval.end - info.data_interval.start).total_seconds() / 3600)
        names.append(
            timetable.generate_run_id(
                run_type=DagRunType.BACKFILL_JOB,
                run_after=info.run_after,
                data_interval=info.data_interval,
            )
        )
    assert lengths == hours
    assert names == [f"backfill__{each.name}" for each in schedule.intervals()]


def test_a_backfill_of_hours_over_both_changes_has_every_hour_once():
    for first, last in (("2026-03-28T23", "2026-03-29T21"), ("2026-10-24T22", "2026-10-25T22")):
        timetable = berlin("@hourly", first, last)
        begin, end = parse_time(first), parse_time(last)
        number = (end - begin) // timedelta(hours=1) + 1
        hours = [begin + each * timedelta(hours=1) for each in range(number)]
        assert between(timetable, begin, pendulum.instance(end)) == hours


@pytest.mark.parametrize(("cron", "number"), [("@daily", 365), ("@hourly", 8760)])
def test_a_backfill_of_a_year_of_a_zone_has_every_interval_once(cron, number):
    timetable = berlin(cron, "2025-12-31T23", "2027-06-30T22")
    begin, end = parse_time("2025-12-31T23"), parse_time("2026-12-31T23")
    starts = [each.start for each in timetable.schedule.overlapping(begin, end)]
    found = between(timetable, begin, pendulum.instance(end - timedelta(minutes=1)))
    assert (len(found), found) == (number, starts)


@pytest.mark.parametrize(
    ("at", "start"),
    [
        ("2026-03-29T22:30", "2026-03-28T23"),
        ("2026-03-29T22:00", "2026-03-28T23"),
        ("2026-03-29T21:59", "2026-03-27T23"),
        ("2026-10-25T22:59", "2026-10-23T22"),
        ("2026-10-25T23:00", "2026-10-24T22"),
    ],
)
def test_a_triggered_run_is_for_the_last_day_of_the_zone_that_had_ended(at, start):
    found = berlin().infer_manual_data_interval(run_after=pendulum.parse(at))
    interval = berlin(first="2026-03-26T23").schedule.interval_named(start)
    assert (found.start, found.end) == (interval.start, interval.end)


def test_a_zone_is_there_after_serialization_and_in_the_lists_of_dags():
    timetable = berlin()
    assert decode_timetable(encode_timetable(timetable)) == timetable
    assert timetable.serialize()["zone"] == "Europe/Berlin"
    assert "zone" not in ENDLESS.serialize()
    assert (timetable.summary, ENDLESS.summary) == ("0 0 * * * Europe/Berlin", "0 0 * * *")
    assert timetable.description == "At 00:00, Europe/Berlin"


def test_a_triggered_run_keeps_the_name_that_airflow_gives():
    named = run_id(DAILY, DagRunType.MANUAL, datetime(2013, 1, 5, tzinfo=UTC))
    assert named == "manual__2013-01-05T00:00:00+00:00"
