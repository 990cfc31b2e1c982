"""Leftovers of killed builds are found and, when they are old, removed; nothing else is."""

import os
import signal
import stat
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest

from tests.unit.pipeline.test_kill import ROOT, Observer
from tests.unit.pipeline.test_kill import warm_command as command
from tests.unit.processes import LIMIT_S
from trainfeed.core import faults
from trainfeed.pipeline.leftovers import OLD, sweep
from trainfeed.pipeline.review import _PREFIX, _above

NOW = timedelta(0)
KILLED = ["ingest.before_rename", "convert.before_sync", "publish.before_rename"]
STOPPED = ["convert.after_shard", "publish.before_rename"]


def places(project):
    return [Path(place) for place in (project.env.root, project.env.landing, project.env.work)]


def files(project):
    return {path for place in places(project) for path in place.rglob("*") if path.is_file()}


def grow_old(project, age=2 * OLD):
    then = time.time() - age.total_seconds()
    for place in places(project):
        for path in place.rglob("*"):
            os.utime(path, (then, then))


def unpublished(project):
    """What is there of builds beyond versions, plans, boundaries and complete landing files."""
    kept = {"versions", "plans", "boundaries", "code", "SCHEDULE.json"}
    found = {path for path in files(project) if path.name.endswith(".tmp")}
    for place in (project.folder.path, Path(project.env.work)):
        found |= {
            path
            for path in place.rglob("*")
            if path.is_file() and path.relative_to(place).parts[0] not in kept
        }
    return found


def kill_in_the_middle(project):
    """Leave something behind everywhere, beside a version; return what the version has."""
    project.build("2024-03-02")
    for point in ("convert.before_sync", "check.before_rename"):
        assert command(project, point).returncode == -signal.SIGKILL
    (project.folder.path / "plans/2024-03-01/.x.json.00000000000040008000000000000000.tmp").touch()
    assert len(unpublished(project)) > 5
    return project.version("2024-03-02").manifest_sha256


@pytest.mark.parametrize("point", KILLED)
def test_what_a_killed_build_leaves_is_removed_when_it_is_old(project, point):
    assert command(project, point).returncode == -signal.SIGKILL
    left = files(project)
    assert sweep(project.env) == []
    assert files(project) == left
    grow_old(project)
    assert sweep(project.env)
    assert unpublished(project) == set()
    project.build()
    undisturbed = project.elsewhere("undisturbed")
    undisturbed.build()
    assert project.version().manifest == undisturbed.version().manifest


def test_what_a_killed_preview_of_quarantined_records_leaves_is_removed_too(project):
    left = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=_above(project.env)))
    (left / "record").write_bytes(b"a record")
    assert stat.S_IMODE(left.stat().st_mode) == 0o700
    assert sweep(project.env) == []
    grow_old(project)
    sweep(project.env)
    assert not left.exists()


def test_folders_that_cannot_be_data_sets_are_not_looked_into(project):
    kill_in_the_middle(project)
    foreign = Path(project.env.root, "lost+found")
    project.folder.path.rename(foreign)
    grow_old(project)
    places = {each.place for each in sweep(project.env)}
    assert places
    assert not [place for place in places if "lost+found" in place]
    assert any((foreign / "_staging").iterdir())


def test_a_dry_run_names_the_same_and_removes_nothing(project):
    kill_in_the_middle(project)
    before = files(project)
    named = sweep(project.env, older_than=NOW, dry_run=True)
    assert files(project) == before
    assert sum(each.bytes for each in named) > 0
    assert sweep(project.env, older_than=NOW) == named
    assert sweep(project.env, older_than=NOW) == []


def test_one_young_file_keeps_its_folder(project):
    assert command(project, "check.before_rename").returncode == -signal.SIGKILL
    grow_old(project)
    staged = next(path for path in project.folder.staging.glob("*-g0001/*") if path.is_file())
    os.utime(staged)
    sweep(project.env)
    assert staged.exists()
    assert not list(Path(project.env.work).glob("spill/*"))


