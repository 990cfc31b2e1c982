"""The recorded schedule of a set in a zone: its clocks, its ranges, and what readers make of it."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise

import pytest

from tests.unit.versions.coverage.test_coverage import publish
from trainfeed.core.accounts import Decision
from trainfeed.core.intervals import Interval, Schedule, format_time, parse_time
from trainfeed.errors import ConfigError, FormatError, WindowError, WindowIncompleteError
from trainfeed.files.records import RecordFile
from trainfeed.versions import (
    DatasetFolder,
    Skip,
    cover,
    range_of,
    read_schedule,
    record_schedule,
    write_skip,
)
from trainfeed.versions import schedule as recorded
from trainfeed.versions.accept_hole import accept_hole, revoke_hole
from trainfeed.versions.skip import AcceptedHole
from trainfeed.versions.tag import cover_tag, propose_tag

BERLIN = "Europe/Berlin"
DAILY = Schedule("@daily", parse_time("2026-02-28T23"), zone=BERLIN)
HOUR = timedelta(hours=1)


@pytest.fixture
def folder(tmp_path):
    return DatasetFolder(tmp_path, "clicks")


def march(schedule=DAILY, number=31):
    return list(islice(schedule.intervals(), number))


def decision():
    return Decision.now("for a test", who="ana")


def moved(monkeypatch, at):
    """Another release of the database, whose clocks of Berlin stay in summer time from then on."""
    own = recorded._zone_of

    def other(name, first, until):
        zone = own(name, first, until)
        offsets = tuple(each for each in zone.offsets if each[0] < at)
        return recorded._Zone(zone.name, "2031z", zone.until, offsets)

    monkeypatch.setattr(recorded, "_zone_of", other)


def test_the_record_has_the_zone_and_what_its_clocks_did(folder):
    record_schedule(folder, DAILY, march()[-1].end)
    assert read_schedule(folder) == DAILY
    value = json.loads(folder.schedule.read_bytes())
    assert value["format"] == 2
    assert value["zone"]["offsets"][:3] == [
        ["2026-02-28T23:00:00Z", 3600],
        ["2026-03-29T01:00:00Z", 7200],
        ["2026-10-25T01:00:00Z", 3600],
    ]
    assert value["zone"]["until"] == "2028-01-01T00:00:00Z"
    record_schedule(folder, DAILY, march()[0].end)
    assert json.loads(folder.schedule.read_bytes()) == value


def test_a_reader_that_knows_no_zones_refuses_the_record(folder):
    record_schedule(folder, DAILY, march()[-1].end)
    older = RecordFile(dict, "the schedule of a data set", "nothing was changed", format=1)
    with pytest.raises(FormatError, match="expected format 1, got 2 of another trainfeed"):
        older.read(folder.schedule)


def test_the_record_of_a_schedule_in_utc_is_as_before(folder):
    record_schedule(folder, Schedule("@daily", parse_time("2026-03-01")))
    value = json.loads(folder.schedule.read_bytes())
    value.pop("digest")
    assert value == {
        "cron": "0 0 * * *",
        "dataset": "clicks",
        "first": "2026-03-01T00:00:00Z",
        "format": 1,
        "last": None,
    }


@pytest.mark.parametrize("wrong", [{"format": 1}, {"zone": None}, {"offsets": []}, {"until": "x"}])
def test_a_record_that_contradicts_itself_is_damage(folder, wrong):
    record_schedule(folder, DAILY)
    value = json.loads(folder.schedule.read_bytes())
    value.pop("digest")
    target = value["zone"] if wrong.keys() <= {"offsets", "until"} else value
    target.update(wrong)
    RecordFile(dict, "", "").replace(folder.schedule, value)
    with pytest.raises(FormatError, match="the schedule of a data set"):
        read_schedule(folder)


def test_another_release_that_cuts_published_intervals_otherwise_is_refused(folder, monkeypatch):
    publish(folder, *march())
    record_schedule(folder, DAILY, march()[-1].end)
    before = folder.schedule.read_bytes()
    moved(monkeypatch, "2026-03-02")
    for look in (
        lambda: read_schedule(folder),
        lambda: record_schedule(folder, DAILY, march()[-1].end),
        lambda: cover(folder, "2026-03"),
    ):
        with pytest.raises(ConfigError, match="release 2031z here has others from 2026-03-29T01"):
            look()
    assert folder.schedule.read_bytes() == before


def test_another_release_that_changes_only_later_days_is_taken(folder, monkeypatch):
    publish(folder, *march())
    record_schedule(folder, DAILY, march()[-1].end)
    moved(monkeypatch, "2026-10-01")
    assert read_schedule(folder) == DAILY
    record_schedule(folder, DAILY, march()[-1].end)
    zone = json.loads(folder.schedule.read_bytes())["zone"]
    assert (zone["release"], len(zone["offsets"])) == ("2031z", 2)


def test_a_day_in_which_the_change_lies_counts_as_cut_by_it(folder, monkeypatch):
    days = [each for each in march() if each.name <= "2026-03-28T23"]
    publish(folder, *days)
    record_schedule(folder, DAILY, days[-1].end)
    moved(monkeypatch, "2026-03-02")
    with pytest.raises(ConfigError, match="up to 2026-03-28T23 were cut"):
        read_schedule(folder)


def test_a_month_is_that_of_the_zone(folder):
    days = march(number=33)
    publish(folder, *days)
    record_schedule(folder, DAILY, days[-1].end)
    found = cover(folder, "2026-03")
    assert [version.path.parent.name for version in found.versions] == [d.name for d in days[:31]]
    assert (found.missing, found.asked) == ((), "2026-02-28T23/2026-03-31T21")
    assert found.both == "2026-02-28T23/2026-03-31T21 (2026-03 Europe/Berlin)"
    again = cover(folder, found.asked)
    assert [v.path for v in again.versions] == [v.path for v in found.versions]


def test_a_missing_day_is_named_by_its_start_and_asked_for_in_both_ways(folder):
    days = march()
    publish(folder, *days[:27], *days[29:])
    record_schedule(folder, DAILY, days[-1].end)
    found = cover(folder, "2026-03")
    assert found.missing == ("2026-03-27T23", "2026-03-28T23")
    assert found.missing_runs == ("2026-03-27T23/2026-03-28T23",)
    message = r"2026-02-28T23/2026-03-31T21 \(2026-03 Europe/Berlin\)"
    with pytest.raises(WindowIncompleteError, match=message):
        found.require("fail")
    with pytest.raises(WindowError, match="no interval"):
        cover(folder, "2026-02-28")


@pytest.mark.parametrize(("day", "length"), [("2026-03-29", 23), ("2026-10-25", 25)])
def test_hours_of_a_day_with_a_change_are_one_set_in_order(folder, day, length):
    span = {"2026-03-29": "2026-03-28T22", "2026-10-25": "2026-10-24T21"}[day]
    hourly = Schedule("@hourly", parse_time(span), zone=BERLIN)
    publish(folder, *march(hourly, 30))
    record_schedule(folder, hourly, march(hourly, 30)[-1].end)
    found = cover(folder, day)
    assert (len(found.versions), found.missing) == (length, ())
    starts = [version.manifest.interval.start for version in found.versions]
    assert starts == sorted(starts)


@pytest.mark.parametrize(
    ("cron", "count"),
    [
        ("@daily", 365),
        pytest.param("@hourly", 8760, marks=[pytest.mark.nightly, pytest.mark.timeout(1800)]),
    ],
)
def test_a_year_is_one_set_in_order_and_the_sum_of_its_months_and_days(folder, cron, count):
    schedule = Schedule(cron, parse_time("2025-12-31T23"), zone=BERLIN)
    year = march(schedule, count)
    assert year[-1].end == parse_time("2026-12-31T23")
    publish(folder, *year)
    record_schedule(folder, schedule, year[-1].end)
    names = [each.name for each in year]
    found = cover(folder, "2026-01/2026-12")
    assert [version.path.parent.name for version in found.versions] == names
    assert (found.missing, found.skipped, found.accepted) == ((), (), ())
    spans = [version.manifest.interval for version in found.versions]
    assert all(a.end == b.start for a, b in pairwise(spans))
    of_months = [cover(folder, f"2026-{month:02}").versions for month in range(1, 13)]
    assert [v.path.parent.name for month in of_months for v in month] == names
    days = {day: cover(folder, f"2026-{day}").versions for day in ("03-28", "03-29", "10-25")}
    hours = {"03-28": 24, "03-29": 23, "10-25": 25}
    assert {day: len(each) for day, each in days.items()} == (
        hours if cron == "@hourly" else dict.fromkeys(hours, 1)
    )
    tag = propose_tag(folder, "2026-01/2026-12", "year", decision()).after
    assert tag.range == "2025-12-31T23/2026-12-31T22"
    assert len(cover_tag(folder, tag).versions) == count


def test_a_tag_keeps_its_range_in_utc(folder):
    days = march()
    publish(folder, *days)
    record_schedule(folder, DAILY, days[-1].end)
    tag = propose_tag(folder, "2026-03", "march", decision()).after
    assert tag.range == "2026-02-28T23/2026-03-31T21"
    assert len(tag.versions) == 31
    part = cover_tag(folder, tag, "2026-03-29")
    assert [version.path.parent.name for version in part.versions] == ["2026-03-28T23"]


def test_a_skipped_month_closes_all_of_it(folder):
    monthly = Schedule("@monthly", parse_time("2026-01-31T23"), zone=BERLIN)
    months = march(monthly, 3)
    publish(folder, *months)
    (folder.interval(months[1].name) / "g0001.withdrawn").touch()
    record_schedule(folder, monthly, months[-1].end)
    span = {"start": format_time(months[1].start), "end": format_time(months[1].end)}
    write_skip(folder, Skip(months[1].name, "no logs", "2026-06-01T00:00:00Z", None, **span))
    found = cover(folder, "2026-02/2026-04")
    assert (found.missing, [each.interval for each in found.skipped]) == ((), [months[1].name])


def test_a_hole_of_a_whole_utc_day_is_named_in_hours(folder):
    """In the summer it is no day in London."""
    first, second = parse_time("2026-07-01"), parse_time("2026-07-02")
    publish(
        folder,
        Interval(first - HOUR, first, "2026-06-30T23"),
        Interval(second, second + HOUR, "2026-07-02T00"),
    )
    daily = Schedule("30 23 * * *", parse_time("2026-06-29T2230"), zone="Europe/London")
    record_schedule(folder, daily, second)
    found = cover(folder, "2026-06-30T23/2026-07-02T00")
    assert found.missing == ("2026-07-01T00/2026-07-01T23",)
    assert accept_hole(folder, found.missing[0], decision())[1]


def test_a_set_that_moved_from_utc_to_a_zone_is_read_by_names_and_days(folder):
    utc = Schedule("@daily", datetime(2026, 3, 1, tzinfo=UTC))
    zoned = Schedule("@daily", parse_time("2026-03-03T23"), zone=BERLIN)
    publish(folder, *march(utc, 3))
    piece = Interval(parse_time("2026-03-04"), parse_time("2026-03-04T23"), "2026-03-04")
    later = march(zoned, 3)[1:]
    publish(folder, piece, *later)
    record_schedule(folder, zoned, later[-1].end)
    assert range_of(folder, "2026-03-02").local is None
    assert range_of(folder, "2026-03-05").local == "2026-03-05 Europe/Berlin"
    found = cover(folder, "2026-03-01T00/2026-03-05")
    assert (len(found.versions), found.missing) == (5, ())


def test_a_damaged_record_leaves_days_of_a_set_in_utc_as_they_are(folder):
    publish(folder, Interval(parse_time("2026-03-01"), parse_time("2026-03-02"), "2026-03-01"))
    folder.schedule.write_bytes(b"{}\n")
    assert range_of(folder, "2026-03").text == "2026-03"
    publish(folder, march()[5])
    with pytest.raises(FormatError):
        range_of(folder, "2026-03")


def test_a_hole_of_whole_days_in_utc_means_the_same_when_it_is_typed_back(folder):
    """Days in UTC until March 10, hours of Berlin from March 12 on: two days between them."""
    day = timedelta(days=1)
    days = [parse_time("2026-03-08") + n * day for n in range(2)]
    hourly = Schedule("@hourly", parse_time("2026-03-12T00"), zone=BERLIN)
    hours = list(islice(hourly.intervals(), 2))
    publish(folder, *(Interval(at, at + day, f"{at:%Y-%m-%d}") for at in days), *hours)
    record_schedule(folder, hourly, hours[-1].end)
    hole, written = accept_hole(folder, "2026-03-10T00/2026-03-11T23", decision())
    assert written
    assert hole.range == "2026-03-10T00/2026-03-11T23"
    assert accept_hole(folder, hole.range, decision()) == (hole, False)
    assert cover(folder, "2026-03-09T00/2026-03-12T01").accepted == (hole,)
    span = range_of(folder, hole.range)
    assert (span.start, span.end) == hole.span
    # As days of the zone it would be another span.
    assert range_of(folder, "2026-03-10/2026-03-11").start != hole.span[0]
    assert revoke_hole(folder, hole.range, decision()) == (hole, True)


def test_a_hole_of_whole_days_of_a_set_in_utc_is_told_in_days(folder):
    hole = AcceptedHole(
        "clicks", "2026-03-10T00:00:00Z", "2026-03-12T00:00:00Z", **vars(decision())
    )
    assert hole.range == "2026-03-10/2026-03-11"
    assert "zone" not in hole.to_json()
