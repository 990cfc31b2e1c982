"""A decision of the history whose mark is lost is told; what holds or was taken back is not."""

from datetime import UTC, datetime

import pytest

from tests.unit.versions.coverage.test_coverage import publish
from trainfeed.core.accounts import Decision
from trainfeed.core.intervals import Interval, Schedule
from trainfeed.versions import DatasetFolder
from trainfeed.versions.accept_hole import accept_hole, revoke_hole
from trainfeed.versions.history import Action, missing_marks, record_action
from trainfeed.versions.schedule import record_schedule

WHY = ("--why", "labels of yesterday")
FIRST = "clicks/2024-03-01/g0001"


@pytest.fixture
def twice(project):
    """A day that was built twice."""
    for reason in (None, "again"):
        project.prebuilt(rebuild=reason)
    return project


def told(cli):
    """What both commands say; verify also tells of retirements."""
    verified, shown = cli("verify", "clicks")[2], cli("history", "clicks")[2]
    assert set(shown.splitlines()) <= set(verified.splitlines())
    return shown


def targets(project):
    return [(each.action.action, each.target) for each in missing_marks(project.folder)]


def test_a_lost_withdrawal_is_told_until_it_is_decided_again(cli, twice):
    assert cli("withdraw", "clicks/2024-03-01/g0001", *WHY)[0] == 0
    assert told(cli) == ""
    twice.folder.withdrawal_mark("2024-03-01", 1).unlink()
    assert "g0001.withdrawn" in told(cli)
    assert targets(twice) == [("withdraw", FIRST)]
    assert cli("withdraw", "clicks/2024-03-01/g0001", *WHY)[0] == 0
    assert told(cli) == ""


def test_a_restored_version_lacks_nothing(cli, twice):
    assert cli("withdraw", "clicks/2024-03-01/g0001", *WHY)[0] == 0
    assert cli("restore", "clicks/2024-03-01/g0001", "--why", "no fault")[0] == 0
    assert not twice.folder.withdrawal_mark("2024-03-01", 1).exists()
    assert targets(twice) == []


def test_the_lost_mark_of_a_removed_version_is_told(cli, twice):
    twice.edit("seed: 7", "seed: 7\nretention: {keep_generations: 1}")
    assert cli("prune", "clicks")[0] == 0
    assert targets(twice) == []
    twice.folder.removal_mark("2024-03-01", 1).unlink()
    assert targets(twice) == [("prune", FIRST)]
    assert "g0001.removed" in told(cli)


def test_the_lost_file_of_a_retirement_is_told_and_one_that_was_kept_is_not(cli, twice):
    item = {"kind": "intervals", "name": "2024-03-01", "bytes": 1, "since": "2024-03-02"}
    details = {"kind": "intervals", "items": [item]}
    begun = Action.now("retire", "clicks", why="old", details=details)
    record_action(twice.folder, begun)
    assert targets(twice) == [("retire", "clicks/2024-03-01")]
    record_action(twice.folder, Action.now("retire-kept", "clicks", why="tagged", details=details))
    assert targets(twice) == []


def test_the_lost_mark_of_a_generation_of_a_retired_interval_is_told(cli, project):
    for interval in ("2024-03-01", "2024-03-02"):
        project.prebuilt(interval)
    assert cli("retire", "clicks/2024-03-01", "--why", "no longer used")[0] == 0
    assert targets(project) == []
    project.folder.removal_mark("2024-03-01", 1).unlink()
    assert "g0001.removed" in told(cli)


def test_the_withdrawal_of_a_version_that_was_removed_later_may_be_gone(cli, twice):
    assert cli("withdraw", "clicks/2024-03-01/g0001", *WHY)[0] == 0
    twice.folder.withdrawal_mark("2024-03-01", 1).rename(twice.folder.removal_mark("2024-03-01", 1))
    assert targets(twice) == []


def test_a_lost_acceptance_of_a_hole_is_told_and_a_revoked_one_is_not(tmp_path):
    def at(day, hour=0):
        return datetime(2026, 3, day, hour, tzinfo=UTC)

    folder = DatasetFolder(tmp_path, "clicks")
    publish(
        folder,
        Interval(at(1), at(2), "2026-03-01"),
        Interval(at(2, 6), at(3, 6), "2026-03-02"),
    )
    record_schedule(folder, Schedule("0 6 * * *", at(2, 6)))
    hole = "2026-03-02T00/2026-03-02T05"
    accept_hole(folder, hole, Decision.now("the day was moved", who="ana"))
    assert missing_marks(folder) == []
    (path,) = folder.holes.iterdir()
    kept = path.read_bytes()
    path.unlink()
    assert [each.path for each in missing_marks(folder)] == [path]
    path.write_bytes(kept)
    revoke_hole(folder, hole, Decision.now("built after all", who="ana"))
    assert missing_marks(folder) == []


@pytest.mark.parametrize(
    ("action", "target", "details"),
    [
        ("withdraw", "clicks", {}),
        ("withdraw", "clicks/../g0001", {}),
        ("accept-hole", "clicks/x", {"hole": "yesterday", "end": "today"}),
        ("prune", "clicks", {"kind": "generations", "items": [{"name": "../g0001"}, "x", {}]}),
        ("prune", "clicks", {"kind": "intervals", "items": "all"}),
    ],
)
def test_an_action_that_names_no_place_has_no_mark(tmp_path, action, target, details):
    folder = DatasetFolder(tmp_path, "clicks")
    record_action(folder, Action.now(action, target, why="by hand", details=details))
    assert missing_marks(folder) == []
