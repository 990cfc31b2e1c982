"""Decisions and neighbours whose intervals an earlier schedule made longer or shorter."""

from datetime import UTC, datetime

import pytest

from tests.unit.versions.coverage.test_coverage import publish
from trainfeed.core.accounts import Decision
from trainfeed.core.intervals import Interval, Schedule, format_time
from trainfeed.errors import ConflictError
from trainfeed.versions import DatasetFolder, Skip, cover, record_schedule, write_skip
from trainfeed.versions.accept_hole import accept_hole


def at(day, hour=0):
    return datetime(2026, 1, day, hour, tzinfo=UTC)


def decision():
    return Decision.now("the schedule was moved", who="ana")


@pytest.fixture
def folder(tmp_path):
    return DatasetFolder(tmp_path, "clicks")


@pytest.mark.parametrize("was_built", [False, True])
def test_a_skipped_friday_reaches_to_monday_over_a_version_of_another_schedule(folder, was_built):
    publish(
        folder,
        Interval(at(1), at(2), "2026-01-01"),
        Interval(at(3), at(4), "2026-01-03"),
        Interval(at(5), at(6), "2026-01-05"),
    )
    record_schedule(folder, Schedule("0 0 * * 1-5", at(1)))
    if was_built:
        publish(folder, Interval(at(2), at(5), "2026-01-02"))
        (folder.interval("2026-01-02") / "g0001.withdrawn").touch()
    assert cover(folder, "2026-01-04/2026-01-05").missing == ("2026-01-04",)
    span = {"start": format_time(at(2)), "end": format_time(at(5))}
    write_skip(folder, Skip("2026-01-02", "no logs", "2026-02-01T00:00:00Z", None, **span))
    found = cover(folder, "2026-01-04/2026-01-05")
    assert (found.missing, [each.interval for each in found.skipped]) == ((), ["2026-01-02"])


def test_the_version_behind_a_range_is_the_next_one_whatever_its_name_is(folder):
    """A day that begins at 18 o'clock has the name of the date, before hours of that date."""
    publish(
        folder,
        Interval(at(3, 18), at(4), "2026-01-03T18"),
        Interval(at(5, 12), at(5, 18), "2026-01-05T12"),
        Interval(at(5, 18), at(6, 18), "2026-01-05"),
    )
    record_schedule(folder, Schedule("0 18 * * *", at(4, 18)))
    hole = "2026-01-04T00/2026-01-05T11"
    accept_hole(folder, hole, decision())
    found = cover(folder, hole)
    assert (found.missing, [each.range for each in found.accepted]) == ((), [hole])


def test_a_version_of_three_days_covers_what_lies_behind_a_shorter_one_in_it(folder):
    publish(
        folder,
        Interval(at(2), at(5), "2026-01-02"),
        Interval(at(3, 18), at(4, 18), "2026-01-03"),
        Interval(at(6), at(7), "2026-01-06"),
    )
    record_schedule(folder, Schedule("0 6 * * *", at(1, 6), at(1, 6)))
    with pytest.raises(ConflictError):
        accept_hole(folder, "2026-01-04T18/2026-01-05T23", decision())
    assert accept_hole(folder, "2026-01-05", decision())[1]
