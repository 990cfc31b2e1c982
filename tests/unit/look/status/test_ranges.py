"""The status of a range: what belongs to it, and ranges of which there is nothing to tell."""

from datetime import UTC, datetime, timedelta
from itertools import islice

import pytest

from tests.unit.look.status.published import publish
from trainfeed.core.intervals import Schedule, parse_range
from trainfeed.errors import WindowError
from trainfeed.look.status import report
from trainfeed.versions import record_schedule

NOW = datetime(2026, 1, 5, 6, tzinfo=UTC)


def told(found):
    return {each.interval: each.state for each in found.intervals}


def test_a_hole_that_begins_before_the_range_and_reaches_into_it_is_told(days):
    hours = Schedule("@hourly", datetime(2026, 1, 1, tzinfo=UTC))
    for each in islice(hours.intervals(), 20):
        publish(days.folder, each)
    mornings = Schedule("0 5 * * *", datetime(2026, 1, 2, 5, tzinfo=UTC))
    record_schedule(days.folder, mornings)
    for each in islice(mornings.intervals(), 2):
        publish(days.folder, each)
    found = days.status(NOW, "2026-01-02/2026-01-03")
    hole = "2026-01-01T20/2026-01-02T04"
    assert told(found) == {
        hole: "missing",
        "2026-01-02": "published",
        "2026-01-03": "published",
    }
    assert not found.is_in_order
    assert told(days.status(NOW, "2026-01-03")) == {"2026-01-03": "published"}
    assert hole not in told(days.status(NOW, "2026-01-01T00/2026-01-01T19"))


def test_an_interval_that_begins_before_the_range_is_not_asked_for(days):
    assert told(days.status(NOW, "2026-01-01T12/2026-01-02T12")) == {"2026-01-02": "missing"}


@pytest.mark.parametrize("asked", ["2026-01-02T06/2026-01-02T12", "2025-12-30"])
def test_a_range_in_which_no_interval_starts_is_refused(days, asked):
    with pytest.raises(WindowError, match=f"no interval of the schedule .* starts in {asked}"):
        days.status(NOW, asked)


def test_a_range_behind_the_last_version_is_refused_without_a_schedule(days):
    publish(days.folder, days.first(1)[0])
    days.folder.schedule.unlink()
    assert told(days.status(NOW, "2026-01-01")) == {"2026-01-01": "published"}
    with pytest.raises(WindowError, match="2026-01-03 has none"):
        days.status(NOW, "2026-01-03")


def test_hours_of_a_day_that_was_published_as_a_whole_are_refused(days):
    (day,) = days.first(1)
    publish(days.folder, day)
    record_schedule(days.folder, Schedule("@hourly", day.start))
    with pytest.raises(WindowError, match="2026-01-01T06 has none"):
        days.status(NOW, "2026-01-01T06")


def test_a_range_that_ends_very_far_in_the_future_is_refused_and_not_listed(days, monkeypatch):
    monkeypatch.setattr(report, "MAX_INTERVALS", 3)
    assert len(days.status(NOW, "2026-01-07").intervals) == 1
    monkeypatch.setattr(report, "uncovered", None)
    with pytest.raises(WindowError, match=r"at most 3 .* 2206-05-01 ends later"):
        days.status(NOW, "2206-05-01")


def test_a_range_over_a_long_past_is_as_long_as_it_is(days, monkeypatch):
    monkeypatch.setattr(report, "MAX_INTERVALS", 3)
    now = parse_range("2026-02-01").start
    assert len(days.status(now, "2026-01").intervals) == 31
    assert len(days.status(now + timedelta(days=1)).intervals) == 32
