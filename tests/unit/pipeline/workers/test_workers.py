"""Worker processes that are started early, and stages that run in them."""

import os
import resource
import sys
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from tests.unit.pipeline.workers.module_job import ModulesAtHand
from tests.unit.processes import LIMIT_S
from trainfeed.core.faults import VARIABLE
from trainfeed.errors import EngineError
from trainfeed.pipeline import local as _parallel
from trainfeed.pipeline import plan as planning
from trainfeed.pipeline.workers import pool as _engine
from trainfeed.pipeline.workers.pool import start_workers

MANY = "seed: 7\nresources: {processes: 2, records_per_task: 9}"

pytestmark = pytest.mark.usefixtures("no_worker")


def workers():
    return {worker.pid for worker in _engine._idle}


def test_workers_started_early_are_those_that_do_the_work(project):
    start_workers(2)
    started = workers()
    assert len(started) == 2
    start_workers(2)
    project.edit("seed: 7", MANY)
    project.build()
    assert workers() == started


def test_a_worker_with_the_variables_of_before_is_not_used_again(project, monkeypatch):
    start_workers(2)
    before = workers()
    assert len(before) == 2
    monkeypatch.setenv("HADOOP_USER_NAME", "somebody")
    project.edit("seed: 7", MANY)
    project.build()
    assert workers()
    assert not workers() & before


def test_an_interval_that_is_published_starts_no_worker(project):
    project.build()
    _engine.stop_workers()
    done = project.build()
    assert done["verdict"] == "identical"
    assert workers() == set()
    assert done["seconds"].keys() == {"plan", "ingest", "preprocess", "convert", "check", "publish"}


def test_a_worker_has_imported_what_jobs_need_before_its_first_one_comes():
    job = ModulesAtHand(("trainfeed.pipeline.functions",))
    limits = _engine.WorkerLimits(LIMIT_S, sys.maxsize)
    assert _engine.run_jobs([job], limits, str) == [{"names": ["trainfeed.pipeline.functions"]}]


@pytest.mark.parametrize("stage", ["ingest", "convert"])
def test_a_stage_whose_worker_was_killed_says_so_and_goes_on_in_the_next_run(
    project, tmp_path, monkeypatch, stage
):
    plain = project.elsewhere("plain")
    plain.build()
    # One that is there already knows of no fault, and might do all the work.
    _engine.stop_workers()
    project.edit("seed: 7", MANY)
    point = {"ingest": "ingest.after_batch", "convert": "convert.after_block"}[stage]
    monkeypatch.setenv(VARIABLE, f"{point}:kill:{tmp_path}")
    with pytest.raises(EngineError, match=f"of stage {stage} of data set 'clicks' ended by signal"):
        project.build()
    assert (tmp_path / f"{point}.fired").exists()
    assert _engine._busy == set()
    project.build()
    assert project.version().manifest.content_digest == plain.version().manifest.content_digest


def test_an_error_of_a_stage_in_a_worker_is_raised_here(project, monkeypatch):
    project.edit("seed: 7", MANY)
    plan = planning.plan

    def without_source(*args, **kwargs):
        planned = plan(*args, **kwargs)
        for path in project.path.glob("recorded/**/*.arrow"):
            path.write_bytes(b"ARROW1 no more")
        return planned

    monkeypatch.setattr(planning, "plan", without_source)
    with pytest.raises(Exception, match="footer") as caught:
        project.build()
    assert type(caught.value).__module__ == "trainfeed.errors"


@dataclass(frozen=True)
class Waits:
    """A job that says that it has begun, and never comes back."""

    label = "waits"

    def run(self, desk):
        desk.on_piece(0)
        while True:
            time.sleep(LIMIT_S)


@dataclass(frozen=True)
class Prints:
    """A job that prints and prints."""

    label = "prints"

    def run(self, desk):
        desk.on_piece(0)
        while True:
            os.write(1, bytes(1 << 16))


@dataclass(frozen=True)
class Hoards:
    """A job after which its process keeps much memory."""

    num_bytes: int
    label = "hoards"

    def run(self, desk):
        desk.functions["hoard"] = b"x" * self.num_bytes
        return {}


def test_a_task_that_had_no_worker_yet_when_another_failed_is_ended_too(monkeypatch):
    ended, deaths = threading.Event(), []

    def end(**how):
        _engine.stop_workers(**how)
        ended.set()

    def run(unit):
        if unit:
            raise EngineError("the first error")
        assert ended.wait(LIMIT_S)
        try:
            return _engine.run_jobs([Waits()], _engine.WorkerLimits(30, sys.maxsize), str)
        except _engine.Death as death:
            deaths.append(death.cause)
            raise

    monkeypatch.setattr(_parallel, "stop_workers", end)
    with pytest.raises(EngineError, match="the first error"):
        list(_parallel.run_units(run, [0, 1], 2))
    assert deaths == ["signal"]
    assert _engine._busy == set()
    assert workers() == set()


def test_a_job_that_never_stops_printing_has_limits_too():
    with pytest.raises(_engine.Death) as death:
        _engine.run_jobs([Prints()], _engine.WorkerLimits(0.5, sys.maxsize), str)
    assert death.value.cause == "time"


def test_a_worker_that_was_told_to_end_is_given_to_nobody(monkeypatch):
    with _engine._leased(1) as (worker,), monkeypatch.context() as slowly:
        # It is told while its job reports; the kernel has not come to it yet.
        slowly.setattr(worker.process, "kill", lambda: None)
        worker.interrupt()
    assert workers() == set()


def test_what_a_worker_kept_of_another_data_set_is_not_held_against_the_next_one():
    for mib_kept, mib_allowed in ((500, 2048), (1, 450)):
        limits = _engine.WorkerLimits(LIMIT_S, mib_allowed << 20)
        assert _engine.run_jobs([Hoards(mib_kept << 20)], limits, str) == [{}]


def test_a_process_that_has_many_files_open_can_look_at_what_a_worker_is_at(monkeypatch):
    begun = []
    # An hour has passed once the job has begun.
    clock = SimpleNamespace(monotonic=lambda: 3600.0 * len(begun))
    monkeypatch.setattr(_engine, "time", clock)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # Where no process may have so many, those it may have.
    allowed = 2048 if hard == resource.RLIM_INFINITY else min(hard, 2048)
    with ExitStack() as closing:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, allowed), hard))
        closing.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        for _ in range(min(1024, allowed // 2)):
            closing.callback(os.close, os.open(os.devnull, os.O_RDONLY))
        with pytest.raises(_engine.Death) as death:
            _engine.run_jobs([Waits()], _engine.WorkerLimits(60, sys.maxsize), begun.append)
    assert (death.value.cause, "in run" in death.value.printed) == ("time", True)
