"""The grammar of intervals and ranges: inclusive, of months, days, hours and times."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainfeed.core.intervals import Schedule, intervals_in, name_runs, parse_range
from trainfeed.errors import WindowError

START = datetime(2026, 1, 1, tzinfo=UTC)


def names(schedule, text):
    return [interval.name for interval in intervals_in(schedule, parse_range(text))]


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("2026-02", "2026-02-01T00:00", "2026-03-01T00:00"),
        ("2026-12", "2026-12-01T00:00", "2027-01-01T00:00"),
        ("2026-01-31", "2026-01-31T00:00", "2026-02-01T00:00"),
        ("2026-01-01T05", "2026-01-01T05:00", "2026-01-01T06:00"),
        ("2026-01-01T0510", "2026-01-01T05:10", "2026-01-01T05:11"),
        ("2026-01-01T05:10", "2026-01-01T05:10", "2026-01-01T05:11"),
        ("2026-01-01T05:10:00Z", "2026-01-01T05:10", "2026-01-01T05:10:01"),
        ("2026-01-01T05:00+02:00", "2026-01-01T03:00", "2026-01-01T03:01"),
        ("2026-01/2026-02-03", "2026-01-01T00:00", "2026-02-04T00:00"),
        ("2026-01-01T05/2026-01-01", "2026-01-01T05:00", "2026-01-02T00:00"),
    ],
)
def test_both_ends_are_included_whole(text, start, end):
    span = parse_range(text)
    expected = [datetime.fromisoformat(each).replace(tzinfo=UTC) for each in (start, end)]
    assert [span.start, span.end] == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("2026-03-33", "2026-03-33 does not exist: day is out of range"),
        ("2026-01-01/2026-02-29", "2026-02-29 does not exist"),
        ("2026-13", "2026-13-01 does not exist: month must be"),
        ("2026-01-01T24", "2026-01-01T24 does not exist: hour must be"),
        ("2026-02/2026-01", r"from earlier to later, got '2026-02/2026-01'; write 2026-01/2026-02"),
        ("2026-01-02T05/2026-01-01", "from earlier to later"),
        ("2026-01-01/", "expected a range FIRST/LAST"),
        ("/2026-01-01", "expected a range FIRST/LAST"),
        ("2026-01/2026-02/2026-03", "expected a range FIRST/LAST"),
        ("yesterday", "expected a UTC time like"),
        ("2026", "expected a UTC time like"),
        ("", "expected a UTC time like"),
    ],
)
def test_what_is_no_range_is_refused_with_the_reason(text, message):
    with pytest.raises(WindowError, match=message):
        parse_range(text)


def test_a_range_of_days_has_all_hours_of_its_last_day():
    hours = names(Schedule("@hourly", START), "2026-01-01/2026-01-02")
    assert len(hours) == 48
    assert (hours[0], hours[-1]) == ("2026-01-01T00", "2026-01-02T23")


def test_a_range_selects_what_starts_in_it():
    assert names(Schedule("30 5 * * *", START + timedelta(hours=5.5)), "2026-01-02") == [
        "2026-01-02"
    ]
    weeks = Schedule("@weekly", datetime(2026, 1, 4, tzinfo=UTC))
    assert names(weeks, "2026-01") == ["2026-01-04", "2026-01-11", "2026-01-18", "2026-01-25"]
    assert names(Schedule("*/10 * * * *", START), "2026-01-01T05")[-1] == "2026-01-01T0550"


def test_a_range_stays_inside_the_schedule():
    days = Schedule("@daily", datetime(2026, 1, 30, tzinfo=UTC), datetime(2026, 2, 2, tzinfo=UTC))
    assert names(days, "2026-01") == ["2026-01-30", "2026-01-31"]
    assert names(days, "2025-01/2026-12") == [
        "2026-01-30",
        "2026-01-31",
        "2026-02-01",
        "2026-02-02",
    ]


@pytest.mark.parametrize(
    ("text", "nearest"),
    [
        ("2025-12", "the nearest: 2026-01-01$"),
        ("2026-01-03", "the nearest: 2026-01-02 and 2026-01-05$"),
        ("2026-01-02T05", "the nearest: 2026-01-02 and 2026-01-05$"),
        ("2027-01", "the nearest: 2026-03-31$"),
    ],
)
def test_a_range_without_an_interval_names_the_nearest(text, nearest):
    weekdays = Schedule("0 0 * * 1-5", START, datetime(2026, 3, 31, tzinfo=UTC))
    with pytest.raises(WindowError, match=nearest):
        intervals_in(weekdays, parse_range(text))


def test_a_list_of_intervals_is_bounded():
    with pytest.raises(WindowError, match="at most 100000 intervals, 1970-01/2500-12 has more"):
        intervals_in(Schedule("* * * * *", START), parse_range("1970-01/2500-12"))


def test_neighbours_are_named_as_one_range():
    weekdays = Schedule("0 0 * * 1-5", START)
    found = intervals_in(weekdays, parse_range("2026-01-01/2026-01-09"))
    assert name_runs(found) == ["2026-01-01/2026-01-09"]
    assert name_runs([*found[:2], found[3]]) == ["2026-01-01/2026-01-02", "2026-01-06"]


@given(
    st.sampled_from(["@hourly", "@daily", "@weekly", "@monthly", "0 0 * * 1-5", "15 */6 * * *"]),
    st.integers(0, 400),
    st.integers(0, 40),
)
def test_the_names_of_the_first_and_last_interval_name_the_range(cron, skipped, count):
    from itertools import islice

    schedule = Schedule(cron, next(_ticks(cron)))
    chosen = list(islice(schedule.intervals(), skipped, skipped + count + 1))
    text = f"{chosen[0].name}/{chosen[-1].name}"
    assert intervals_in(schedule, parse_range(text)) == chosen


def _ticks(cron):
    from croniter import croniter

    from trainfeed.core.intervals import PRESETS

    ticks = croniter(PRESETS.get(cron, cron), START - timedelta(seconds=1))
    while True:
        yield ticks.get_next(datetime)
