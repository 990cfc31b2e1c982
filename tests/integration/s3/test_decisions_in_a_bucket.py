"""Decisions about data in a bucket: seen everywhere, in one order, and none by halves."""

from __future__ import annotations

import signal
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from tests.integration.s3.bucket_projects import (
    DAY,
    NEXT_DAY,
    BucketProject,
    make_bucket_project,
    make_bucket_root,
)
from tests.unit.fault_points import points_in
from trainfeed.core import faults
from trainfeed.core.accounts import Decision
from trainfeed.errors import ConflictError, FormatError, RootError, WithdrawnError
from trainfeed.files.stores import Location
from trainfeed.upkeep.withdrawal import Maker, restore, withdraw
from trainfeed.versions import decision_log
from trainfeed.versions.bucket_objects import BucketVersion
from trainfeed.versions.bucket_root import bucket_mark
from trainfeed.versions.decision_log import DecisionLog, LogState
from trainfeed.versions.history import actions
from trainfeed.versions.state_folder import decide, follow, make_state
from trainfeed.versions.tag import apply_change, propose_tag
from trainfeed.versions.tag_files import current_tag
from trainfeed.versions.withdraw import withdrawal_of, withdrawals

ADA = Maker("ada", "builder", "labels of yesterday")
WHY = ("--why", "labels of yesterday")


@pytest.fixture
def project(tmp_path, folder: Location) -> BucketProject:
    """Two days in a bucket."""
    project = make_bucket_project(tmp_path / "project", folder / "root")
    for day in (DAY, NEXT_DAY):
        project.build(day)
    return project


@pytest.fixture
def other(project: BucketProject) -> BucketProject:
    """The same root as another account sees it."""
    found = project.at(project.path / "cache" / "other", is_private=True)
    follow(found.folder)
    return found


def is_withdrawn(project: BucketProject, generation: int = 1) -> bool:
    follow(project.folder)
    return withdrawal_of(project.folder, DAY, generation) is not None


# --- what one decides, others see


def test_a_withdrawal_and_a_restoration_count_everywhere(project, other) -> None:
    withdraw(other.env, "clicks", DAY, 1, ADA)
    assert is_withdrawn(project)
    project.require_followed()
    with pytest.raises(WithdrawnError):
        project.build(DAY)
    restore(project.env, "clicks", DAY, 1, ADA)
    assert not is_withdrawn(other)
    assert [each.action for each in actions(other.folder)] == ["withdraw", "restore"]
    assert project.build(DAY)["verdict"] == "identical"


@pytest.mark.parametrize(
    ("words", "path"),
    [
        (("tag", f"clicks/{DAY}/{NEXT_DAY}", "prod", *WHY), "tags/prod/0001.json"),
        (("withdraw", f"clicks/{DAY}", *WHY), f"versions/{DAY}/g0001.withdrawn"),
    ],
)
def test_a_command_of_an_account_without_a_folder_decides(project, other, words, path) -> None:
    other.command(*words)
    follow(project.folder)
    project.require_followed()
    assert (project.folder.path / path).is_file()
    assert project.log.newest().files.keys() >= {path}
    assert len(list(actions(project.folder))) == 1


def test_what_is_withdrawn_is_not_published_while_its_build_is_at_work(
    project, other, monkeypatch
) -> None:
    """Between the announcement and the manifest of the same content, somebody withdraws it."""

    def meanwhile(point: str) -> None:
        if point == "bucket.announced":
            monkeypatch.setattr(faults, "point", lambda _: None)
            withdraw(other.env, "clicks", DAY, 1, ADA)

    monkeypatch.setattr(faults, "point", meanwhile)
    with pytest.raises(WithdrawnError, match="was published and is withdrawn: meanwhile"):
        project.build(DAY, rebuild="to see")
    assert [mark.generation for mark in withdrawals(project.folder, DAY)] == [1, 2]
    follow(other.folder)
    assert other.folder.readable_generation(DAY) is None
    project.require_followed()


def test_a_withdrawal_before_the_announcement_leaves_nothing(project, other, monkeypatch) -> None:
    def meanwhile(point: str) -> None:
        if point == "bucket.before_manifest":
            monkeypatch.setattr(faults, "point", lambda _: None)
            withdraw(other.env, "clicks", DAY, 1, ADA)

    monkeypatch.setattr(faults, "point", meanwhile)
    with pytest.raises(WithdrawnError, match="nothing was published"):
        project.build(DAY, rebuild="to see")
    assert project.log.newest().versions == [f"{DAY}/g0001", f"{NEXT_DAY}/g0001"]


