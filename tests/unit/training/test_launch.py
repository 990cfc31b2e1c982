"""One job per content: launched at most once, adopted afterwards, never half-done."""

import json
import os
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from tests.unit.processes import LIMIT_S, is_running, until
from trainfeed.core import faults
from trainfeed.errors import (
    AccessDeniedError,
    ChecksumError,
    ConfigError,
    GateError,
    JobFailedError,
    JobKilledError,
    JobRejectedError,
    NotFoundError,
    WindowIncompleteError,
)
from trainfeed.functions import digest_of_texts, training_texts
from trainfeed.training import TrainingJob, runtime
from trainfeed.training.jobs import JobRemoval, JobRoots, JobSpec
from trainfeed.training.launch import train
from trainfeed.training.training_job import job_lease
from trainfeed.versions import Skip, write_skip
from trainfeed.versions.lease import leases

ROOT = Path(__file__).parents[3]
CODE = """
import os


def main(job):
    samples = [s for split in ("train", "eval") for s in job.open(split).reader()()]
    (job.output / f"ran-{os.getpid()}").touch()
    return {"samples": len(samples), "days": len(job.intervals), "secrets": "SECRET" in os.environ}
"""


@pytest.fixture
def trained(project):
    """The small data set with a training over the last two days."""
    (project.env.datasets / "clicks" / "train.py").write_text(CODE)
    project.edit("seed: 7", 'seed: 7\ntrain: {entry: "train:main", window: 2}')
    return project


def roots(project):
    return JobRoots(Path(project.env.root), project.env.datasets / "clicks")


def run(project, name="2024-03-01"):
    return train(project.spec, project.env, project.interval(name))


def test_a_job_reads_the_last_intervals_of_its_window(trained, monkeypatch):
    monkeypatch.setenv("SECRET", "x")
    for name in ("2024-03-01", "2024-03-02"):
        trained.build(name)
    first, second = run(trained), run(trained, "2024-03-02")
    assert first["intervals"] == ["2024-03-01"]
    assert second["intervals"] == ["2024-03-01", "2024-03-02"]
    total = sum(trained.version(f"2024-03-0{d}").manifest.num_samples() for d in (1, 2))
    assert second["metrics"] == {"samples": total, "days": 2, "secrets": 0}


def test_an_incomplete_window_names_what_is_missing_and_starts_nothing(trained):
    trained.prebuilt("2024-03-02")
    with pytest.raises(WindowIncompleteError, match="not published yet: 2024-03-01"):
        run(trained, "2024-03-02")
    assert list(trained.folder.path.glob("training/[!_]*")) == []


def test_an_interval_that_was_decided_to_be_left_out_is_named_and_not_waited_for(trained):
    trained.prebuilt("2024-03-02")
    skip = Skip("2024-03-01", "no logs", "2024-03-08T00:00:00Z", None)
    write_skip(trained.folder, skip)
    report = run(trained, "2024-03-02")
    assert (report["intervals"], report["skipped"]) == (["2024-03-02"], ["2024-03-01"])
    assert report["metrics"]["days"] == 1
    assert JobSpec.read(Path(report["folder"], "job.json")).skipped == ["2024-03-01"]
    with pytest.raises(NotFoundError, match="all were decided to be left out: 2024-03-01"):
        run(trained)
    trained.prebuilt()
    assert "skipped" not in run(trained)
    assert b"skipped" not in Path(run(trained)["folder"], "job.json").read_bytes()


def test_a_finished_job_is_adopted(trained):
    trained.prebuilt()
    first, again = run(trained), run(trained)
    assert (first["verdict"], again["verdict"]) == ("ran", "adopted")
    assert (first["job"], first["metrics"]) == (again["job"], again["metrics"])
    assert len(list(Path(first["folder"]).glob("output/ran-*"))) == 1


def test_a_rebuild_of_equal_content_needs_no_further_job(trained):
    trained.prebuilt()
    first = run(trained)
    trained.prebuilt(rebuild="to see")
    assert run(trained)["verdict"] == "adopted"
    assert run(trained)["job"] == first["job"]


def test_other_content_other_code_and_another_seed_are_other_jobs(trained):
    trained.prebuilt()
    jobs = [run(trained)["job"]]
    trained.edit("return {", "return {'more': 1, ", "train.py")
    jobs.append(run(trained)["job"])
    trained.edit('"label": n', '"label": n + 1', "preprocess.py")
    trained.prebuilt(rebuild="labels")
    jobs.append(run(trained)["job"])
    assert len(set(jobs)) == 3


