"""Which intervals of a range are there: against a list of what should be, with and without it."""

import hashlib
from datetime import UTC, datetime, timedelta
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainfeed.core.intervals import PRESETS, Schedule, format_time, intervals_in, parse_range
from trainfeed.errors import ConfigError, FormatError, NotFoundError, WindowIncompleteError
from trainfeed.versions import (
    DatasetFolder,
    Manifest,
    Skip,
    cover,
    cover_named,
    read_schedule,
    record_schedule,
    write_skip,
)
from trainfeed.versions import retire as _told_retirements
from trainfeed.versions.layout import MANIFEST, MANIFEST_DIGEST

START = datetime(2026, 1, 1, tzinfo=UTC)
EMPTY = {
    "format": 1,
    "dataset": "clicks",
    "generation": 1,
    "supersedes": None,
    "fingerprint": "0" * 64,
    "content_digest": "0" * 64,
    "empty": True,
    "schema": [],
    "splits": {},
    "files": [],
    "sources": [],
    "inputs": {},
    "gaps": [],
    "late": {},
    "ledger": {},
    "quarantine": {"records": 0, "reasons": {}},
    "filtered": {},
    "gates": [],
    "waivers": [],
    "code": {},
    "lookups": {},
    "libraries": {},
    "plan": "p",
}


def publish(folder, *intervals):
    for interval in intervals:
        span = {"start": format_time(interval.start), "end": format_time(interval.end)}
        data = Manifest.model_validate({**EMPTY, "interval": span}).to_bytes()
        version = folder.version(interval.name, 1)
        version.mkdir(parents=True)
        (version / MANIFEST).write_bytes(data)
        (version / MANIFEST_DIGEST).write_text(hashlib.sha256(data).hexdigest() + "\n")


@pytest.fixture
def folder(tmp_path):
    return DatasetFolder(tmp_path, "clicks")


def ticks(cron):
    from croniter import croniter

    return croniter(PRESETS.get(cron, cron), START - timedelta(seconds=1)).get_next(datetime)


def first_intervals(cron, count):
    return list(islice(Schedule(cron, ticks(cron)).intervals(), count))


def names(coverage):
    return [version.path.parent.name for version in coverage.versions]


CRONS = ["@hourly", "@daily", "@weekly", "@monthly", "0 0 * * 1-5", "15 */6 * * *"]


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_published_skipped_and_missing_are_what_the_schedule_has_in_the_range(
    tmp_path_factory, data
):
    cron = data.draw(st.sampled_from(CRONS))
    intervals = first_intervals(cron, 12)
    schedule = Schedule(
        cron, intervals[0].start, data.draw(st.sampled_from([None, 8])) and intervals[8].start
    )
    states = data.draw(st.lists(st.sampled_from("psm"), min_size=12, max_size=12))
    folder = DatasetFolder(tmp_path_factory.mktemp("root"), "clicks")
    record_schedule(folder, schedule)
    publish(folder, *(i for i, state in zip(intervals, states, strict=True) if state == "p"))
    for interval, state in zip(intervals, states, strict=True):
        if state == "s":
            write_skip(folder, skip_of(interval))
    first, last = sorted(data.draw(st.tuples(st.integers(0, 8), st.integers(0, 11))))
    found = cover(folder, f"{intervals[first].name}/{intervals[last].name}")
    chosen = list(zip(intervals, states, strict=True))[first : last + 1]
    bound = 11 if schedule.last is None else 8
    # Between two versions all intervals count, also those behind the last of the schedule.
    published = [number for number, state in enumerate(states) if state == "p"]
    between = range(min(published, default=0), max(published, default=0))
    known = {i for n, i in enumerate(intervals) if n <= bound or n in between}
    inside = [(i, state) for i, state in chosen if i in known]
    assert names(found) == [i.name for i, state in chosen if state == "p"]
    everything = Schedule(cron, intervals[0].start)
    missing = [name for run in found.missing for name in names_of(everything, run)]
    assert missing == [i.name for i, state in inside if state == "m"]
    assert [skip.interval for skip in found.skipped] == [i.name for i, s in chosen if s == "s"]
    gaps = [name for run in found.missing_runs for name in names_of(everything, run)]
    assert gaps == missing


def skip_of(interval):
    span = {"start": format_time(interval.start), "end": format_time(interval.end)}
    return Skip(interval.name, "why", "2026-02-01T00:00:00Z", None, **span)


def names_of(schedule, run):
    return [interval.name for interval in intervals_in(schedule, parse_range(run))]


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(CRONS), st.lists(st.booleans(), min_size=6, max_size=6))
def test_without_a_schedule_versions_show_their_own_holes(tmp_path_factory, cron, there):
    """One ends where the next starts, whatever the schedule: weekdays and months have no hole."""
    intervals = first_intervals(cron, 8)
    chosen = [intervals[0], *(i for i, t in zip(intervals[1:7], there, strict=True) if t)]
    folder = DatasetFolder(tmp_path_factory.mktemp("root"), "clicks")
    publish(folder, *chosen, intervals[7])
    found = cover(folder, f"{intervals[0].name}/{intervals[7].name}")
    assert names(found) == [i.name for i in [*chosen, intervals[7]]]
    holes = {
        name for run in found.missing for name in names_of(Schedule(cron, intervals[0].start), run)
    }
    assert holes == {i.name for i in intervals} - {i.name for i in chosen} - {intervals[7].name}


def test_without_a_schedule_a_range_reaches_from_its_beginning_to_its_end(folder):
    days = first_intervals("@daily", 9)
    publish(folder, *days[2:5])
    assert cover(folder, "2026-01-03/2026-01-05").missing == ()
    assert cover(folder, "2026-01").missing == ("2026-01-01/2026-01-02", "2026-01-06/2026-01-31")
    assert cover(folder, "2026-01-04/2026-01-06").missing == ("2026-01-06",)
    with pytest.raises(WindowIncompleteError, match="any build of it records its schedule"):
        cover(folder, "2026-01-04/2026-01-06").require("fail")


