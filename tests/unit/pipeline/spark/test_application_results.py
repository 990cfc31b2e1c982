"""What an application tells of itself: its progress, its counts, its error; without Spark."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import pytest

from trainfeed.errors import (
    ConfigError,
    EngineError,
    MemoryLimitError,
    Outcome,
    QuotaExceededError,
    StorageError,
)
from trainfeed.files.stores import Location
from trainfeed.pipeline.spark import application_files as progress
from trainfeed.pipeline.spark import application_files as unwanted
from trainfeed.pipeline.spark.application_files import (
    ApplicationCounts,
    ApplicationFolder,
    ApplicationJob,
    Failure,
    error_of,
)

JOB = ApplicationJob(
    *("clicks", "2024-03-01", "p1", "/root", "/landing", "/work"), {}, "0", "1", {}, {}
)
DISKS = ["one:/disk/a", "two:/disk/b"]


class Context:
    """Stands in for the context of Spark: a build of two stages, of which the first ran twice."""

    def __init__(self, jobs=(4, 3)):
        self._jobs = jobs
        self._gateway = SimpleNamespace(new_array=lambda *_: [])
        self._jvm = SimpleNamespace(double=None)
        sc = SimpleNamespace(statusStore=lambda: SimpleNamespace(stageList=lambda *_: self))
        self._jsc = SimpleNamespace(sc=lambda: sc)
        self._attempts = [(6, 2, 300, 0, 1500), (5, 1, 4000, 0, 2000), (5, 0, 100, 0, 500)]

    def statusTracker(self):  # noqa: N802 - Spark's name
        return self

    def getJobIdsForGroup(self, _):  # noqa: N802
        return list(self._jobs)

    def getJobInfo(self, job):  # noqa: N802
        return SimpleNamespace(stageIds={3: [6, 5], 4: [7]}[job])

    def getStageInfo(self, stage):  # noqa: N802
        done = {5: (7, 7), 6: (2, 12)}[stage]
        return SimpleNamespace(numCompletedTasks=done[0], numTasks=done[1])

    def size(self):
        return len(self._attempts)

    def apply(self, index):
        names = ("stageId", "numFailedTasks", "shuffleWriteBytes", "diskBytesSpilled")
        values = zip((*names, "executorRunTime"), self._attempts[index], strict=True)
        return SimpleNamespace(**{name: lambda value=value: value for name, value in values})


def test_progress_names_both_steps_of_the_build():
    assert progress._line(Context()) == "preprocess 7 of 7 tasks, write 2 of 12 tasks"
    assert progress._line(Context(jobs=())) == ""


def test_progress_is_told_apart_from_what_java_prints():
    assert progress.progress_in("trainfeed progress: write 1 of 2 tasks") == "write 1 of 2 tasks"
    assert progress.progress_in("WARN trainfeed progress: no") is None


def test_counts_are_those_of_all_attempts_at_all_stages():
    assert progress.counts_of(Context(), 9.5, spilled_bytes=40) == ApplicationCounts(
        failed_tasks=3,
        shuffle_bytes=4400,
        spilled_bytes=40,
        build_s=9.5,
        preprocess_s=2.5,
        write_s=1.5,
    )


@pytest.mark.parametrize(
    "result",
    [
        ApplicationCounts(failed_tasks=2, shuffle_bytes=3, spilled_bytes=1, build_s=0.5),
        Failure("MemoryLimitError", "too much"),
    ],
)
def test_the_result_of_a_driver_comes_back_as_it_was(tmp_path, result):
    folder = ApplicationFolder(Location.parse(str(tmp_path)))
    assert folder.result() is None
    folder.end(result)
    assert folder.result() == result


class Ended(BaseException):
    """Stands in for the end of the process."""


def end(status):
    raise Ended(status)


def test_a_driver_ends_when_its_job_has_been_taken_away(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(unwanted, "_LOOK_S", 0.001)
    monkeypatch.setattr(unwanted.os, "_exit", end)
    folder = ApplicationFolder(Location.parse(str(tmp_path / "spark-1")))
    folder.create(JOB)
    looks = iter([StorageError("away"), True, True])
    has_job = folder.has_job

    def look():
        found = next(looks, None)
        if isinstance(found, Exception):
            raise found
        if found is None:
            folder.remove()
        return has_job()

    monkeypatch.setattr(folder, "has_job", look)
    with pytest.raises(Ended):
        unwanted._watch(folder, threading.Event())
    assert next(looks, None) is None
    assert "the build has been ended" in capsys.readouterr().err


def test_an_error_of_another_process_keeps_its_class_and_outcome():
    error = Failure("MemoryLimitError", "too much").error()
    assert type(error) is MemoryLimitError
    assert str(error) == "too much"


@pytest.mark.parametrize(
    ("said", "kind", "parts"),
    [
        (
            "java.io.IOException: No space left on device",
            QuotaExceededError,
            ["one:/disk/a, two:/disk/b", "SPARK_LOCAL_DIRS"],
        ),
        ("[PYTHON_VERSION_MISMATCH] 3.12", ConfigError, ["same interpreter", "3.12"]),
        ("Job aborted" + "x" * 5000, EngineError, ["run the build again", "Job aborted"]),
    ],
)
def test_what_spark_says_becomes_one_error_with_its_remedy(capsys, said, kind, parts):
    error = error_of(RuntimeError(said), DISKS)
    assert type(error) is kind
    assert all(part in str(error) for part in parts)
    assert "nothing was published" in str(error)
    assert len(str(error)) < 3000
    assert said in capsys.readouterr().err
    assert (error.outcome is Outcome.FAIL) == (kind is not EngineError)