def test_two_launches_at_once_run_one_job(trained):
    trained.prebuilt()
    with ThreadPoolExecutor(2) as pool:
        reports = list(pool.map(lambda _: command(trained), range(2)))
    assert [report.returncode for report in reports] == [0, 0], reports
    verdicts = sorted(json.loads(report.stdout)["verdict"] for report in reports)
    assert verdicts == ["adopted", "ran"]


@pytest.mark.parametrize(
    ("point", "verdict"), [("train.after_create", "ran"), ("train.after_ranks", "adopted")]
)
def test_a_killed_launch_is_taken_up_by_the_next(trained, point, verdict):
    trained.build()
    assert command(trained, point).returncode == -9
    report = run(trained)
    assert report["verdict"] == verdict
    assert run(trained)["verdict"] == "adopted"


def test_a_failing_job_names_its_log_and_may_run_again(trained):
    trained.prebuilt()
    trained.edit("import os", "import os\n1 / 0", "train.py")
    with pytest.raises(JobFailedError, match=r"rank 0 ended with status 1; log /") as caught:
        run(trained)
    assert str(caught.value).endswith("ZeroDivisionError: division by zero")
    trained.edit("1 / 0", "", "train.py")
    assert run(trained)["verdict"] == "ran"


@pytest.mark.parametrize(
    ("statement", "kind"),
    [
        ("os.kill(os.getpid(), 9)", JobKilledError),
        ("raise WorkerDiedError('a worker was killed')", JobKilledError),
        ("raise StorageError('/pfs is away')", JobKilledError),
        ("raise NotFoundError('/pfs/x is not there')", JobFailedError),
        ("os.abort()", JobFailedError),
        ("raise SystemExit(9)", JobFailedError),
    ],
)
def test_only_what_comes_from_outside_is_tried_again(trained, statement, kind):
    trained.build()
    names = "NotFoundError, StorageError, WorkerDiedError"
    trained.edit("import os", f"import os\nfrom trainfeed.errors import {names}", "train.py")
    trained.edit("def main(job):\n", f"def main(job):\n    {statement}\n", "train.py")
    with pytest.raises((JobFailedError, JobKilledError)) as caught:
        run(trained)
    assert type(caught.value) is kind
    trained.edit(f"    {statement}\n", "", "train.py")
    assert run(trained)["verdict"] == "ran"


@pytest.mark.parametrize("value", ["None", "{}", "{'a': float('nan')}"])
def test_metrics_that_are_no_numbers_fail_the_job(trained, value):
    trained.prebuilt()
    trained.edit("return {", f"return {value}\n    return {{", "train.py")
    with pytest.raises(JobRejectedError, match=r"rank 0: (expected train:main|metrics \['a'\])"):
        run(trained)


def test_a_metric_below_its_minimum_fails_and_keeps_the_result(trained):
    trained.prebuilt()
    trained.edit("window: 2", "window: 2, metric: days, min: 5")
    for _ in range(2):
        with pytest.raises(GateError, match=r"days = 1\.0, train\.min is 5"):
            run(trained)
    assert len(list(trained.folder.path.glob("training/*/*/result.json"))) == 1


def test_a_running_training_holds_a_lease_of_its_versions(trained):
    trained.prebuilt("2024-03-01")
    trained.prebuilt("2024-03-02")
    looks = """
    from datetime import datetime, UTC
    from trainfeed.versions import DatasetFolder
    from trainfeed.versions.lease import leased_versions
    held = leased_versions(DatasetFolder(job.roots.root, "clicks"), datetime.now(UTC))
    assert "training clicks-2024-03-02-" in held.why("2024-03-01", 1)
    assert ("2024-03-02", 1) in held
"""
    trained.edit("def main(job):\n", f"def main(job):\n{looks}", "train.py")
    assert run(trained, "2024-03-02")["verdict"] == "ran"
    assert leases(trained.folder) == []


def test_a_training_of_a_removed_version_does_not_start(trained):
    trained.prebuilt()
    home = Path(run(trained)["folder"])
    trained.folder.removal_mark("2024-03-01", 1).touch()
    with pytest.raises(JobRejectedError, match=r"g0001 was removed by retention.*then train again"):
        job_lease(JobSpec.read(home / "job.json"), 0, roots(trained))


