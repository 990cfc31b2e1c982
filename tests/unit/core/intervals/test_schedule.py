from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta, timezone
from itertools import islice, pairwise

import pendulum
import pytest
from croniter import croniter
from hypothesis import given, settings
from hypothesis import strategies as st

from trainfeed.core.intervals import PRESETS, Interval, Schedule
from trainfeed.core.intervals.ticks import expand_cron
from trainfeed.errors import ConfigError, WindowError

CRONS = [
    *PRESETS,
    "*/10 * * * *",
    "7-59/13 2,5 * * *",
    "0 */7 * * *",
    "30 5 * * 1-5",
    "0 0 29 2 *",
    "0 0 L * *",
    "0 0 * * fri#2",
    "0 0 1,15 * 3",
]
START = datetime(2013, 1, 1, tzinfo=UTC)


def first_tick(cron: str, since: datetime = START) -> datetime:
    ticks = croniter(PRESETS.get(cron, cron), since - timedelta(seconds=1))
    tick: datetime = ticks.get_next(datetime)
    return tick


def days(first: int = 1, last: int | None = 31) -> Schedule:
    return Schedule("@daily", START.replace(day=first), last and START.replace(day=last))


@pytest.mark.parametrize("cron", CRONS)
def test_intervals_tile_the_time_line(cron: str) -> None:
    schedule = Schedule(cron, first_tick(cron))
    intervals = list(islice(schedule.intervals(), 200))
    assert intervals[0].start == schedule.first
    assert all(one.start < one.end == next_one.start for one, next_one in pairwise(intervals))


@pytest.mark.parametrize("cron", CRONS)
def test_names_are_different_sort_like_time_and_lead_back(cron: str) -> None:
    schedule = Schedule(cron, first_tick(cron))
    intervals = list(islice(schedule.intervals(), 200))
    names = [interval.name for interval in intervals]
    assert names == sorted(set(names))
    assert [schedule.interval_named(name) for name in names] == intervals
    assert [schedule.interval_starting(interval.start) for interval in intervals] == intervals


