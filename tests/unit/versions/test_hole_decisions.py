"""A person accepts a hole between two versions that no interval of the schedule fits."""

from datetime import UTC, datetime

import pytest

from tests.unit.versions.coverage.test_coverage import publish
from trainfeed.core.accounts import Decision
from trainfeed.core.intervals import Interval, Schedule
from trainfeed.errors import ConflictError, FormatError, NotFoundError, WindowIncompleteError
from trainfeed.versions import DatasetFolder
from trainfeed.versions.accept_hole import accept_hole, revoke_hole
from trainfeed.versions.coverage import cover
from trainfeed.versions.history import actions
from trainfeed.versions.schedule import record_schedule

HOLE = "2026-03-02T00/2026-03-02T05"
RANGE = "2026-03-01/2026-03-03"


def at(day, hour=0):
    return datetime(2026, 3, day, hour, tzinfo=UTC)


@pytest.fixture
def folder(tmp_path):
    """The day moved from midnight to 6 o'clock, between the first and the second version."""
    folder = DatasetFolder(tmp_path, "clicks")
    publish(
        folder,
        Interval(at(1), at(2), "2026-03-01"),
        Interval(at(2, 6), at(3, 6), "2026-03-02"),
        Interval(at(3, 6), at(4, 6), "2026-03-03"),
    )
    record_schedule(folder, Schedule("0 6 * * *", at(2, 6)))
    return folder


def decision(why="the day was moved", request=None):
    return Decision.now(why, who="ana", request=request)


def done(folder):
    return [each.action for each in actions(folder)]


def test_a_part_of_an_accepted_hole_is_accepted(folder):
    hole, _ = accept_hole(folder, HOLE, decision())
    assert accept_hole(folder, "2026-03-02T01/2026-03-02T02", decision()) == (hole, False)


def test_a_hole_with_fractions_of_a_second_is_refused(folder):
    """Two of them would have one file."""
    with pytest.raises(ConflictError, match="whole second"):
        accept_hole(folder, "2026-03-02T00:00:00.25/2026-03-02T05", decision())
    assert done(folder) == []


def test_a_hole_that_no_interval_fits_is_missing_until_somebody_accepts_it(folder):
    with pytest.raises(WindowIncompleteError):
        cover(folder, RANGE).require("fail")
    hole, is_new = accept_hole(folder, HOLE, decision())
    assert is_new
    found = cover(folder, RANGE)
    found.require("fail")
    assert found.accepted == (hole,)
    assert (hole.who, hole.why, hole.span) == ("ana", "the day was moved", (at(2), at(2, 6)))
    assert done(folder) == ["accept-hole"]
    assert accept_hole(folder, HOLE, decision("another reason")) == (hole, False)
    assert done(folder) == ["accept-hole"]


def test_an_acceptance_is_taken_back(folder):
    accept_hole(folder, HOLE, decision())
    assert revoke_hole(folder, HOLE, decision("too early"))[1]
    with pytest.raises(WindowIncompleteError):
        cover(folder, RANGE).require("fail")
    assert done(folder) == ["accept-hole", "revoke-hole"]
    with pytest.raises(NotFoundError):
        revoke_hole(folder, HOLE, decision("again"))


def test_a_dry_run_changes_nothing(folder):
    before = sorted(folder.path.rglob("*"))
    assert not accept_hole(folder, HOLE, decision(), dry_run=True)[1]
    assert sorted(folder.path.rglob("*")) == before


@pytest.mark.parametrize(
    "asked", ["2026-03-01", "2026-03-02T00/2026-03-02T06", "2026-03-05", "2026-02-28/2026-03-02"]
)
def test_what_is_no_hole_is_not_accepted(folder, asked):
    with pytest.raises(ConflictError):
        accept_hole(folder, asked, decision())
    assert not folder.holes.exists()


def test_a_hole_that_an_interval_fits_is_built_or_skipped_and_not_accepted(folder):
    publish(folder, Interval(at(5, 6), at(6, 6), "2026-03-05"))
    with pytest.raises(ConflictError):
        accept_hole(folder, "2026-03-04T06/2026-03-05T05", decision())


def test_a_changed_acceptance_closes_nothing(folder):
    accept_hole(folder, HOLE, decision())
    (path,) = folder.holes.iterdir()
    data = path.read_bytes()
    path.write_bytes(data.replace(b"ana", b"eve"))
    with pytest.raises(FormatError):
        cover(folder, RANGE)
    path.write_bytes(data)
    path.rename(path.with_name("20260304T060000Z-20260305T060000Z.json"))
    with pytest.raises(FormatError):
        cover(folder, RANGE)