def test_a_training_that_may_not_write_a_lease_says_so_and_goes_on(trained, monkeypatch, caplog):
    trained.build()
    job = JobSpec.read(Path(run(trained)["folder"]) / "job.json")

    def refuse(path, *_, **__):
        raise AccessDeniedError(f"{path}: permission denied")

    monkeypatch.setattr("trainfeed.versions.lease.posix.create_exclusive", refuse)
    with job_lease(job, 0, roots(trained)):
        assert "trains without a lease" in caplog.text
        assert leases(trained.folder) == []


def test_a_version_that_changed_after_the_launch_is_not_read(trained):
    trained.prebuilt()
    spec = JobSpec.read(Path(run(trained)["folder"]) / "job.json")
    changed = spec.versions[0].model_copy(update={"manifest_sha256": "0" * 64})
    job = TrainingJob(spec.model_copy(update={"versions": [changed]}), 0, 1, Path(), roots(trained))
    with pytest.raises(ChecksumError, match="expected the version with manifest 000"):
        job.open("train")


def test_every_rank_runs_and_rank_0_reports(trained):
    trained.prebuilt()
    trained.edit("window: 2", "window: 2, ranks: 3")
    trained.edit("reader()()", "reader(rank=job.rank, world_size=job.world_size)()", "train.py")
    report = run(trained)
    assert len(list(Path(report["folder"]).glob("output/ran-*"))) == 3
    total = trained.version().manifest.num_samples()
    assert total / 3 - 2 <= report["metrics"]["samples"] <= total / 3 + 2


def test_a_failing_rank_ends_the_others(trained):
    trained.prebuilt()
    trained.edit("window: 2", "window: 2, ranks: 2")
    waiting = "import threading\n    job.rank == 0 and threading.Event().wait()\n    1 / 0\n"
    trained.edit("def main(job):\n", f"def main(job):\n    {waiting}", "train.py")
    with pytest.raises(JobFailedError, match="rank 1 ended with status 1"):
        run(trained)


def test_the_trainer_ends_with_its_launcher(trained):
    trained.build()
    trained.edit(
        "def main(job):\n",
        "def main(job):\n"
        "    import threading\n"
        "    (job.output / 'pid').write_text(str(os.getpid()))\n"
        "    threading.Event().wait()\n",
        "train.py",
    )
    launcher = start(trained)
    pid = int(until(lambda: written(trained)))
    launcher.kill()
    launcher.wait()
    until(lambda: not is_running(pid))


def test_a_rank_ends_with_a_launcher_that_died_before_the_rank_could_see_it(trained):
    trained.build()
    waiting = "    import threading\n    threading.Event().wait()\n"
    trained.edit("def main(job):\n", f"def main(job):\n{waiting}", "train.py")
    launcher = start(trained)
    until(lambda: ranks(trained))
    launcher.kill()
    launcher.wait()
    try:
        until(lambda: not ranks(trained))
    finally:
        for pid in ranks(trained):
            os.kill(pid, signal.SIGKILL)


def test_a_rank_is_tied_to_its_launcher_before_anything_slow_is_imported():
    code = "import sys, trainfeed.training.runtime; print({'numpy', 'pydantic'} & {*sys.modules})"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(ROOT / "include")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "set()\n"


def test_a_changed_neighbour_of_the_entry_makes_another_job(trained):
    trained.prebuilt()
    folder = trained.env.datasets / "clicks"
    jobs = [run(trained)["job"]]
    (folder / "layers").mkdir()
    for path in (folder / "features.py", folder / "layers" / "dense.py"):
        for text in ("width = 1", "width = 2"):
            path.write_text(text)
            jobs.append(run(trained)["job"])
    assert len(set(jobs)) == 5
    for name in (".draft.py", "notes.txt"):
        (folder / name).write_text("width = 3")
        assert run(trained)["job"] == jobs[-1]


def test_where_one_file_ends_and_the_next_begins_is_part_of_the_code(tmp_path):
    digests = set()
    for i, files in enumerate([{"a.py": "b.pyc"}, {"a.py": "", "b.py": "c"}, {"a.pyb.py": "c"}]):
        folder = tmp_path / str(i)
        folder.mkdir()
        for name, text in files.items():
            (folder / name).write_text(text)
        digests.add(digest_of_texts(training_texts(folder)))
    assert len(digests) == 3


def test_code_that_changed_after_the_launch_is_not_run(trained, monkeypatch):
    monkeypatch.setenv("TRAINFEED_JOB_CODE", str(trained.env.datasets / "clicks"))
    trained.build()
    home = Path(run(trained)["folder"])
    (trained.env.datasets / "clicks" / "features.py").write_text("width = 1")
    with pytest.raises(JobRejectedError, match="it changed after the launch; nothing was run"):
        runtime.run(home, 0)


