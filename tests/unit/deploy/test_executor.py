"""Workers that are killed at every moment of a task: the scheduler is told."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from tests.airflow_home import HOME

os.environ["AIRFLOW_HOME"] = HOME  # Airflow reads it when it is first imported

import pytest
from airflow.executors.base_executor import BaseExecutor
from airflow.models.taskinstancekey import TaskInstanceKey
from airflow.utils.state import TaskInstanceState

from deploy.executor import WatchedLocalExecutor

DEADLINE_S = 60.0


@dataclass(frozen=True)
class Work:
    """A stand-in for a task: what it does, and where it says that it was started."""

    name: str
    does: str
    folder: str

    success_state = TaskInstanceState.SUCCESS
    failure_state = TaskInstanceState.FAILED
    running_state = None

    @property
    def key(self):
        return TaskInstanceKey("build.clicks", self.name, "run", 1, -1)

    @property
    def display_name(self):
        return self.name


@dataclass
class Instance:
    """The part of a task instance that an executor is asked about."""

    key: TaskInstanceKey
    id: str = "none"


def run_workload(work, **options):
    Path(work.folder, work.name).touch()
    if work.does == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if work.does == "raise":
        raise ValueError("no such task")
    while work.does == "wait" and not Path(work.folder, "go").exists():
        time.sleep(0.01)


@pytest.fixture
def executor(monkeypatch):
    monkeypatch.setattr(BaseExecutor, "run_workload", staticmethod(run_workload))
    executor = WatchedLocalExecutor(parallelism=2)
    executor.start()
    yield executor
    for worker in executor._staff:
        worker.process.kill()
    executor.end()


@pytest.fixture
def work(tmp_path):
    return lambda name, does="end": Work(name, does, str(tmp_path))


def give(executor, *works):
    for each in works:
        executor.queued_tasks[each.key] = each
    executor._process_workloads(works[: executor.parallelism - len(executor.running)])


def events(executor, number):
    """The states of that many tasks by name, and what was said about each."""
    found, deadline_s = {}, time.monotonic() + DEADLINE_S
    while len(found) < number:
        assert time.monotonic() < deadline_s, found
        executor.sync()
        for key, (state, info) in executor.get_event_buffer().items():
            found[key.task_id] = (str(state), info)
        waiting = list(executor.queued_tasks.values())
        executor._process_workloads(waiting[: executor.parallelism - len(executor.running)])
        time.sleep(0.01)
    return found


def wait_for(path):
    deadline_s = time.monotonic() + DEADLINE_S
    while not path.exists():
        assert time.monotonic() < deadline_s, path
        time.sleep(0.01)


def test_tasks_that_end_are_reported_one_by_one(executor, work):
    give(executor, *(work(f"task{number}") for number in range(6)))
    found = events(executor, 6)
    assert set(found.values()) == {("success", None)}
    assert executor.running == set()


def test_an_error_of_the_supervisor_is_reported_with_its_text(executor, work):
    give(executor, work("broken", "raise"))
    assert events(executor, 1) == {"broken": ("failed", "ValueError: no such task")}


def test_the_task_of_a_worker_that_dies_is_failed_at_once_and_the_others_go_on(executor, work):
    give(executor, work("killed", "die"), work("lives"))
    found = events(executor, 2)
    state, said = found["killed"]
    assert state == "failed"
    assert "was ended by signal 9 before it said how the task went" in said
    assert found["lives"] == ("success", None)
    assert executor.running == set()
    give(executor, *(work(f"later{number}") for number in range(4)))
    assert set(events(executor, 4).values()) == {("success", None)}


def test_the_death_of_all_idle_workers_costs_nothing(executor, work):
    before = [worker.process for worker in executor._staff]
    for process in before:
        process.kill()
        process.join()
    give(executor, work("first"), work("second"))
    assert set(events(executor, 2).values()) == {("success", None)}
    assert not {process.pid for process in before} & {w.process.pid for w in executor._staff}


def test_a_task_that_is_revoked_ends_without_an_event(executor, work, tmp_path):
    give(executor, work("stuck", "wait"), work("other"))
    wait_for(tmp_path / "stuck")
    executor.revoke_task(ti=Instance(work("stuck").key))
    assert events(executor, 1) == {"other": ("success", None)}
    assert not executor.has_task(Instance(work("stuck").key))
    give(executor, work("again"), work("once more"))
    assert events(executor, 2) == {"again": ("success", None), "once more": ("success", None)}


def test_a_scheduler_that_takes_itself_for_dead_keeps_the_tasks_that_it_has(
    executor, work, tmp_path
):
    give(executor, work("ours", "wait"))
    wait_for(tmp_path / "ours")
    executor.queued_tasks[work("queued").key] = work("queued")
    instances = {name: Instance(work(name).key) for name in ("ours", "queued", "of a dead one")}
    lost = executor.try_adopt_task_instances(list(instances.values()))
    assert lost == [instances["of a dead one"]]
    (tmp_path / "go").touch()
    assert events(executor, 2) == {"ours": ("success", None), "queued": ("success", None)}


def test_workers_end_when_the_scheduler_is_gone(executor, work):
    processes = [worker.process for worker in executor._staff]
    for worker in executor._staff:
        worker.pipe.close()
    for process in processes:
        process.join(DEADLINE_S)
    assert [process.exitcode for process in processes] == [0, 0]
    executor._staff = []


def test_ending_waits_for_what_the_workers_have(executor, work, tmp_path):
    give(executor, work("slow", "wait"))
    wait_for(tmp_path / "slow")
    (tmp_path / "go").touch()
    executor.end()
    assert [key.task_id for key in executor.get_event_buffer()] == ["slow"]
