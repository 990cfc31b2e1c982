"""The files of finished trainings go by their rule; the job itself is never run a second time."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.unit.refusals import refuse
from trainfeed.core import faults
from trainfeed.errors import JobRejectedError
from trainfeed.training.jobs import JobRecord, JobRemoval, JobResult, JobSpec
from trainfeed.training.models import ModelsFolder, promote, register
from trainfeed.training.promotion import candidate_of
from trainfeed.upkeep.retention import Context, execute, plan_removals
from trainfeed.upkeep.retention.trainings import Trainings

NOW = datetime(2024, 6, 1, tzinfo=UTC)
KINDS = (Trainings(),)


@pytest.fixture
def jobs(project):
    """Three finished trainings, 40, 20 and 1 day old, and one without a result."""
    project.edit("seed: 7", "seed: 7\nretention: {trainings: {keep_days: 10}}")
    made = [_job(project, f"2024-03-0{number}", age) for number, age in ((1, 40), (2, 20), (3, 1))]
    unfinished = _job(project, "2024-03-04", 50)
    (unfinished / "result.json").unlink()
    return project, made, unfinished


def _job(project, interval, age):
    job = JobSpec.named(
        dataset="clicks", interval=interval, folder=".", entry="train:main", code="0" * 64,
        seed=7, ranks=1, versions=[],
    )  # fmt: skip
    record = JobRecord(project.folder.training(interval, job.name))
    for name in ("output", "checkpoints/000000000001"):
        (record.home / name).mkdir(parents=True)
        (record.home / name / "model.npz").write_bytes(b"m" * 100)
    (record.home / "rank-0.log").write_text("log\n")
    (record.home / "metrics.jsonl").write_text("{}\n")
    record.write(job)
    JobResult.of_output(job.name, job.identity, {"loss": 1}, record.output).write(record.home)
    at = (NOW - timedelta(days=age)).timestamp()
    os.utime(record.home / "result.json", (at, at))
    return record.home


def prune(project):
    context = Context.of(project.spec, project.env, now=NOW)
    return execute(context, KINDS, plan_removals(context, KINDS))


def test_files_of_old_trainings_go_and_their_results_stay(jobs):
    project, (oldest, second, newest), unfinished = jobs
    removals = prune(project)
    assert [each.item.name.partition("/")[0] for each in removals.expired] == [
        "2024-03-01",
        "2024-03-02",
    ]
    assert removals.num_bytes == 2 * 204
    for home in (oldest, second):
        names = {path.name for path in home.iterdir()}
        assert names >= {"job.json", "metrics.jsonl", "removed.json", "result.json"}
        assert not names & {"output", "checkpoints", "rank-0.log"}
        assert JobRecord(home).result().metrics == {"loss": 1}
    for home in (newest, unfinished):
        assert (home / "output" / "model.npz").exists()
    assert prune(project).expired == ()


def test_a_model_cannot_be_made_of_removed_files_and_the_error_says_why(jobs):
    project, (oldest, *_), _ = jobs
    prune(project)
    with pytest.raises(JobRejectedError, match=r"2024-06-01T00:00:00Z \(keep_days: 10\).*train"):
        candidate_of(Path(project.env.root), JobRecord(oldest))


def test_the_newest_finished_training_stays(jobs):
    project, (_, _, newest), _ = jobs
    at = (NOW - timedelta(days=15)).timestamp()
    os.utime(newest / "result.json", (at, at))
    removals = prune(project)
    assert [each.why for each in removals.kept] == ["it is the newest finished training"]
    assert (newest / "output").exists()


def test_the_training_of_a_promoted_model_stays(jobs):
    project, (oldest, *_), _ = jobs
    record = JobRecord(oldest)
    folder = ModelsFolder(Path(project.env.root)).model("clicker")
    model, _ = register(folder, candidate_of(Path(project.env.root), record))
    promote(folder, "prod", model.manifest.version, "a test")
    removals = prune(project)
    assert "prod of model clicker is its model" in [each.why for each in removals.kept]
    assert (oldest / "output").exists()


def test_where_aliases_are_damaged_every_training_stays(jobs):
    project, (oldest, *_), _ = jobs
    folder = ModelsFolder(Path(project.env.root)).model("clicker")
    register(folder, candidate_of(Path(project.env.root), JobRecord(oldest)))
    folder.alias("prod").mkdir(parents=True)
    (folder.alias("prod") / "0001.json").write_text("{")
    removals = prune(project)
    assert removals.expired == ()
    assert "cannot be told" in removals.kept[0].why


@pytest.mark.parametrize("point", ["trainings.after_note", "trainings.after_part"])
def test_a_killed_removal_is_completed_by_the_next_call(jobs, point, monkeypatch):
    project, (oldest, *_), _ = jobs

    class Killed(BaseException):
        pass

    def kill(name):
        if name == point:
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(faults, "point", kill)
        with pytest.raises(Killed):
            prune(project)
    assert JobRemoval.read(oldest) is not None
    assert "a removal that was begun" in [each.why for each in prune(project).expired]
    assert not (oldest / "output").exists()
    assert not (oldest / "rank-0.log").exists()


def test_an_interval_whose_jobs_cannot_be_listed_is_told_with_the_items(jobs, monkeypatch):
    project, (oldest, *_), _ = jobs
    context = Context.of(project.spec, project.env, now=NOW)
    refuse(monkeypatch, oldest.parent)
    found = plan_removals(context, KINDS)
    (kept,) = [each for each in found.kept if each.item.name == "2024-03-01"]
    assert "its jobs cannot be listed" in kept.why
    assert [each.item.name.partition("/")[0] for each in found.expired] == ["2024-03-02"]


def test_the_files_of_a_training_whose_job_file_is_gone_stay_and_stop_no_other(jobs):
    project, (oldest, second, _), _ = jobs
    (second / "job.json").unlink()
    removals = prune(project)
    assert [each.item.home for each in removals.expired] == [oldest]
    (kept,) = [each for each in removals.kept if each.item.name.endswith(second.name)]
    assert "job.json" in kept.why
