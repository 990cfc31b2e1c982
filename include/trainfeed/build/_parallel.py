"""Several tasks of a stage at once, in one process: what a scheduler does with many machines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any, Final

from trainfeed.build._engine import rest_workers, stop_workers
from trainfeed.spec import DatasetSpec

__all__ = ["run_units", "share_of"]

_LEAST_MEMORY_BYTES: Final = 1 << 20


def share_of(spec: DatasetSpec, num_units: int) -> DatasetSpec:
    """Return the data set as a task sees it that runs beside others, with its share of memory."""
    resources = spec.resources
    at_once = min(resources.processes, num_units)
    if at_once == 1:
        return spec
    update = {
        "processes": resources.processes // at_once,
        "memory_bytes": max(_LEAST_MEMORY_BYTES, resources.memory_bytes // at_once),
    }
    return spec.model_copy(update={"resources": resources.model_copy(update=update)})


def run_units(
    run: Callable[[int], dict[str, Any]], units: Sequence[int], processes: int
) -> Iterator[dict[str, Any]]:
    """Run every task of a stage, up to ``processes`` at a time.

    The work of a task is done outside of the interpreter's lock: in worker processes, in
    decompression, digests and sorting.

    Args:
        run: Runs the task with that number.
        units: The tasks.
        processes: How many at once.

    Yields:
        What they returned, in their order. After the first error no more are begun.
    """
    if processes == 1 or len(units) == 1:
        yield from map(run, units)
        return
    pool = ThreadPoolExecutor(processes, thread_name_prefix="trainfeed-task")
    try:
        tasks = [pool.submit(run, unit) for unit in units]
        # Not in their order: the first may wait for ever for what a later one has failed at.
        for task in as_completed(tasks):
            task.result()
        yield from (task.result() for task in tasks)
    except BaseException:
        # Tasks at work may wait for a function that never comes back.
        stop_workers(busy=True)
        raise
    finally:
        pool.shutdown(cancel_futures=True)
        rest_workers()