def test_nothing_of_anybody_else_is_touched(project):
    project.build()
    root, landing, work = places(project)
    others = [
        root / "another/file.tmp",
        root / "another/plans/.x.00000000000040008000000000000000.tmp",
        root / "another/0123456789abcdef-g0001/file",
        project.folder.staging / "notes.txt",
        project.folder.staging / "kept/file",
        project.version().path / ".x.00000000000040008000000000000000.tmp",
        project.folder.interval("2024-03-01") / ".lock",
        landing / "clicks/notes.tmp",
        landing / "a/b/c/d/.x.00000000000040008000000000000000.tmp",
        work / "spill/mine/file",
        work / "file.tmp",
    ]
    for path in others:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    before = files(project)
    grow_old(project)
    assert sweep(project.env) == []
    assert files(project) == before


def test_places_that_are_not_there_yet_are_no_error(project):
    assert sweep(project.elsewhere("nowhere").env) == []


def test_sweeps_at_once_share_the_work(project):
    digest = kill_in_the_middle(project)
    grow_old(project)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: sweep(project.env, older_than=NOW), range(4)))
    assert unpublished(project) == set()
    assert project.version("2024-03-02").manifest_sha256 == digest


def sweep_and_die(project, steps):
    """Sweep in a process that is killed before it changes one thing more than ``steps``."""
    child = os.fork()
    if child == 0:
        left = iter(range(steps))

        def hook(event, arguments):
            # The file by which the clock of the store is asked is no leftover.
            is_step = event in {"os.rename", "os.remove", "os.rmdir"} and "clock" not in str(
                arguments
            )
            if is_step and next(left, None) is None:
                os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(hook)
        sweep(project.env, older_than=NOW)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_sweep_killed_at_any_step_is_finished_by_the_next_one(project):
    digest = kill_in_the_middle(project)
    grow_old(project)
    assert sweep_and_die(project, 0) == -signal.SIGKILL
    deaths = 0
    while sweep_and_die(project, 1) != 0:
        deaths += 1
        version = project.version("2024-03-02")
        assert version.manifest_sha256 == digest
        assert list(version.problems()) == []
    assert deaths > 10
    assert unpublished(project) == set()


def environ(project, fault=None):
    return {
        "PYTHONPATH": str(ROOT / "include"),
        "TRAINFEED_ROOT": project.env.root,
        "TRAINFEED_LANDING": project.env.landing,
        "TRAINFEED_WORK": project.env.work,
        "TRAINFEED_KAFKA": f"recorded:{project.path / 'recorded'}",
        "TRAINFEED_DATASETS": str(project.env.datasets),
        **({faults.VARIABLE: f"{fault}:stop"} if fault else {}),
    }


@pytest.mark.parametrize("point", STOPPED)
def test_a_build_whose_files_are_taken_says_so_and_is_repeated(project, point):
    """A sweep that comes too early loses work, and nothing else."""
    arguments = ["build", "clicks", "--interval", "2024-03-01"]
    with (
        Observer(project.folder.interval("2024-03-01")) as observer,
        subprocess.Popen(
            [sys.executable, "-m", "trainfeed", *arguments],
            env=environ(project, point),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as build,
    ):
        _, status = os.waitpid(build.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        assert sweep(project.env) == []
        assert sweep(project.env, older_than=NOW)
        build.send_signal(signal.SIGCONT)
        _, message = build.communicate(timeout=LIMIT_S)
        assert build.returncode == 1
        assert message.startswith(f"NotFoundError: {project.folder.staging}/")
        retried = command(project)
        assert retried.returncode == 0, retried.stderr
    undisturbed = project.elsewhere("undisturbed")
    undisturbed.build()
    assert observer.violations == []
    assert project.version().manifest == undisturbed.version().manifest