def test_a_number_that_is_given_up_before_the_announcement_is_not_published(
    project, other, monkeypatch
) -> None:
    def meanwhile(point: str) -> None:
        if point == "bucket.before_manifest":
            monkeypatch.setattr(faults, "point", lambda _: None)
            decide(other.folder, "test", lambda: _write(other, f"versions/{DAY}/g0002.removed"))

    monkeypatch.setattr(faults, "point", meanwhile)
    with pytest.raises(ConflictError, match="its number is never used again"):
        project.build(DAY, rebuild="to see")
    assert project.log.newest().versions == [f"{DAY}/g0001", f"{NEXT_DAY}/g0001"]
    assert not (
        BucketVersion.at(project.bucket, "clicks", DAY, 2).folder / "MANIFEST.json"
    ).exists()


# --- two at once


def test_of_many_at_once_one_withdraws(project) -> None:
    others = [project.at(project.path / f"state-{number}") for number in range(6)]

    def go(number: int) -> str:
        try:
            withdraw(others[number].env, "clicks", DAY, 1, Maker(f"p{number}", "builder", "bad"))
        except ConflictError:
            return "refused"
        return "withdrawn"

    with ThreadPoolExecutor(6) as pool:
        said = list(pool.map(go, range(6)))
    assert sorted(said) == ["refused"] * 5 + ["withdrawn"]
    for each in others:
        follow(each.folder)
        each.require_followed()
        assert withdrawal_of(each.folder, DAY, 1).who == f"p{said.index('withdrawn')}"
    assert len(list(actions(project.folder))) <= 1


def test_decisions_about_different_things_at_once_are_all_made(project) -> None:
    others = [project.at(project.path / f"state-{number}") for number in range(6)]

    def go(number: int) -> None:
        folder, tag = others[number].folder, f"tag-{number}"
        follow(folder)
        apply_change(folder, propose_tag(folder, DAY, tag, Decision.now("to see")))

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(go, range(6)))
    follow(project.folder)
    project.require_followed()
    assert all(current_tag(project.folder, f"tag-{number}") for number in range(6))


def test_of_two_changes_of_a_tag_one_is_made(project, other) -> None:
    proposals = [
        propose_tag(each.folder, DAY, "prod", Decision.now("to see")) for each in (project, other)
    ]
    apply_change(project.folder, proposals[0])
    with pytest.raises(ConflictError, match="was changed meanwhile"):
        apply_change(other.folder, proposals[1])
    other.require_followed()
    assert current_tag(other.folder, "prod").number == 1


def test_a_decision_runs_again_on_what_came_between(project, other) -> None:
    seen: list[bool] = []

    def act() -> None:
        seen.append(withdrawal_of(project.folder, DAY, 1) is not None)
        (project.folder.path / "holes").mkdir(exist_ok=True)
        (project.folder.path / "holes/one.json").write_text("{}")
        if len(seen) == 1:
            withdraw(other.env, "clicks", DAY, 1, ADA)

    decide(project.folder, "test", act)
    assert seen == [False, True]
    project.require_followed()


def test_who_is_always_too_late_is_told(project, other) -> None:
    counted = iter(range(100))

    def act() -> None:
        (project.folder.path / "SCHEDULE.json").write_text("mine")
        decide(other.folder, "test", lambda: _write(other, f"holes/h{next(counted)}.json"))

    with pytest.raises(ConflictError, match="others have decided 16 times"):
        decide(project.folder, "test", act)
    follow(project.folder)
    project.require_followed()


def _write(project: BucketProject, path: str) -> None:
    place = project.folder.path / path
    place.parent.mkdir(exist_ok=True)
    place.write_text("{}")


# --- kills

POINTS = [
    "follow.after_files",
    "decide.begun",
    "history.after_action",
    "withdrawal.after_mark",
    "decide.acted",
    "log.before_entry",
    "log.after_entry",
]
OF_STATE_FOLDERS = ["state.after_address", "follow.before_version"]


def test_every_point_is_killed_at() -> None:
    named = points_in("versions/state_folder.py", "versions/decision_log.py")
    assert named <= {*POINTS, *OF_STATE_FOLDERS}


