"""A retirement that was begun is completed, or taken back as a whole; withdrawn files count."""

import signal
from datetime import UTC, datetime, timedelta

import pytest

from tests.unit.upkeep.retention.test_intervals import DAYS, prune_command, retired, run, three
from trainfeed.upkeep.retention import Context, prune, scheduled_kinds
from trainfeed.upkeep.withdrawal import Maker, withdraw
from trainfeed.versions.lease import hold_versions
from trainfeed.versions.retire import begun_retirement

__all__ = ["three"]
OLD = DAYS[0]


def scheduled(project):
    return run(project, kinds=scheduled_kinds(project.spec))


def lease(project):
    """A lease that another process took before the mark."""
    return hold_versions(project.folder, [(OLD, 2)], "a test")


@pytest.mark.parametrize("point", ["retirement.after_file", "prune.after_mark"])
def test_a_schedule_takes_back_what_a_killed_run_has_hidden_and_somebody_uses(three, point):
    with lease(three):
        hide(three, point)
        assert [each.item.name for each in scheduled(three).kept] == [OLD]
        assert three.folder.generations(OLD) == [1, 2]
        assert begun_retirement(three.folder, OLD) is None


def hide(project, point):
    """Kill a run that has looked before the lease was there."""
    leases = project.folder.leases
    aside = leases.rename(leases.with_name("aside"))
    assert prune_command(project, point).returncode == -signal.SIGKILL
    if leases.exists():
        leases.rmdir()
    aside.rename(leases)


def test_a_killed_retirement_is_completed_after_the_rule_was_taken_away(three):
    assert prune_command(three, "prune.after_mark").returncode == -signal.SIGKILL
    three.edit("keep_intervals: 2", "keep_generations: 3")
    assert [(each.item.name, each.why) for each in scheduled(three).expired] == [
        (OLD, "keep_intervals: 2")
    ]
    assert retired(three) == [OLD]


def test_a_kill_while_an_interval_is_given_back_is_completed(three):
    with lease(three):
        hide(three, "prune.after_mark")
        assert prune_command(three, "prune.after_taking_back").returncode == -signal.SIGKILL
        scheduled(three)
        assert three.folder.generations(OLD) == [1, 2]
        assert begun_retirement(three.folder, OLD) is None


def test_an_interval_that_stays_after_all_has_no_retirement(three):
    context = Context.of(three.spec, three.env)
    with lease(three):
        prune(context)
    assert begun_retirement(three.folder, OLD) is None


@pytest.mark.parametrize("damage", [False, True])
def test_files_of_a_withdrawal_that_are_wanted_keep_the_interval(three, damage):
    three.edit("keep_intervals: 2", "keep_intervals: 2, keep_withdrawn_days: 30")
    withdraw(three.env, "clicks", OLD, 1, Maker("ann", "ann", "wrong labels"))
    now = datetime.now(UTC)
    if damage:
        mark = three.folder.interval(OLD) / "g0001.withdrawn"
        mark.chmod(0o600)
        mark.write_bytes(b"{")
        now += timedelta(days=31)
    removals = prune(Context.of(three.spec, three.env, now=now))
    whys = [each.why for each in removals.kept if each.item.name == OLD]
    assert ("is damaged" if damage else "may be restored") in whys[0]
    assert three.folder.version(OLD, 1).is_dir()


def test_bytes_that_the_schedule_does_not_remove_count(three):
    three.edit("keep_intervals: 2", "max_bytes: 10000000")
    three.edit("max_bytes", "keep_generations: 1, max_bytes")
    (stated,) = [each for each in scheduled_kinds(three.spec) if each.name == "intervals"]
    three.edit("keep_generations: 1, ", "")
    (default,) = [each for each in scheduled_kinds(three.spec) if each.name == "intervals"]
    assert (stated.superseded_go, default.superseded_go) == (True, False)
