"""A person retires a range at once, or nothing of it; everybody who asks later is told."""

import errno
import json
import os
import re
import shutil
import signal
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import typer.testing

from tests.support.roots import write_sealed
from tests.support.warm import command as trainfeed
from tests.unit.upkeep.retention.test_intervals import DAYS, three
from trainfeed.cli._app import app
from trainfeed.core import faults
from trainfeed.core.accounts import Decision
from trainfeed.core.intervals import parse_range
from trainfeed.errors import (
    ConfigError,
    ConflictError,
    NotFoundError,
    WindowError,
    WindowIncompleteError,
)
from trainfeed.files.stores import Location
from trainfeed.look.status import Attempts, dataset_status
from trainfeed.pipeline.plan import plan
from trainfeed.upkeep.retention import (
    Context,
    Expired,
    Item,
    Removals,
    execute,
    retire,
    retired_lines,
)
from trainfeed.upkeep.retention import intervals as _interval_removal
from trainfeed.upkeep.withdrawal import Maker, withdraw
from trainfeed.versions import Skip, cover, record_schedule, write_skip
from trainfeed.versions.history import Action, actions
from trainfeed.versions.lease import hold_versions
from trainfeed.versions.retire import retirement_of
from trainfeed.versions.tag import apply_change, propose_tag, untag

__all__ = ["three"]
OLD, RANGE, WHY = DAYS[0], f"{DAYS[0]}/{DAYS[1]}", "older than the audit"


def go(project, asked=RANGE, why=WHY, **options):
    return retire(Context.of(project.spec, project.env, who="ann"), asked, why, **options)


def names(found):
    return [each.item.name for each in found]


def test_a_range_goes_at_once_with_its_landing_files_and_plans(three):
    done = go(three)
    assert names(done.intervals) == DAYS[:2]
    kinds = [each.item.kind for each in done.removals.expired]
    assert kinds == sorted(kinds, key=["intervals", "landing", "plans"].index)
    assert set(kinds) == {"intervals", "landing", "plans"}
    for day in DAYS[:2]:
        assert retirement_of(three.folder, day).why == WHY
        assert three.folder.plan_ids(day) == []
        assert not any(path.is_dir() for path in three.folder.interval(day).iterdir())
    assert three.version(DAYS[2]).manifest.generation == 1
    assert {(each.action, each.who) for each in actions(three.folder)} == {("retire", "ann")}


def test_numbers_are_not_used_again(three):
    go(three)
    with pytest.raises(ConflictError, match=f"by ann .*{WHY}.*--rebuild"):
        three.build(OLD)
    assert three.build(OLD, rebuild="the audit")["generation"] == "g0003"


def test_a_dry_run_changes_nothing_and_names_the_intervals(three):
    before = sorted(str(path) for path in three.folder.path.rglob("*"))
    planned = go(three, dry_run=True)
    assert sorted(str(path) for path in three.folder.path.rglob("*")) == before
    assert names(planned.intervals) == names(go(three).intervals)


def test_the_same_call_again_removes_nothing_and_tells_the_first(three):
    go(three)
    again = go(three, why="another reason")
    assert again.removals.expired == ()
    assert [each.why for each in again.already] == [WHY, WHY]


def users(project):
    """Yield what needs the range, and a part of the reason."""
    decision = Decision.now("a release")
    apply_change(project.folder, propose_tag(project.folder, DAYS[1], "prod", decision))
    yield "tag prod.* names it"
    untag(project.folder, "prod", decision)
    with hold_versions(project.folder, [(OLD, 1)], "an evaluation"):
        yield "an evaluation"
    job = project.folder.training(OLD, "job-1")
    job.mkdir(parents=True)
    versions = [{"interval": OLD, "generation": "g0002"}]
    write_sealed(job / "job.json", {"versions": versions})
    yield "job-1 reads it and has no result"
    (job / "result.json").write_bytes(b"{}")
    plan(project.spec, project.interval(DAYS[2]), project.env, rebuild="open")
    yield "compares with it and may still be published"


def test_whoever_needs_one_interval_keeps_all_and_is_named(three):
    for reason in users(three):
        with pytest.raises(ConflictError, match=f"nothing was changed.*{reason}"):
            go(three)
        (first, *_) = go(three, dry_run=True).refused
        assert re.search(reason, first.why)
        assert len(three.folder.generations(OLD)) == 2
        assert retirement_of(three.folder, DAYS[1]) is None


