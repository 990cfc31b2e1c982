"""The program of a worker process: answers questions until its loader is gone."""

from __future__ import annotations

import os
import select
import threading
import time
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any, Final

from trainfeed.core import faults
from trainfeed.core.process_ties import leave_interrupts, portable, tie_to_parent
from trainfeed.loader.windows import load_window
from trainfeed.loader.worker_messages import (
    IMPORTING_MAIN,
    Answer,
    LoaderJob,
    Question,
    SharedSlots,
    SlotMemory,
    dump,
    load,
    owned,
    pack,
)

_IN_MAIN_THREAD: Final = "main"
# First words of the note that errors from a worker get.
_HERE: Final = "in loader worker"


def main(connection_fd: int, memory_fd: int, parent: int, thread: str) -> None:
    """Serve a loader; returns when it closes the connection.

    Args:
        connection_fd: Descriptor of the connection to the loader.
        memory_fd: Descriptor of the shared memory.
        parent: Process id of the loader.
        thread: "main" if the loader's main thread started this process.
    """
    leave_interrupts()
    # The kernel watches the *thread* that started this process, so it is asked only for the main
    # thread; see ``tie_to_parent``.
    if thread == _IN_MAIN_THREAD and not tie_to_parent(parent):
        os._exit(1)
    connection = Connection(connection_fd)
    threading.Thread(target=_exit_with_parent, args=[connection_fd], daemon=True).start()
    try:
        faults.point("loader.worker.start")
        job = _receive_job(connection)
        slots = SharedSlots(memory_fd, job.slot_bytes, job.num_slots)
        while True:
            question = connection.recv()
            connection.send_bytes(dump(_answer(job, slots, question)))
            faults.point("loader.worker.answered")
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass
    except Exception as error:  # noqa: BLE001 - sent to the loader, which raises it
        # If the loader itself has ended, sending fails, and nothing is left to do.
        with suppress(OSError):
            connection.send_bytes(dump(_failure(error)))
    # Without an orderly end, which could wait for threads of the user; nothing needs cleaning up.
    os._exit(0)


def _answer(job: LoaderJob, slots: SharedSlots, question: Question) -> Answer:
    start_s = time.perf_counter()
    source, order = job.sets[question.task.child]
    slot = slots.slot(question.slot)
    memory = SlotMemory(slot)
    faults.point("loader.worker.load")
    num_before = source.num_reread()
    loaded = load_window(source, order, question.task, memory)
    # None means that the window does not fit the slot: its columns then travel in the answer.
    packed = pack(loaded.columns, memory)
    faults.point("loader.worker.packed")
    return Answer(
        number=question.number,
        packed=packed,
        columns=owned(loaded.columns) if packed is None else None,
        num_samples=loaded.num_samples,
        error=None if loaded.error is None else portable(loaded.error, _HERE),
        seconds=time.perf_counter() - start_s,
        num_reread=source.num_reread() - num_before,
    )


def _failure(error: Exception) -> Answer:
    return Answer(-1, {}, None, 0, portable(error, _HERE), 0.0, 0)


def _receive_job(connection: Connection) -> LoaderJob:
    # Two messages: the main program must be imported before the job's objects can be loaded.
    preparation: dict[str, Any] = connection.recv()
    data = connection.recv_bytes()
    if preparation:
        from multiprocessing import spawn

        IMPORTING_MAIN.set()
        spawn.prepare(preparation)
        IMPORTING_MAIN.clear()
    job: LoaderJob = load(data)
    return job


def _exit_with_parent(fd: int) -> None:
    """End this process when the loader's end of the connection closes, even during a load."""
    poll = select.poll()
    poll.register(fd, select.POLLRDHUP)
    poll.poll()
    os._exit(1)
