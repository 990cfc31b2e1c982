"""Schedules in a zone: every moment lies in one interval, whatever clocks do."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from itertools import islice, pairwise
from zoneinfo import ZoneInfo

import pytest
import tzdata
from croniter import croniter

from trainfeed.core.intervals import (
    Schedule,
    WindowRequest,
    intervals_in,
    name_runs,
    parse_range,
    parse_time,
    range_text,
    resolve_interval,
    zone_release,
    zone_rules,
)
from trainfeed.errors import ConfigError, WindowError

BERLIN = "Europe/Berlin"
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
# Zone → a year in which its clocks changed: hours and half-hours, at midnight and by a whole day,
# offsets of halves and quarters, with seconds, and zones that gave a rule up or took one.
ZONES = {
    "Europe/Berlin": 2026,
    "America/New_York": 2026,
    "Asia/Kolkata": 2026,
    "Asia/Kathmandu": 1986,
    "Australia/Lord_Howe": 2026,
    "America/St_Johns": 2011,
    "Pacific/Chatham": 2026,
    "Pacific/Apia": 2011,
    "Asia/Pyongyang": 2018,
    "Africa/Casablanca": 2026,
    "America/Sao_Paulo": 2018,
    "Asia/Beirut": 2026,
    "Antarctica/Troll": 2026,
    "Africa/Monrovia": 1972,
    "Asia/Shanghai": 1990,
    "Europe/Istanbul": 2016,
    "America/Havana": 2026,
}
CRONS = (
    "@daily",
    "@hourly",
    "*/10 * * * *",
    "30 2 * * *",
    "0 */2 * * *",
    "0 6 * * 1-5",
    "15,45 0-3 * * *",
    "30 * * * *",
    "@monthly",
    "0 * * * 0",
)


def at(text: str) -> datetime:
    return parse_time(text)


def oracle(cron: str, zone: str, begin: datetime, end: datetime) -> list[datetime]:
    """Return the ticks in a span, from what a clock shows at each of its seconds or minutes."""
    with (files(tzdata) / "zoneinfo" / zone).open("rb") as file:
        info = ZoneInfo.from_file(file)
    second = timedelta(seconds=30 if zone == "Africa/Monrovia" else 60)
    shown, latest = [], datetime.min.replace(tzinfo=UTC)
    ticks = set()
    fits = matcher(cron)
    is_in_every_hour = croniter.expand(cron)[0][1] == ["*"]
    moment = begin - 26 * HOUR
    while moment < end + second:
        local = moment.astimezone(info).replace(tzinfo=UTC, fold=0)
        if is_in_every_hour:
            if fits(local):
                ticks.add(moment)
        elif local > latest:
            # All local times that were not shown yet: one, or those that the clocks left out.
            each = max(latest + second, local - 2 * DAY) if shown else local
            while each <= local:
                if fits(each):
                    ticks.add(moment)
                each += second
            latest = local
        shown.append(local)
        moment += second
    return sorted(tick for tick in ticks if begin <= tick < end)


def matcher(cron: str) -> Callable[[datetime], bool]:
    """Return whether a time fits the fields of an expression, of which one is about days."""
    allowed = [
        None if each == ["*"] else {int(n) for n in each} for each in croniter.expand(cron)[0]
    ]

    def fits(time: datetime) -> bool:
        fields = time.minute, time.hour, time.day, time.month, time.isoweekday() % 7
        return time.second == 0 and all(
            numbers is None or field in numbers
            for field, numbers in zip(fields, allowed, strict=True)
        )

    return fits


def spans_of(zone: str, seed: int) -> list[tuple[datetime, datetime]]:
    """Return days around changes of a zone, and some other day."""
    year = ZONES[zone]
    begin = datetime(year, 1, 2, tzinfo=UTC)
    changes = [each.at for each in zone_rules(zone).changes(begin, begin + 362 * DAY)]
    drawn = begin + timedelta(minutes=random.Random(seed).randrange(360 * 24 * 60))
    return [(each - 25 * HOUR, each + 25 * HOUR) for each in (*changes, drawn)]


def first_tick(cron: str, zone: str, moment: datetime) -> datetime:
    """Return some tick at least a month before a moment."""
    text = {"@daily": "0 0 * * *", "@hourly": "0 * * * *", "@monthly": "0 0 1 * *"}.get(cron, cron)
    local = (moment - 62 * DAY).replace(hour=12, minute=0, second=0, microsecond=0)
    return zone_rules(zone).first_moment(croniter(text, local).get_next(datetime))


@pytest.mark.parametrize("zone", ZONES)
def test_ticks_are_what_a_clock_of_the_zone_shows(zone: str) -> None:
    for number, (begin, end) in enumerate(spans_of(zone, seed=7)):
        # All expressions at the longest changes, and two of them at others.
        crons = CRONS[:-2] if number < 2 else random.Random(number).sample(CRONS[:-2], 2)
        for cron in crons:
            schedule = Schedule(cron, first_tick(cron, zone, begin), zone=zone)
            found = [each.start for each in schedule.intervals(begin, end - MINUTE)]
            found = [each for each in found if begin <= each < end]
            assert found == oracle(schedule.cron, zone, begin, end), (cron, begin)


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("cron", CRONS)
def test_every_moment_is_in_one_interval_and_every_way_to_it_agrees(zone: str, cron: str) -> None:
    for begin, end in spans_of(zone, seed=8):
        schedule = Schedule(cron, first_tick(cron, zone, begin), zone=zone)
        found = list(schedule.overlapping(begin, end))
        assert found[0].start <= begin
        assert found[-1].end >= end
        assert all(a.end == b.start for a, b in pairwise(found))
        assert all(each.start < each.end for each in found)
        assert sorted(each.name for each in found) == [each.name for each in found]
        assert len({each.name for each in found}) == len(found)
        some = random.Random(9).sample(found, min(10, len(found)))
        for each in (*some, found[0], found[-1]):
            assert schedule.interval_named(each.name) == each
            assert schedule.interval_at(each.name) == each
            assert schedule.interval_starting(each.start) == each
            assert parse_range(each.name).start <= each.start < parse_range(each.name).end
            assert schedule.beside(each.end)[0] == each
            assert schedule.beside(each.start)[1] == each
        wanted = found[-8:]
        assert schedule.previous(found[-1], len(wanted)) == wanted


@pytest.mark.parametrize(
    ("cron", "count", "lengths"),
    [
        ("@daily", 365, {23 * HOUR: 1, 24 * HOUR: 363, 25 * HOUR: 1}),
        ("@hourly", 8760, {HOUR: 8760}),
    ],
)
def test_a_year_of_berlin_has_every_moment_once(
    cron: str, count: int, lengths: dict[timedelta, int]
) -> None:
    begin, end = at("2025-12-31T23"), at("2026-12-31T23")
    schedule = Schedule(cron, begin, zone=BERLIN)
    found = list(schedule.overlapping(begin, end))
    assert (found[0].start, found[-1].end, len(found)) == (begin, end, count)
    assert all(a.end == b.start for a, b in pairwise(found))
    measured = [each.end - each.start for each in found]
    assert {length: measured.count(length) for length in set(measured)} == lengths
    names = [each.name for each in found]
    assert names == sorted(set(names))
    assert name_runs(found) == [f"{names[0]}/{names[-1]}"]
    for month in range(1, 13):
        span = parse_range(f"2026-{month:02d}", BERLIN)
        for each in intervals_in(schedule, span):
            local = each.start.astimezone(ZoneInfo(BERLIN))
            assert (local.year, local.month) == (2026, month)


def test_a_berlin_day_is_named_by_its_start_with_the_hour() -> None:
    schedule = Schedule("@daily", at("2026-03-27T23"), zone=BERLIN)
    names = [each.name for each in islice(schedule.intervals(), 4)]
    assert names == ["2026-03-27T23", "2026-03-28T23", "2026-03-29T22", "2026-03-30T22"]
    day = schedule.interval_named("2026-03-28T23")
    assert day.end - day.start == 23 * HOUR
    assert schedule.local_text(day.start) == "2026-03-29 Europe/Berlin"


def test_a_name_has_minutes_where_they_are_not_0() -> None:
    schedule = Schedule("@daily", at("2018-05-03T1530"), zone="Asia/Pyongyang")
    names = [each.name for each in islice(schedule.intervals(), 3)]
    assert names == ["2018-05-03T1530", "2018-05-04T15", "2018-05-05T15"]
    assert Schedule("@daily", at("2026-03-28T1830"), zone="Asia/Kolkata").first_name == (
        "2026-03-28T1830"
    )
    fine = Schedule("*/10 * * * *", at("2026-03-28T18"), zone="Asia/Kolkata")
    assert fine.first_name == "2026-03-28T1800"


def test_only_the_canonical_name_names_an_interval() -> None:
    schedule = Schedule("@daily", at("2026-03-27T23"), zone=BERLIN)
    for text in ("2026-03-28", "2026-03-28T2300", "2026-03-28T23:00:00Z"):
        with pytest.raises(WindowError, match="expected an interval name like 2026-03-27T23"):
            schedule.interval_named(text)
    with pytest.raises(WindowError, match="not a tick"):
        schedule.interval_named("2026-03-29T23")


def test_the_doubled_hour_has_two_names_and_two_local_texts() -> None:
    schedule = Schedule("@hourly", at("2026-10-24T22"), zone=BERLIN)
    found = [schedule.interval_named(name) for name in ("2026-10-25T00", "2026-10-25T01")]
    assert [schedule.local_text(each.start) for each in found] == [
        "2026-10-25 02:00+02:00 Europe/Berlin",
        "2026-10-25 02:00+01:00 Europe/Berlin",
    ]


def test_a_time_that_clocks_leave_out_counts_at_the_change() -> None:
    schedule = Schedule("30 2 * * *", at("2026-03-28T0130"), zone=BERLIN)
    starts = [f"{each.start:%dT%H%M}" for each in islice(schedule.intervals(), 3)]
    assert starts == ["28T0130", "29T0100", "30T0030"]


def test_a_time_that_clocks_show_twice_counts_the_first_time() -> None:
    schedule = Schedule("30 2 * * *", at("2026-10-24T0030"), zone=BERLIN)
    starts = [f"{each.start:%dT%H%M}" for each in islice(schedule.intervals(), 3)]
    assert starts == ["24T0030", "25T0030", "26T0130"]


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("2026-03", "2026-02-28T23", "2026-03-31T22"),
        ("2026-03-29", "2026-03-28T23", "2026-03-29T22"),
        ("2026-10-25", "2026-10-24T22", "2026-10-25T23"),
        ("2026-03-29/2026-04", "2026-03-28T23", "2026-04-30T22"),
        ("2026-03-28T23/2026-03-29", "2026-03-28T23", "2026-03-29T22"),
    ],
)
def test_days_and_months_of_a_range_are_those_of_the_zone(text: str, start: str, end: str) -> None:
    span = parse_range(text, BERLIN)
    assert (span.start, span.end) == (at(start), at(end))
    assert span.local == f"{text} {BERLIN}"
    again = parse_range(span.text)
    assert (again.start, again.end) == (span.start, span.end)
    assert parse_range(span.text, BERLIN) == again
    assert span.both == f"{span.text} ({text} {BERLIN})"


def test_hours_of_a_range_are_in_utc_as_names_are() -> None:
    for text in ("2026-03-29T05", "2026-03-29T05/2026-03-29T07", "2026-03-29T05:00:00+02:00"):
        assert parse_range(text, BERLIN) == parse_range(text)


def test_the_text_of_a_range_has_no_days_in_a_zone() -> None:
    start, end = at("2026-07-01"), at("2026-07-03")
    assert range_text(start, end) == "2026-07-01/2026-07-02"
    text = range_text(start, end, "Europe/London")
    assert text == "2026-07-01T00/2026-07-02T23"
    assert parse_range(text, "Europe/London") == parse_range(text)


def test_a_day_that_a_zone_left_out_is_refused() -> None:
    with pytest.raises(WindowError, match="Pacific/Apia left it out"):
        parse_range("2011-12-30", "Pacific/Apia")


def test_a_date_is_the_interval_that_starts_on_that_day_there() -> None:
    daily = Schedule("0 6 * * *", at("2026-03-27T05"), zone=BERLIN)
    assert daily.interval_at("2026-03-29").name == "2026-03-29T04"
    hourly = Schedule("@hourly", at("2026-03-27T05"), zone=BERLIN)
    assert hourly.interval_at("2026-03-29").name == "2026-03-28T23"
    monthly = Schedule("@monthly", at("2026-01-31T23"), zone=BERLIN)
    assert monthly.interval_at("2026-04-01").name == "2026-03-31T22"
    with pytest.raises(WindowError, match="not a tick"):
        monthly.interval_at("2026-04-02")


def test_a_time_without_its_distance_to_utc_is_refused() -> None:
    daily = Schedule("@daily", at("2026-03-27T23"), zone=BERLIN)
    with pytest.raises(WindowError, match="may be meant in UTC or there"):
        daily.interval_at("2026-03-29T00:00:00")
    for text in ("2026-03-28T23:00:00Z", "2026-03-29T00:00:00+01:00", "2026-03-28 23:00:00Z"):
        assert daily.interval_at(text).name == "2026-03-28T23"


def test_a_run_has_the_interval_of_its_request() -> None:
    daily = Schedule("@daily", at("2026-03-27T23"), zone=BERLIN)
    day = daily.interval_named("2026-03-28T23")
    for request in (
        WindowRequest(window_start="2026-03-29"),
        WindowRequest(partition_key="2026-03-28T23"),
        WindowRequest(data_interval_start=day.start, data_interval_end=day.end),
    ):
        assert resolve_interval(daily, request) == day
    with pytest.raises(WindowError, match="expected an interval name"):
        resolve_interval(daily, WindowRequest(partition_key="2026-03-29"))


@pytest.mark.parametrize(
    "name", ["UTC", "Etc/UTC", "Factory", "europe/berlin", "../x", "", "CET-1"]
)
def test_what_is_no_zone_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="zone"):
        Schedule("@daily", at("2026-03-27T23"), zone=name)


def test_a_misspelt_zone_is_told_its_name() -> None:
    with pytest.raises(ConfigError, match="did you mean 'Europe/Berlin'"):
        zone_rules("Europe/Berln")


def test_rules_are_those_of_the_package_whatever_the_machine_has(
    monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    monkeypatch.setenv("PYTHONTZPATH", str(tmp_path))
    import zoneinfo

    zoneinfo.reset_tzpath(to=())
    try:
        zone_rules.cache_clear()
        assert zone_rules(BERLIN).offset(at("2026-07-01")) == 2 * HOUR
    finally:
        zoneinfo.reset_tzpath()
    assert zone_release() == tzdata.IANA_VERSION


def test_a_schedule_without_a_zone_has_no_local_text() -> None:
    daily = Schedule("@daily", at("2026-03-28"))
    assert daily.local_text(daily.first) is None
    assert daily.text == "'0 0 * * *'"