def test_without_a_schedule_a_week_reaches_into_the_month_that_follows(folder):
    weeks = first_intervals("@weekly", 5)
    publish(folder, *weeks)
    assert cover(folder, "2026-02").missing == ("2026-02-08/2026-02-28",)
    publish(folder, *list(islice(Schedule("@weekly", weeks[0].start).intervals(), 5, 8)))
    assert cover(folder, "2026-02").missing == ()


def test_a_day_that_an_earlier_schedule_published_holds_its_hours(folder):
    days = first_intervals("@daily", 2)
    hours = first_intervals("@hourly", 72)
    record_schedule(folder, Schedule("@hourly", START))
    publish(folder, *days, *hours[48:60])
    found = cover(folder, "2026-01-01/2026-01-03")
    assert names(found) == [i.name for i in [*days, *hours[48:60]]]
    assert found.missing_runs == ("2026-01-03T12/2026-01-03T23",)


def test_intervals_that_overlap_are_not_read_twice(folder):
    publish(folder, first_intervals("@daily", 1)[0], first_intervals("@hourly", 3)[2])
    with pytest.raises(ConfigError, match=r"2026-01-01/g0001 and 2026-01-01T02/g0001 .* overlap"):
        cover(folder, "2026-01")


def test_a_long_list_of_missing_intervals_is_shortened(folder):
    days = first_intervals("@daily", 60)
    record_schedule(folder, Schedule("@daily", START))
    publish(folder, *days[::2])
    with pytest.raises(WindowIncompleteError) as refused:
        cover(folder, "2026-01-01/2026-03-01").require("fail")
    assert len(refused.value.missing) == 30
    assert "2026-01-20 … and 20 more;" in str(refused.value)
    assert str(refused.value).count("trainfeed build") == 3


@pytest.mark.parametrize("has_folders", [False, True])
def test_a_message_about_many_missing_intervals_reads_few_files(folder, monkeypatch, has_folders):
    hours = first_intervals("@hourly", 721)
    record_schedule(folder, Schedule("@hourly", START))
    publish(folder, hours[0])
    if has_folders:
        for hour in hours[1:]:
            folder.interval(hour.name).mkdir()
    looked = []
    for name in ("retirement_of", "told_withdrawals"):
        real = getattr(_told_retirements, name)
        monkeypatch.setattr(
            _told_retirements, name, lambda *asked, real=real: looked.append(asked) or real(*asked)
        )
    with pytest.raises(WindowIncompleteError) as refused:
        cover(folder, "2026-01-01/2026-01-31").require("fail")
    assert len(refused.value.missing) >= 720
    assert len({interval for _, interval, *_ in looked}) <= 20
    assert ("further intervals were not looked up" in str(refused.value)) == has_folders


def test_nothing_published_is_an_error_also_where_gaps_are_skipped(folder):
    record_schedule(folder, Schedule("@daily", START))
    for policy in ("fail", "skip"):
        with pytest.raises(NotFoundError, match=r"version of 2026-01 in .*; build them"):
            cover(folder, "2026-01").require(policy)


def test_names_are_taken_as_they_are(folder):
    publish(folder, *first_intervals("@daily", 2))
    found = cover_named(folder, ["2026-01-02", "2026-01-01", "2026-01-03"])
    assert (names(found), found.missing) == (["2026-01-02", "2026-01-01"], ("2026-01-03",))


def test_the_schedule_is_kept_beside_the_versions_and_written_when_it_changes(folder, monkeypatch):
    assert read_schedule(folder) is None
    schedule = Schedule("@daily", START)
    record_schedule(folder, schedule)
    assert read_schedule(folder) == schedule
    text, seal = folder.schedule.read_bytes().split(b"\n", 1)
    assert text == (
        b'{"cron":"0 0 * * *","dataset":"clicks","first":"2026-01-01T00:00:00Z","format":1'
        b',"last":null,'
    )
    assert seal.startswith(b' "digest": ')
    assert folder.schedule.stat().st_mode & 0o444 == 0o444
    changed = folder.schedule.stat().st_ino
    record_schedule(folder, schedule)
    assert folder.schedule.stat().st_ino == changed
    ended = Schedule("@daily", START, START + timedelta(days=3))
    record_schedule(folder, ended)
    assert read_schedule(folder) == ended


def test_an_end_that_was_changed_in_the_schedule_shortens_no_range(folder):
    record_schedule(folder, Schedule("@daily", START, START + timedelta(days=30)))
    data = folder.schedule.read_bytes()
    changed = data.replace(b"2026-01-31", b"2026-01-01")
    assert changed != data
    folder.schedule.write_bytes(changed)
    with pytest.raises(FormatError, match="schedule of a data set"):
        cover(folder, "2026-01")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        b'{"cron":"0 0 * * *","first":"2026-01-01T00:00:00Z","format":2,"last":null}',
        b'{"cron":"0 0 * *","first":"2026-01-01T00:00:00Z","format":1,"last":null}',
        b'{"cron":"0 0 * * *","first":7,"format":1,"last":null}',
        b" " * (1 << 17),
    ],
)
def test_a_damaged_schedule_is_refused_and_written_again_by_the_next_build(folder, data):
    folder.path.mkdir()
    folder.schedule.write_bytes(data)
    with pytest.raises(FormatError, match="the next build of the data set writes the file again"):
        read_schedule(folder)
    record_schedule(folder, Schedule("@daily", START))
    assert read_schedule(folder) is not None
