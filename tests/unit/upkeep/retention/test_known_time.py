"""Retention and a clock that is wrong: nothing is removed, and nothing is refused for ever."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.support.roots import reseal
from tests.unit.pipeline.conftest import make_project
from trainfeed.errors import ConfigError, ConflictError, FormatError, StorageError
from trainfeed.files import stores as storage
from trainfeed.files.stores import location as _store_clock
from trainfeed.pipeline.leftovers import sweep
from trainfeed.upkeep.retention import Context, prune
from trainfeed.upkeep.retention import context as _context
from trainfeed.upkeep.retention import sweep as _known_time
from trainfeed.versions.history import actions

DAYS = ["2024-03-01", "2024-03-02", "2024-03-03"]


@pytest.fixture
def built(tmp_path):
    """Three days, built just now, which are retired when they are 1,200 days old."""
    project = make_project(tmp_path)
    for day in DAYS:
        project.prebuilt(day)
    project.edit("seed: 7", "seed: 7\nretention: {keep_intervals_days: 1200}")
    return project


@pytest.fixture
def clock(monkeypatch):
    """The clock of this machine; the store's is the same unless a test says otherwise."""
    clock = Clock()
    monkeypatch.setattr(_context, "present", clock.now)
    monkeypatch.setattr(_store_clock, "present", clock.now)
    return clock


class Clock:
    def __init__(self):
        self.ahead = timedelta()

    def now(self):
        return datetime.now(UTC) + self.ahead


@pytest.fixture
def one_machine(monkeypatch):
    """A store that has the clock of this machine, whatever it says."""
    monkeypatch.setattr(_known_time, "require_store_clock", lambda *_, **__: None)


def run(project, **options):
    return prune(Context.of(project.spec, project.env, who="ann"), **options)


def left(project):
    return [day for day in DAYS if project.folder.generations(day)]


@pytest.mark.parametrize("days", [-1500, -1, 1, 1500])
def test_a_clock_that_differs_from_the_stores_removes_plans_and_sweeps_nothing(built, clock, days):
    clock.ahead = timedelta(days=days)
    for act in (
        lambda: run(built),
        lambda: run(built, clock_is_right="it is not"),
        lambda: sweep(built.env),
        lambda: built.build("2024-03-04"),
    ):
        with pytest.raises(StorageError, match="clock of this machine"):
            act()
    assert left(built) == DAYS
    assert not list((built.folder.staging / "tmp").iterdir())


def test_a_clock_some_minutes_off_is_taken(built, clock):
    clock.ahead = timedelta(minutes=8)
    run(built)
    sweep(built.env)


def test_after_a_jump_that_the_store_shares_nothing_is_removed_until_a_person_says_it_is_right(
    built, clock, one_machine
):
    clock.ahead = timedelta(days=1500)
    for options in ({}, {"dry_run": True}, {}):
        with pytest.raises(ConflictError, match="--clock-is-right"):
            run(built, **options)
    assert left(built) == DAYS
    with pytest.raises(ConfigError):
        run(built, clock_is_right=" ")
    run(built, clock_is_right="the machine was off")
    assert left(built) == DAYS[-1:]
    (accepted,) = [each for each in actions(built.folder) if each.action == "clock-accepted"]
    assert (accepted.who, accepted.why) == ("ann", "the machine was off")
    run(built)


def test_a_build_after_the_jump_does_not_hide_it(built, clock, one_machine):
    run(built)
    clock.ahead = timedelta(days=1500)
    (built.folder.history / "203001").mkdir(parents=True)
    later = f"{clock.now() - timedelta(hours=1):%Y%m%dT%H%M%S}.000000Z-tag-00000000.json"
    (built.folder.history / "203001" / later).touch()
    with pytest.raises(ConflictError, match="nothing happened for"):
        run(built)
    assert left(built) == DAYS


def test_a_data_set_in_which_nothing_happens_for_a_year_is_pruned_every_night(
    built, clock, one_machine
):
    for night in range(0, 400, 20):
        clock.ahead = timedelta(days=night)
        run(built)
    assert left(built) == DAYS


def test_what_happened_in_the_future_is_a_doubt_until_it_is_accepted(built, clock, one_machine):
    clock.ahead = timedelta(days=20)
    run(built)
    clock.ahead = timedelta()
    for _ in range(2):
        with pytest.raises(ConflictError, match="in the future"):
            run(built)
    run(built, clock_is_right="it was 20 days ahead yesterday")
    run(built)


def test_a_dry_run_writes_nothing_also_about_the_time(built, clock):
    before = sorted(built.folder.path.rglob("*"))
    run(built, dry_run=True)
    assert sorted(built.folder.path.rglob("*")) == before


def test_a_damaged_time_of_the_last_run_removes_nothing(built, clock):
    run(built)
    path = built.folder.path / "RETENTION.json"
    path.write_bytes(path.read_bytes().replace(b'"at":"20', b'"at":"21'))
    with pytest.raises(FormatError, match="remove the file"):
        run(built)
    path.unlink()
    run(built)


def test_the_time_of_the_last_run_of_another_data_set_removes_nothing(built, clock):
    run(built)
    path = built.folder.path / "RETENTION.json"
    reseal(path, dataset=None)
    run(built)
    reseal(path, dataset="views")
    with pytest.raises(FormatError, match="remove the file"):
        run(built)


def test_a_time_that_a_program_gives_is_not_doubted(built):
    later = datetime.now(UTC) + timedelta(days=1500)
    prune(Context.of(built.spec, built.env, now=later))
    assert left(built) == DAYS[-1:]
    assert timedelta(minutes=10) == storage.CLOCK_MARGIN