def test_a_job_that_failed_reads_what_its_next_launch_resolved(trained):
    trained.prebuilt()
    broken = trained.env.datasets / "clicks" / "broken"
    broken.touch()
    check = (
        "    from pathlib import Path\n    assert not Path(__file__).with_name('broken').exists()\n"
    )
    trained.edit("def main(job):\n", f"def main(job):\n{check}", "train.py")
    with pytest.raises(JobFailedError, match="AssertionError"):
        run(trained)
    broken.unlink()
    trained.prebuilt(rebuild="same content")
    shutil.rmtree(trained.version(generation=1).path)
    moved = trained.path / "moved"
    trained.env.datasets.rename(moved)
    report = run(replace(trained, env=replace(trained.env, datasets=moved)))
    assert report["verdict"] == "ran"
    assert report["versions"] == ["2024-03-01/g0002"]
    assert len(list(trained.folder.path.glob("training/[!_]*/*"))) == 1


def test_a_window_is_resolved_by_what_is_published_not_by_its_pointers(trained):
    trained.prebuilt()
    trained.prebuilt(rebuild="once more")
    (trained.folder.interval("2024-03-01") / "CURRENT").write_text("g0001\n")
    assert run(trained)["versions"] == ["2024-03-01/g0002"]


def test_a_job_needs_a_training_in_the_spec(project):
    with pytest.raises(ConfigError, match="has no training"):
        run(project)


def test_a_damaged_job_file_is_rejected(tmp_path):
    (tmp_path / "job.json").write_text('{"name": 1}')
    with pytest.raises(JobRejectedError, match="not a job specification"):
        JobSpec.read(tmp_path / "job.json")


def arguments(project, fault=None):
    return {
        "args": [
            *(sys.executable, "-m", "trainfeed"),
            *("train", "clicks", "--interval", "2024-03-01", "--json"),
        ],
        "env": {
            "PYTHONPATH": str(ROOT / "include"),
            "SECRET": "x",
            "TRAINFEED_ROOT": project.env.root,
            "TRAINFEED_LANDING": project.env.landing,
            "TRAINFEED_WORK": project.env.work,
            "TRAINFEED_KAFKA": f"recorded:{project.path / 'recorded'}",
            "TRAINFEED_DATASETS": str(project.env.datasets),
            **({faults.VARIABLE: f"{fault}:kill"} if fault else {}),
        },
    }


def command(project, fault=None):
    return subprocess.run(
        **arguments(project, fault), capture_output=True, text=True, check=False, timeout=LIMIT_S
    )


def start(project):
    return subprocess.Popen(
        **arguments(project), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def written(project):
    """What the trainer has written down by now."""
    return "".join(path.read_text() for path in project.folder.path.glob("training/*/*/output/pid"))


def ranks(project):
    """The processes that run a rank of one of the project's jobs."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if b"trainfeed.training.runtime" in command and os.fsencode(project.path) in command:
            found.append(int(path.parent.name))
    return found


def test_a_misspelt_function_of_the_training_is_answered_with_the_nearest(trained):
    trained.prebuilt()
    trained.edit("train:main", "train:mian")
    with pytest.raises(
        JobRejectedError, match=r"found none; did you mean 'main'\?; nothing was run"
    ):
        run(trained)


def test_a_metric_that_a_training_does_not_return_is_unknown_and_not_too_low(trained):
    trained.edit("window: 2}", "window: 2, metric: sampels, min: 1}")
    trained.prebuilt()
    with pytest.raises(GateError) as refused:
        run(trained)
    message = str(refused.value)
    assert "without train.metric 'sampels': train:main returned days, samples, secrets" in message
    assert "did you mean 'samples'?" in message
    trained.edit("sampels", "samp")
    with pytest.raises(GateError, match="did you mean 'samples'"):
        run(trained)
    trained.edit("samp,", "samples,")
    assert run(trained)["verdict"] == "adopted"


def test_a_job_whose_files_retention_removed_is_adopted_and_says_so(trained):
    trained.prebuilt()
    home = Path(run(trained)["folder"])
    JobRemoval("2024-06-01T00:00:00Z", "keep_days: 10").write(home)
    shutil.rmtree(home / "output")
    report = run(trained)
    assert report["verdict"] == "adopted"
    assert "keep_days: 10" in report["removed"]