@pytest.mark.parametrize(("asked", "why"), [(DAYS[2], "newest"), ("2024-03-04", "no later")])
def test_the_newest_interval_and_later_ones_stay(three, asked, why):
    with pytest.raises(ConflictError, match=why):
        go(three, asked)


def test_an_interval_that_is_being_planned_stays(three):
    plan(three.spec, three.interval(OLD), three.env, rebuild="open")
    with pytest.raises(ConflictError, match="may pause"):
        go(three)


def test_a_use_after_the_marks_keeps_its_interval_and_is_recorded(three, monkeypatch):
    real = _interval_removal.mark_removed

    def marked(*args):
        real(*args)
        monkeypatch.undo()
        job = three.folder.training(OLD, "job-1")
        job.mkdir(parents=True)
        versions = [{"interval": OLD, "generation": "g0002"}]
        write_sealed(job / "job.json", {"versions": versions})

    monkeypatch.setattr(_interval_removal, "mark_removed", marked)
    done = go(three)
    assert names(done.refused) == [OLD]
    assert names(done.intervals) == [DAYS[1]]
    assert three.folder.generations(OLD) == [1, 2]
    (stayed,) = [each for each in actions(three.folder) if each.action == "retire-kept"]
    assert [each["name"] for each in stayed.details["items"]] == [OLD]


def test_a_snapshot_of_a_version_ends_nothing_and_is_told_each_time(three, monkeypatch):
    kept = []

    def rmtree(path, *rest, **options):
        if "_trash" in str(path) and any(Path(path).rglob("MANIFEST.json")):
            (Path(path) / ".snap" / "keep").mkdir(parents=True, exist_ok=True)
            kept.append(path)
            raise OSError(errno.ENOTEMPTY, "Directory not empty", str(path))
        remove(path, *rest, **options)

    remove = shutil.rmtree
    monkeypatch.setattr(shutil, "rmtree", rmtree)
    for _ in range(2):
        done = go(three)
        lines = retired_lines("clicks", RANGE, done)
        assert any("/.snap/keep" in line and "rmdir" in line for line in lines)
    assert kept
    assert [retirement_of(three.folder, day).why for day in DAYS[:2]] == [WHY, WHY]
    monkeypatch.undo()
    go(three)
    assert list(three.folder.trash.iterdir()) == []


def gaps(project):
    """Leave out the second day of five, never build the fourth."""
    record_schedule(project.folder, project.spec.schedule_model())
    for day in (DAYS[0], DAYS[2]):
        project.prebuilt(day)
    write_skip(project.folder, Skip(DAYS[1], "no logs", "2024-03-03T00:00:00Z", None))


def status(project):
    now = datetime(2024, 3, 4, 12, tzinfo=UTC)
    attempts = Attempts(Location.parse(project.env.work), now)
    span = parse_range("2024-03")
    found = dataset_status(project.folder, datasets=None, attempts=attempts, now=now, span=span)
    return {each.interval: (each.state, each.reason) for each in found.intervals}


def test_skipped_and_unpublished_days_of_the_range_are_retired_and_told(project):
    gaps(project)
    assert status(project)[DAYS[1]][0] == "skipped"
    assert names(go(project).intervals) == DAYS[:2]
    states = status(project)
    for day in DAYS[:2]:
        assert states[day][0] == "retired"
        assert f"by ann ({retirement_of(project.folder, day).account}): {WHY}" in states[day][1]
    found = cover(project.folder, "2024-03-01/2024-03-03")
    assert (found.missing, found.skipped) == (tuple(DAYS[:2]), ())
    with pytest.raises(WindowIncompleteError, match=r"--rebuild WHY.*and 1 more intervals up to"):
        found.require("fail")
    with pytest.raises(ConflictError, match=WHY):
        project.build(DAYS[1])


def test_a_range_without_an_interval_is_no_success(three):
    with pytest.raises(WindowError):
        go(three, "2023-01-01")


@pytest.mark.parametrize("why", ["", "x", "a\nb", "a" * 501])
def test_a_reason_is_needed(three, why):
    with pytest.raises(ConfigError, match="nothing was changed"):
        go(three, why=why)


