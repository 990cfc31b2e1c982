"""LocalExecutor with one pipe per worker, so that a worker that dies loses nothing else.

In Airflow's LocalExecutor all workers read one queue. If a worker is killed, the task that it has
just read is lost: its identity is not recorded, the task stays ``queued`` for ever, and
``task_queued_timeout`` does not free it, because that executor cannot revoke a task. If a worker is
killed while it waits, it holds the queue's lock, and no worker gets a task after that.

Here the scheduler's process knows the task of each worker. If a worker ends without an answer, the
executor reports that in its log and as the reason of the failure, which Airflow keeps as the event
``state mismatch`` of its audit log, and the task is tried again.
"""

from __future__ import annotations

import gc
import multiprocessing
import signal
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import TYPE_CHECKING, Any

from airflow.executors.base_executor import BaseExecutor, get_execution_api_server_url
from airflow.executors.local_executor import LocalExecutor
from setproctitle import setproctitle

if TYPE_CHECKING:
    from airflow.executors.workloads import ExecutorWorkload
    from airflow.models.taskinstance import TaskInstance


@dataclass
class _Worker:
    """A process that runs one workload after the other.

    Attributes:
        process: The process.
        pipe: Our end of the pipe: workloads go out; for each, None or its error comes in.
        workload: The workload that it has got and not answered yet.
    """

    process: BaseProcess
    pipe: Connection
    workload: ExecutorWorkload | None = None


class WatchedLocalExecutor(LocalExecutor):
    """Tasks in processes of this machine, with an answer for each of them.

    A task whose worker ends without an answer is reported as failed in the next round of the
    scheduler (less than a second), which gives it another try if it has one left.
    """

    def start(self) -> None:
        """Start the workers."""
        self._staff: list[_Worker] = []
        self._fill()

    def sync(self) -> None:
        """Read the answers of the workers, and replace dead ones."""
        for worker in list(self._staff):
            if not self._take_answer(worker) and not worker.process.is_alive():
                # Its last answer may have come in between.
                self._take_answer(worker)
                self._bury(worker)
        self._fill()

    def end(self) -> None:
        """Wait until the workers have finished their workloads, then end them."""
        for worker in self._staff:
            _try_send(worker, None)
        for worker in self._staff:
            worker.process.join()
            self._take_answer(worker)
            worker.pipe.close()
        self._staff = []

    def try_adopt_task_instances(self, tis: Sequence[TaskInstance]) -> Sequence[TaskInstance]:
        """Return the tasks that no worker of ours has, which are then started again.

        A scheduler whose round takes longer than ``scheduler_health_check_threshold`` considers
        itself dead, and calls this with tasks that it runs itself. If these were started again
        each time, they would never end on a busy machine.
        """
        return [ti for ti in tis if not self.has_task(ti)]

    def revoke_task(self, *, ti: TaskInstance) -> None:
        """End the worker that has the task, and drop the task without an event."""
        self.queued_tasks.pop(ti.key, None)
        self.running.discard(ti.key)
        for worker in self._staff:
            if worker.workload is not None and worker.workload.key == ti.key:
                self.log.warning("Task %s is revoked: ending worker %s", ti, worker.process.pid)
                worker.workload = None
                worker.process.kill()
                worker.process.join()  # otherwise it could be taken for an idle worker

    def _process_workloads(self, workload_list: Sequence[ExecutorWorkload]) -> None:
        for workload in workload_list:
            worker = self._idle_worker()
            if worker is None:
                return  # it stays queued here, and is offered again in the next round
            self._unqueue(workload.key)
            worker.workload = workload
            self.running.add(workload.key)
            _try_send(worker, workload)

    def _unqueue(self, key: Any) -> None:
        queues: tuple[dict[Any, Any], ...] = (
            self.queued_tasks,
            self.queued_callbacks,
            self.queued_connection_tests,
        )
        for queue in queues:
            queue.pop(key, None)

    def _idle_worker(self) -> _Worker | None:
        idle = (each for each in self._staff if each.workload is None)
        return next((each for each in idle if each.process.is_alive()), None)

    def _take_answer(self, worker: _Worker) -> bool:
        """Read a worker's answer if there is one; return whether there was one."""
        try:
            if not worker.pipe.poll():
                return False
            error = worker.pipe.recv()
        except (EOFError, OSError):
            return False
        if worker.workload is not None:
            self._report(worker.workload, error)
            worker.workload = None
        return True

    def _report(self, workload: ExecutorWorkload, error: Any) -> None:
        if error is None:
            self.change_state(workload.key, workload.success_state)
        else:
            self.change_state(workload.key, workload.failure_state, error)

    def _bury(self, worker: _Worker) -> None:
        """Remove a dead worker, log its task, and report the task as failed."""
        worker.process.join()
        self._staff.remove(worker)
        worker.pipe.close()
        ended = _ending(worker.process)
        if worker.workload is None:
            self.log.warning("Idle worker %s %s; it is replaced", worker.process.pid, ended)
            return
        key = worker.workload.key
        message = f"worker {worker.process.pid} {ended} before it said how the task went"
        self.log.error("%s: %s; the task is tried again if it has a try left", key, message)
        self.fail(key, message)

    def _fill(self) -> None:
        """Start the missing workers."""
        missing = self.parallelism - len(self._staff)
        if not missing:
            return
        gc.freeze()  # a collection in a child would copy the pages that all share
        try:
            for _ in range(missing):
                self._staff.append(self._start_worker())
        finally:
            gc.unfreeze()

    def _start_worker(self) -> _Worker:
        ours, theirs = multiprocessing.Pipe()
        process = multiprocessing.Process(
            target=_work, args=(theirs, [ours, *(each.pipe for each in self._staff)], self.conf)
        )
        process.start()
        theirs.close()
        return _Worker(process, ours)


def _work(pipe: Connection, of_others: Sequence[Connection], conf: Any) -> None:
    """Run the workloads from the pipe, until None or the end of the scheduler."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the scheduler tells when to end
    for other in of_others:
        other.close()  # otherwise no worker would notice the end of the scheduler
    server = get_execution_api_server_url(conf)
    while True:
        setproctitle("airflow worker: idle")
        try:
            workload = pipe.recv()
        except (EOFError, OSError):
            return
        if workload is None:
            return
        pipe.send(_error_of(workload, server))


def _error_of(workload: ExecutorWorkload, server: str) -> str | None:
    try:
        BaseExecutor.run_workload(
            workload,
            server=server,
            proctitle=f"airflow worker: {workload.display_name}",
            subprocess_logs_to_stdout=True,
        )
    except Exception as error:  # noqa: BLE001 - the scheduler gets every error
        return f"{type(error).__name__}: {error}"
    return None


def _try_send(worker: _Worker, message: ExecutorWorkload | None) -> None:
    """Send to a worker; the next ``sync`` finds one that has died meanwhile."""
    with suppress(OSError):
        worker.pipe.send(message)


def _ending(process: BaseProcess) -> str:
    code = process.exitcode or 0
    return f"was ended by signal {-code}" if code < 0 else f"ended with status {code}"
