"""Holes between versions: what was there before counts as what became of it, and not as missing."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from tests.unit.look.status.published import publish
from trainfeed.core.intervals import Schedule
from trainfeed.versions import Skip, record_schedule, write_skip

NOW = datetime(2026, 1, 5, 6, tzinfo=UTC)
EARLIER = "2026-01-02"


def told(found):
    return {each.interval: each.state for each in found.intervals}


@pytest.fixture(params=["three days", "none"])
def changed(days, request):
    """Days 1 to 4; today's schedule is of every third day from the fourth on, or not known."""
    for each in days.first(4):
        publish(days.folder, each)
    if request.param == "none":
        days.folder.schedule.unlink()
    else:
        record_schedule(days.folder, Schedule("0 0 */3 * *", datetime(2026, 1, 4, tzinfo=UTC)))
    return days


def test_a_damaged_version_of_an_earlier_schedule_is_damaged_and_no_hole(changed):
    (changed.folder.version(EARLIER, 1) / "MANIFEST.json").write_text("{}")
    found = changed.status(NOW)
    assert told(found)[EARLIER] == "damaged"
    assert [each.interval for each in found.intervals].count(EARLIER) == 1
    assert "accept-hole" not in str(found)
    assert "missing" not in found.counts


def test_a_damaged_version_at_the_end_leaves_the_hole_before_it(changed):
    (changed.folder.version("2026-01-04", 1) / "MANIFEST.json").write_text("{}")
    (changed.folder.interval("2026-01-03")).rename(changed.root / "gone")
    found = told(changed.status(NOW))
    assert found["2026-01-03"] == "missing"
    assert found["2026-01-04"] == "damaged"


@pytest.mark.parametrize("state", ["withdrawn", "removed"])
def test_an_interval_of_an_earlier_schedule_that_was_hidden_says_so_and_is_not_missing(
    changed, state
):
    (changed.folder.interval(EARLIER) / f"g0001.{state}").touch()
    found = changed.status(NOW)
    (hidden,) = (each for each in found.intervals if each.interval == EARLIER)
    assert (hidden.state, hidden.reason) == (state, f"g0001.{state}")
    assert "missing" not in found.counts
    assert found.is_in_order
    assert not changed.status(NOW, EARLIER).is_in_order


def test_beside_a_hidden_interval_the_rest_of_its_hole_is_missing(changed):
    (changed.folder.interval(EARLIER) / "g0001.withdrawn").touch()
    changed.folder.interval("2026-01-03").rename(changed.root / "gone")
    found = changed.status(NOW)
    assert told(found)[EARLIER] == "withdrawn"
    assert told(found)["2026-01-03"] == "missing"


def test_a_damaged_marker_of_an_earlier_schedule_is_named_and_is_damage(changed):
    (day,) = changed.first(2)[1:]
    changed.folder.interval(EARLIER).rename(changed.root / "gone")
    write_skip(changed.folder, Skip(EARLIER, "no folder", "2026-01-04T00:00:00Z", None))
    assert told(changed.status(NOW))[EARLIER] == "skipped"
    changed.folder.skip(EARLIER).write_text("{")
    found = changed.status(NOW)
    (marker,) = (each for each in found.intervals if each.interval == EARLIER)
    assert (marker.state, marker.end) == ("damaged", int(day.end.timestamp()))
    assert "SKIPPED.json" in marker.reason
    assert found.is_damaged
    assert "accept-hole" not in str(found)
    assert told(changed.status(NOW, EARLIER)) == {EARLIER: "damaged"}


def test_a_damaged_marker_of_today_is_told_once(days):
    write_skip(days.folder, Skip(EARLIER, "no folder", "2026-01-04T00:00:00Z", None))
    days.folder.skip(EARLIER).write_text(json.dumps([]))
    found = [each.interval for each in days.status(NOW).intervals]
    assert found == [each.name for each in days.first(4)]
    assert told(days.status(NOW + timedelta(days=1)))[EARLIER] == "damaged"


def test_a_damaged_marker_of_a_withdrawn_interval_is_told_once(changed):
    (changed.folder.interval(EARLIER) / "g0001.withdrawn").touch()
    write_skip(changed.folder, Skip(EARLIER, "no folder", "2026-01-04T00:00:00Z", None))
    changed.folder.skip(EARLIER).write_text("{")
    rows = [each.state for each in changed.status(NOW).intervals if each.interval == EARLIER]
    assert rows == ["damaged"]