def test_the_history_can_be_read_whatever_the_length_of_the_reason(three):
    class Fake:
        name = "fake"

        def find(self, _context):
            return iter(())

        def remove(self, _context, _items):
            return []

    why = "\N{GRINNING FACE}" * 500
    items = [Item("fake", f"{number:08d}", 1, datetime.now(UTC), ()) for number in range(1_000)]
    removals = Removals(tuple(Expired(item, why) for item in items), (), ())
    execute(Context.of(three.spec, three.env), [Fake()], removals)
    found = [each for each in actions(three.folder) if isinstance(each, Action)]
    assert len(found) == len(list(actions(three.folder)))
    told = [item["name"] for each in found for item in each.details["items"]]
    assert told == [item.name for item in items]


@pytest.fixture
def command(three, monkeypatch):
    monkeypatch.setenv("TRAINFEED_ROOT", three.env.root)
    monkeypatch.setenv("TRAINFEED_DATASETS", str(three.env.datasets))
    monkeypatch.setenv("TRAINFEED_LANDING", three.env.landing)

    def run(*arguments):
        return typer.testing.CliRunner().invoke(app, [*arguments])

    return run


def test_the_command_tells_and_so_does_every_look(command):
    asked = f"clicks/{RANGE}"
    assert command("retire", asked).exit_code == 1
    assert "expected why of 3" in str(command("retire", asked, "--why", "").exception)
    dry = command("retire", asked, "--dry-run", "--json")
    assert dry.exit_code == 0
    assert [each["name"] for each in json.loads(dry.stdout)["removed"]] == DAYS[:2]
    done = command("retire", asked, "--why", WHY, "--who", "ann")
    assert done.exit_code == 0
    assert f"{asked}: 2 intervals were retired" in done.stdout
    for look in (
        ("ls", "clicks"),
        ("show", "clicks"),
        ("show", asked),
        ("show", f"clicks/{OLD}"),
        ("verify", "clicks"),
        ("verify", f"clicks/{OLD}"),
        ("diff", "clicks", OLD, DAYS[2]),
        ("status", "clicks", "2024-03"),
    ):
        result = command(*look)
        told = " ".join((f"{result.stdout} {result.stderr} {result.exception}").split())
        assert "by ann" in told, look
        assert WHY in told, look


def test_the_command_fails_if_something_is_needed(command, three):
    result = command("retire", "clicks/2024-03", "--why", WHY)
    assert result.exit_code == 1
    assert command("retire", "clicks/2024-03", "--dry-run").exit_code == 1
    assert len(three.folder.generations(OLD)) == 2


def test_a_version_that_was_retired_is_no_bare_missing_one(three):
    go(three)
    with pytest.raises(NotFoundError, match=WHY):
        three.version(OLD)
    maker = Maker("ada", "ada", "wrong labels")
    with pytest.raises(NotFoundError, match=f"retired at .*: {WHY}; .*nothing was changed"):
        withdraw(three.env, "clicks", OLD, None, maker)
    with pytest.raises(WindowIncompleteError, match=f"tag clicks@prod was not changed.*{WHY}"):
        propose_tag(three.folder, RANGE, "prod", Decision.now("a test"))


# The points of intervals, landing files and plans that no other test of this folder kills at.
POINTS = ["prune.after_mark", "discard.after_rename", "landing.after_rename"]


@pytest.mark.parametrize("point", POINTS)
def test_a_killed_call_is_completed_by_the_same_call(three, point):
    variables = {
        **os.environ,
        "TRAINFEED_ROOT": three.env.root,
        "TRAINFEED_DATASETS": str(three.env.datasets),
        "TRAINFEED_LANDING": three.env.landing,
        faults.VARIABLE: f"{point}:kill",
    }
    killed = trainfeed("retire", f"clicks/{RANGE}", "--why", WHY, env=variables)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    for day in DAYS[:2]:  # all generations or none: never an older one than before
        assert three.folder.readable_generation(day) in {None, 2 if day == OLD else 1}
    go(three)
    for day in DAYS[:2]:
        assert retirement_of(three.folder, day).why == WHY
        assert three.folder.plan_ids(day) == []
    assert three.version(DAYS[2]).manifest.generation == 1
    later = Context.of(three.spec, three.env, now=datetime.now(UTC) + timedelta(hours=1))
    assert retire(later, RANGE, WHY).removals.expired == ()