@pytest.mark.parametrize("point", POINTS)
def test_a_killed_decision_is_before_or_after_and_a_retry_ends_it(project, other, point) -> None:
    words = ("withdraw", f"clicks/{DAY}", *WHY)
    # A decision of somebody else, so that there is something to follow.
    apply_change(other.folder, propose_tag(other.folder, DAY, "prod", Decision.now("to see")))
    killed = project.command(*words, fault=f"{point}:kill", status=None)
    assert killed.returncode == -signal.SIGKILL
    counts = point == "log.after_entry"
    assert is_withdrawn(other) is counts
    assert is_withdrawn(project) is counts
    project.require_followed()
    project.command(*words)
    assert is_withdrawn(other)
    project.require_followed()
    assert len(list(actions(other.folder))) == 2


@pytest.mark.parametrize("point", OF_STATE_FOLDERS)
def test_a_folder_that_was_half_made_is_finished(project, point) -> None:
    state = project.path / "half"
    half = replace(project, env=replace(project.env, root=str(state)))
    words = ("init", project.bucket.uri) if point.startswith("state") else ("ls", "clicks")
    if not point.startswith("state"):
        make_state(state, project.bucket, is_private=False)
    assert half.command(*words, fault=f"{point}:kill", status=None).returncode == -signal.SIGKILL
    half.command("init", project.bucket.uri)
    half.command("ls", "clicks")
    half.require_followed()
    assert half.folder.readable_generation(DAY) == 1


def test_what_a_killed_decision_left_is_kept_in_the_trash(project) -> None:
    words = ("withdraw", f"clicks/{DAY}", *WHY)
    project.command(*words, fault="log.before_entry:kill", status=None)
    assert not is_withdrawn(project)
    (kept,) = project.folder.trash.glob(f"*/versions/{DAY}/g0001.withdrawn")
    assert kept.is_file()


# --- the log


def test_a_state_follows_from_the_entries_and_begins_a_new_folder(project, monkeypatch) -> None:
    monkeypatch.setattr(decision_log, "_STATE_EVERY", 4)
    for number in range(9):
        decide(
            project.folder, "test", lambda number=number: _write(project, f"holes/h{number}.json")
        )
    log, folder = project.log, project.bucket / "clicks/+decisions"
    states = sorted(each.name for each in folder.list() if ".state." in each.name)
    assert len(states) >= 2
    asked: list[int] = []
    entry = DecisionLog.entry
    monkeypatch.setattr(
        DecisionLog, "entry", lambda log, number: (asked.append(number), entry(log, number))[1]
    )
    newest = log.newest()
    assert min(asked) == int(states[-1][:8]) + 1
    state = LogState("clicks")
    while (found := entry(log, state.number + 1)) is not None:
        state = state.after(found)
    assert state == newest


def test_a_damaged_entry_stops_who_follows(project, other) -> None:
    follow(other.folder)
    withdraw(project.env, "clicks", DAY, 1, ADA)
    place = project.bucket / f"clicks/+decisions/{project.log.newest().number:08d}.json"
    data = place.read_bytes()
    place.write_atomic(lambda file: file.write(data.replace(b"yesterday", b"tomorrow!")))
    with pytest.raises(FormatError, match="expected an entry of the decisions"):
        follow(other.folder)
    assert withdrawal_of(other.folder, DAY, 1) is None


# --- folders that follow


def test_a_folder_follows_one_root(project, folder: Location, tmp_path) -> None:
    make_bucket_root(folder / "another")
    with pytest.raises(RootError, match="which follows"):
        make_state(project.folder.root, folder / "another", is_private=False)
    (tmp_path / "full").mkdir()
    (tmp_path / "full/file").touch()
    with pytest.raises(RootError, match="expected an empty folder"):
        make_state(tmp_path / "full", project.bucket, is_private=False)
    with pytest.raises(RootError, match="trainfeed init s3://"):
        make_state(tmp_path / "none", folder / "unmade", is_private=False)
    assert bucket_mark(tmp_path / "none") is None


def test_a_state_folder_that_is_not_there_is_refused(project, tmp_path) -> None:
    moved = replace(project, env=replace(project.env, root=str(tmp_path / "unmounted")))
    told = moved.command("build", "clicks", "--interval", DAY, status=None)
    assert told.returncode == 2
    assert "expected TRAINFEED_STATE to name the folder" in told.stderr
