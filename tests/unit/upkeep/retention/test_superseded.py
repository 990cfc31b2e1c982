"""Superseded generations are removed; versions that readers get by default stay."""

import os
import signal
import time

import pytest

from tests.support.roots import write_sealed
from tests.support.warm import command as trainfeed
from tests.unit.pipeline.test_kill import warm_command as command
from tests.unit.refusals import refuse
from trainfeed.core import faults
from trainfeed.errors import AccessDeniedError, NotFoundError
from trainfeed.upkeep.retention import KINDS, Context, execute, plan_removals, prune
from trainfeed.versions.history import actions
from trainfeed.versions.layout import CURRENT

DAY = "2024-03-01"


@pytest.fixture
def rebuilt(project):
    """Four generations of one interval, one of another; the newest two are kept."""
    project.edit("seed: 7", "seed: 7\nretention: {keep_generations: 2}")
    project.prebuilt("2024-03-02")
    project.prebuilt()
    for number in range(3):
        project.prebuilt(rebuild=f"try {number}")
    return project


def run(project, **options):
    removals = prune(Context.of(project.spec, project.env), **options)
    return [(each.item.interval, each.item.generation) for each in removals.expired]


def there(project, interval=DAY):
    return sorted(path.name for path in project.folder.interval(interval).glob("g*"))


def test_generations_beyond_what_is_kept_are_removed_for_good(rebuilt):
    newest = rebuilt.version().manifest
    assert run(rebuilt) == [(DAY, 1), (DAY, 2)]
    assert there(rebuilt) == ["g0001.removed", "g0002.removed", "g0003", "g0004"]
    assert there(rebuilt, "2024-03-02") == ["g0001"]
    assert list((rebuilt.folder.path / "_trash").iterdir()) == []
    assert rebuilt.version().manifest == newest
    with pytest.raises(NotFoundError, match="g0001"):
        rebuilt.version(generation=1)
    assert run(rebuilt) == []
    rebuilt.prebuilt(rebuild="one more")
    assert rebuilt.version().manifest.generation == 5


def test_a_dry_run_says_which_and_removes_nothing(rebuilt):
    assert run(rebuilt, dry_run=True) == [(DAY, 1), (DAY, 2)]
    assert there(rebuilt) == ["g0001", "g0002", "g0003", "g0004"]


def test_young_ones_are_kept_beyond_the_number(rebuilt):
    rebuilt.edit("keep_generations: 2", "keep_generations: 1, keep_days: 3")
    long_ago = time.time() - 4 * 86_400
    os.utime(rebuilt.folder.version(DAY, 2), (long_ago, long_ago))
    assert run(rebuilt) == [(DAY, 2)]


def test_what_readers_get_by_default_is_kept_whatever_its_number(rebuilt):
    folder = rebuilt.folder.interval(DAY)
    (folder / CURRENT).write_text("g0001\n")
    assert run(rebuilt) == [(DAY, 2)]


def test_what_a_training_reads_is_kept_until_it_has_a_result(rebuilt):
    job = rebuilt.folder.training(DAY, "job-1")
    job.mkdir(parents=True)
    versions = [{"interval": DAY, "generation": "g0002"}]
    write_sealed(job / "job.json", {"versions": versions})
    assert run(rebuilt) == [(DAY, 1)]
    (job / "result.json").touch()
    assert run(rebuilt) == [(DAY, 2)]


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"versions": [7]}', b'{"versions": null}'])
def test_what_an_unreadable_job_may_be_reading_is_kept(rebuilt, damage, caplog):
    job = rebuilt.folder.training(DAY, "job-1")
    job.mkdir(parents=True)
    (job / "job.json").write_bytes(damage)
    assert run(rebuilt) == []
    assert "every generation up to 2024-03-01 is kept" in caplog.text
    (job / "job.json").unlink()
    assert run(rebuilt) == [(DAY, 1), (DAY, 2)]


def test_what_a_job_whose_job_file_is_gone_may_be_reading_is_kept(rebuilt, caplog):
    job = rebuilt.folder.training(DAY, "job-1")
    job.mkdir(parents=True)
    (job / ".lock").touch()
    (job / "rank-0.log").touch()
    assert run(rebuilt) == []
    assert "job.json" in caplog.text
    (job / "rank-0.log").unlink()
    assert run(rebuilt) == [(DAY, 1), (DAY, 2)]


@pytest.mark.parametrize("depth", [1, 2])
def test_what_a_job_in_a_folder_that_may_not_be_listed_may_read_is_kept(
    rebuilt, depth, monkeypatch, caplog
):
    job = rebuilt.folder.training(DAY, "job-1")
    job.mkdir(parents=True)
    versions = [{"interval": DAY, "generation": "g0002"}]
    write_sealed(job / "job.json", {"versions": versions})
    with monkeypatch.context() as patch:
        refuse(patch, [job, job.parent][depth - 1])
        assert run(rebuilt) == []
    assert "permission denied" in caplog.text
    assert "every generation up to 2024-03-01 is kept" in caplog.text
    assert run(rebuilt) == [(DAY, 1)]


def test_where_trainings_may_not_be_listed_nothing_is_removed(rebuilt, monkeypatch):
    rebuilt.folder.training(DAY, "job-1").mkdir(parents=True)
    with monkeypatch.context() as patch:
        refuse(patch, rebuilt.folder.path / "training")
        with pytest.raises(AccessDeniedError, match="training: permission denied"):
            run(rebuilt)
    assert there(rebuilt) == ["g0001", "g0002", "g0003", "g0004"]


def test_an_unreadable_job_keeps_nothing_of_later_intervals(rebuilt):
    job = rebuilt.folder.training("2024-02-29", "job-1")
    job.mkdir(parents=True)
    (job / "job.json").write_bytes(b"{")
    assert run(rebuilt) == [(DAY, 1), (DAY, 2)]


@pytest.mark.parametrize("point", ["prune.after_mark", "discard.after_rename"])
def test_a_killed_removal_leaves_nothing_half_visible_and_is_finished(rebuilt, point):
    killed = prune_command(rebuilt, point)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert rebuilt.folder.generations(DAY) in ([2, 3, 4], [3, 4])
    assert list(rebuilt.version().problems()) == []
    prune(Context.of(rebuilt.spec, rebuilt.env))
    assert list((rebuilt.folder.path / "_trash").iterdir()) == []
    assert there(rebuilt) == ["g0001.removed", "g0002.removed", "g0003", "g0004"]
    assert command(rebuilt).returncode == 0


def prune_command(project, fault):
    variables = {
        "TRAINFEED_ROOT": project.env.root,
        "TRAINFEED_DATASETS": str(project.env.datasets),
        faults.VARIABLE: f"{fault}:kill",
    }
    return trainfeed("prune", "clicks", env=variables)


def test_what_readers_turned_to_since_the_look_is_kept(rebuilt):
    context = Context.of(rebuilt.spec, rebuilt.env)
    found = plan_removals(context, KINDS)
    (rebuilt.folder.interval(DAY) / CURRENT).write_text("g0001\n")
    (kept,) = execute(context, KINDS, found).kept
    assert (kept.item.generation, kept.why) == (1, "it is the generation that readers get now")
    assert there(rebuilt) == ["g0001", "g0002.removed", "g0003", "g0004"]
    assert [each.action for each in actions(rebuilt.folder)] == ["prune", "prune-kept"]
