"""The program of a worker process: runs user functions where they can do no harm to the build.

``WorkerProcess`` starts it with a socket, for jobs in one direction and reports in the other. The
kernel ends the process when its parent is gone, whatever the function is doing.
"""

from __future__ import annotations

import faulthandler
import importlib
import os
import sys
import traceback
from multiprocessing.connection import Connection
from typing import Final, NoReturn

from trainfeed.core.imports import without_collection
from trainfeed.core.process_ties import leave_interrupts, tie_to_parent
from trainfeed.errors import PreprocessError, TrainFeedError
from trainfeed.pipeline.workers.protocol import (
    NOWHERE,
    STACK_SIGNAL,
    Desk,
    Job,
    JobCrashed,
    JobDone,
    JobFailed,
    JobReport,
    JobStarted,
    RangeDone,
    WorkerPlace,
    adopt_orphans,
)

# The modules that every job needs: imported while the parent still plans, before the first job.
_OF_JOBS: Final = "trainfeed.pipeline.functions.jobs"


def main(channel: int, progress: int, parent: int) -> None:
    """Do jobs until the parent closes its end of the socket.

    Args:
        channel: Descriptor of the socket.
        progress: Descriptor of the memory for ``WorkerPlace``.
        parent: Process id of the parent.
    """
    _end_with(parent)
    adopt_orphans()
    leave_interrupts()
    faulthandler.register(STACK_SIGNAL, all_threads=False)
    with without_collection():
        import pyarrow as pa

        from trainfeed.pipeline.heap import give_back, return_large_blocks

        importlib.import_module(_OF_JOBS)
    # Several workers run at once, each for one core.
    pa.set_cpu_count(1)
    # With malloc a batch reuses the memory of the one before: new pages from the kernel would cost
    # more time than sorting.
    pa.set_memory_pool(pa.system_memory_pool())
    return_large_blocks()
    own = os.getpid()
    connection = Connection(channel)
    desk = Desk(WorkerPlace(progress), on_piece=lambda index: connection.send(RangeDone(index)))
    while True:
        try:
            job = connection.recv()
        except EOFError:
            return
        if job is None:
            give_back()
            continue
        connection.send(JobStarted())
        desk.place.take()
        report = _report(job, desk)
        if os.getpid() != own:
            _end_as_child(desk, report)
        # A text in the shared memory is from a forked child that returned from the function. It
        # takes precedence over the report, because the result cannot be trusted then.
        told = desk.place.take()
        connection.send(JobFailed(PreprocessError(told)) if told else report)


def _end_with(parent: int) -> None:
    if not tie_to_parent(parent):
        sys.exit(f"the parent {parent} is gone")


def _end_as_child(desk: Desk, report: JobReport) -> NoReturn:
    """End a forked child that returned from the function; it must not use the parent's channel."""
    desk.place.leave(_text_of(report))
    os._exit(1)


def _text_of(report: JobReport) -> str:
    match report:
        case JobDone():
            return str(report.result)
        case JobFailed():
            return str(report.error)
        case JobCrashed():
            return report.stack


def _report(job: Job[object], desk: Desk) -> JobReport:
    """Do the job and return its report."""
    desk.place.begin(NOWHERE)
    try:
        return JobDone(job.run(desk))
    except TrainFeedError as error:
        return JobFailed(error)
    except BaseException:  # noqa: BLE001 - the parent must get every error
        return JobCrashed(traceback.format_exc())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