@settings(max_examples=100, deadline=None)
@given(
    cron=st.sampled_from(CRONS),
    since=st.datetimes(datetime(1971, 1, 1), datetime(2300, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001
)
def test_the_tiles_do_not_depend_on_where_the_schedule_starts(cron: str, since: datetime) -> None:
    late, early = Schedule(cron, first_tick(cron, since)), Schedule(cron, first_tick(cron))
    tiles = list(islice(late.intervals(), 5))
    assert all(one.end == next_one.start for one, next_one in pairwise(tiles))
    assert late.first - since < timedelta(days=366 * 8)
    for tile in tiles:
        if tile.start >= early.first:
            assert early.interval_named(tile.name) == tile


@pytest.mark.parametrize(
    ("cron", "name"),
    [
        ("@daily", "2013-01-01"),
        ("@monthly", "2013-01-01"),
        ("30 5 * * *", "2013-01-01"),
        ("0 5 * * 2", "2013-01-01"),
        ("@hourly", "2013-01-01T00"),
        ("15 */6 * * *", "2013-01-01T00"),
        ("0 0,12 * * *", "2013-01-01T00"),
        ("*/10 * * * *", "2013-01-01T0000"),
        ("* * * * *", "2013-01-01T0000"),
        ("5,35 4 * * *", "2013-01-01T0405"),
    ],
)
def test_a_name_is_as_short_as_the_schedule_allows(cron: str, name: str) -> None:
    schedule = Schedule(cron, first_tick(cron))
    assert next(schedule.intervals()).name == name


def test_an_interval_is_a_day_of_utc() -> None:
    interval = days().interval_named("2013-01-03")
    assert interval == Interval(
        datetime(2013, 1, 3, tzinfo=UTC), datetime(2013, 1, 4, tzinfo=UTC), "2013-01-03"
    )


def test_any_aware_time_will_do_and_comes_back_as_plain_utc() -> None:
    expected = days().interval_named("2013-01-03")
    for start in (
        pendulum.datetime(2013, 1, 3),
        pendulum.datetime(2013, 1, 3, 9, tz="Asia/Tokyo"),
        datetime(2013, 1, 2, 19, tzinfo=timezone(timedelta(hours=-5))),
    ):
        interval = days().interval_starting(start)
        assert interval == expected
        assert (type(interval.start), interval.start.tzinfo) == (datetime, UTC)


def test_a_naive_time_is_refused() -> None:
    naive = datetime(2013, 1, 3)  # noqa: DTZ001
    with pytest.raises(WindowError, match=r"expected a time with a zone, got 2013-01-03T00:00:00"):
        days().interval_starting(naive)
    with pytest.raises(WindowError, match="a time with a zone"):
        Schedule("@daily", naive)


def test_a_time_off_the_ticks_names_the_nearest() -> None:
    with pytest.raises(WindowError) as error:
        days().interval_starting(datetime(2013, 1, 3, 5, 0, 0, 1, tzinfo=UTC))
    assert str(error.value) == (
        "2013-01-03T05:00:00.000001Z is not a tick of the schedule '0 0 * * *';"
        " the nearest are 2013-01-03T00:00:00Z and 2013-01-04T00:00:00Z"
    )


@pytest.mark.parametrize("off", [{"second": 1}, {"microsecond": 1}, {"minute": 1}, {"hour": 1}])
def test_a_tick_is_exact(off: dict[str, int]) -> None:
    with pytest.raises(WindowError, match="not a tick"):
        days().interval_starting(START.replace(**off))


def test_a_time_before_the_first_interval_names_it() -> None:
    with pytest.raises(WindowError) as error:
        days(first=5).interval_named("2013-01-04")
    assert str(error.value) == (
        "2013-01-04T00:00:00Z lies before the first interval, 2013-01-05;"
        " ask for a later one or move the schedule's start"
    )


def test_a_time_after_the_last_interval_names_it() -> None:
    with pytest.raises(WindowError) as error:
        days(last=5).interval_named("2013-01-06")
    assert str(error.value) == (
        "2013-01-06T00:00:00Z lies after the last interval, 2013-01-05;"
        " ask for an earlier one or move the schedule's end"
    )


@pytest.mark.parametrize(
    "name", ["2013-01-03T00", "2013-1-3", "20130103", "2013-01-03T00:00:00Z", " 2013-01-03"]
)
def test_an_interval_has_one_name_only(name: str) -> None:
    with pytest.raises(WindowError, match=r"expected (an interval name|a UTC time) like"):
        days().interval_named(name)


@pytest.mark.parametrize(
    "name",
    ["", "..", "/etc", "2013-01-03/", "{{ ds }}", "2013-01-03\n", "²013-01-03"],
)
def test_what_is_no_time_is_no_name(name: str) -> None:
    with pytest.raises(WindowError, match="expected a UTC time like 2013-01-01"):
        days().interval_named(name)


@pytest.mark.parametrize("name", ["2013-02-30", "2013-03-33", "2013-13-01", "2013-01-03T24:00"])
def test_a_date_that_does_not_exist_is_refused_as_such(name: str) -> None:
    with pytest.raises(WindowError, match=f"^{name} does not exist: "):
        days().interval_named(name)


def test_a_run_is_of_one_interval_and_a_range_is_for_a_backfill() -> None:
    with pytest.raises(WindowError, match=r"got the range .*; a backfill is for a range"):
        days().interval_at("2013-01-01/2013-01-03")


def test_a_name_between_the_ticks_is_refused() -> None:
    weekly = Schedule("@weekly", datetime(2013, 1, 6, tzinfo=UTC))
    with pytest.raises(WindowError, match="2013-01-08T00:00:00Z is not a tick"):
        weekly.interval_named("2013-01-08")


def test_a_name_finds_its_tick_later_in_the_day() -> None:
    schedule = Schedule("30 5 * * *", datetime(2013, 1, 1, 5, 30, tzinfo=UTC))
    assert schedule.interval_named("2013-01-01").start.hour == 5


@pytest.mark.parametrize("text", ["2013-01-03", "2013-01-03T00:00:00Z", "2013-01-03T09:00+09:00"])
def test_a_text_may_be_a_name_or_a_time(text: str) -> None:
    assert days().interval_at(text).name == "2013-01-03"


@pytest.mark.parametrize(
    "text", ["0001-01-01", "1969-12-31", "9999-12-31", "0001-01-01T00:00+05:00"]
)
def test_a_year_that_nobody_means_is_refused(text: str) -> None:
    with pytest.raises(WindowError):
        days().interval_at(text)


def test_the_far_future_is_out_of_reach_and_not_an_overflow() -> None:
    leap_days = Schedule("0 0 29 2 *", datetime(2016, 2, 29, tzinfo=UTC))
    with pytest.raises(WindowError, match="expected a tick in the years 1970 to 9998"):
        leap_days.interval_named("9996-02-29")


def test_previous_intervals_end_with_the_asked_one() -> None:
    schedule = days()
    names = [i.name for i in schedule.previous(schedule.interval_named("2013-01-05"), 3)]
    assert names == ["2013-01-03", "2013-01-04", "2013-01-05"]


def test_previous_intervals_are_fewer_at_the_start() -> None:
    schedule = days(first=4)
    names = [i.name for i in schedule.previous(schedule.interval_named("2013-01-05"), 3)]
    assert names == ["2013-01-04", "2013-01-05"]


@settings(max_examples=50, deadline=None)
@given(cron=st.sampled_from(CRONS), number=st.integers(0, 60), count=st.integers(1, 70))
def test_previous_is_a_slice_of_all(cron: str, number: int, count: int) -> None:
    schedule = Schedule(cron, first_tick(cron))
    intervals = list(islice(schedule.intervals(), number + 1))
    assert schedule.previous(intervals[-1], count) == intervals[-count:]


def test_intervals_are_those_that_start_in_the_asked_range() -> None:
    since, until = START.replace(day=3, hour=1), START.replace(day=6)
    names = [interval.name for interval in days().intervals(since, until)]
    assert names == ["2013-01-04", "2013-01-05", "2013-01-06"]


def test_intervals_stay_inside_the_schedule() -> None:
    far = timedelta(days=400)
    names = [interval.name for interval in days(3, 5).intervals(START - far, START + far)]
    assert names == ["2013-01-03", "2013-01-04", "2013-01-05"]
    assert list(days(3, 5).intervals(START + far)) == []


@pytest.mark.parametrize(
    ("cron", "problem"),
    [
        ("@dayly", "the number of its fields is 1"),
        ("0 0 * *", "the number of its fields is 4"),
        ("0 0 * * * 30", "the number of its fields is 6"),
        ("0 99 * * *", "out of range"),
        ("0 0 30 2 *", "no date matches it"),
        ("R 0 * * *", "H and R stand for other times in every process"),
        ("0 h(0-5) * * *", "H and R stand for other times in every process"),
        (",".join(["0"] * 200) + " * * * *", "it is too long"),
        ("", "the number of its fields is 0"),
    ],
)
def test_what_is_no_cron_expression_says_why(cron: str, problem: str) -> None:
    with pytest.raises(ConfigError) as error:
        Schedule(cron, START)
    assert str(error.value).startswith(
        "expected five cron fields (minute, hour, day, month, weekday) or one of @hourly, @daily,"
    )
    assert problem in str(error.value)


@settings(max_examples=300, deadline=None)
@given(st.text(st.sampled_from("0123456789*/,-#LhrW?@ fri"), max_size=24))
def test_no_text_gets_past_the_check_as_anything_but_a_cron_expression(cron: str) -> None:
    try:
        schedule = Schedule(cron, START)
    except ConfigError:
        return
    assert next(schedule.intervals()).start == START


@pytest.mark.parametrize("name", ["thursday", "MAR", "fri"])
def test_names_with_h_and_r_are_no_random_fields(name: str) -> None:
    field = name[:3]
    cron = f"0 0 * {field} *" if field == "MAR" else f"0 0 * * {field}"
    assert first_tick(cron).day == {"thu": 3, "MAR": 1, "fri": 4}[field]


def test_first_and_last_must_be_ticks_in_order() -> None:
    with pytest.raises(WindowError, match="2013-01-01T05:00:00Z is not a tick"):
        Schedule("@daily", START.replace(hour=5))
    with pytest.raises(WindowError, match="2013-01-02T05:00:00Z is not a tick"):
        Schedule("@daily", START, START.replace(day=2, hour=5))
    with pytest.raises(WindowError, match="interval 2013-01-01 lies before the first, 2013-01-02"):
        Schedule("@daily", START.replace(day=2), START)


def test_a_preset_is_the_same_schedule_as_its_cron() -> None:
    assert Schedule("@daily", START) == Schedule(" 0  0 * * * ", pendulum.instance(START))
    assert pickle.loads(pickle.dumps(days())) == days()


@settings(max_examples=300, deadline=None)
@given(
    st.integers(0, 59),
    st.one_of(st.just("*"), st.integers(0, 23)),
    st.integers(86_400 * 366, 86_400 * 2_900_000),
)
def test_ticks_of_plain_schedules_are_those_of_croniter(
    minute: int, hour: str | int, stamp_s: int
) -> None:
    cron, since = f"{minute} {hour} * * *", datetime.fromtimestamp(stamp_s, UTC)
    tick = first_tick(cron, since)
    schedule = Schedule(cron, tick)
    steps = croniter(cron, tick)
    expected = [tick, *(steps.get_next(datetime) for _ in range(3))]
    assert [interval.start for interval in islice(schedule.intervals(), 4)] == expected
    assert next(schedule.intervals(since)).start == tick
    assert schedule.interval_starting(tick).end == expected[1]


def test_croniter_is_not_asked_for_the_ticks_of_plain_schedules(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[object] = []
    monkeypatch.setattr(croniter, "get_next", lambda *_: asked.append(1))
    firsts = {"@daily": START, "@hourly": START, "30 5 * * *": START.replace(hour=5, minute=30)}
    for cron, first in firsts.items():
        assert len(list(islice(Schedule(cron, first).intervals(), 1000))) == 1000
    # Once for each, when the expression is checked.
    assert len(asked) <= len(firsts)


def test_an_expression_that_many_data_sets_share_is_looked_into_once(monkeypatch):
    looked_into = []

    def counting(cron, *arguments):
        looked_into.append(cron)
        return croniter(cron, *arguments)

    monkeypatch.setattr("trainfeed.core.intervals.ticks.croniter", counting)
    for _ in range(9):
        assert expand_cron("17  3 * * 2") == "17 3 * * 2"
    assert looked_into == ["17 3 * * 2"]
    for _ in range(2):
        with pytest.raises(ConfigError, match="no date matches it"):
            expand_cron("0 0 30 2 *")
