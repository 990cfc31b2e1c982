"""Copies many files with several threads; a file that fails does not stop the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import chain
from typing import Final, TypeAlias

from trainfeed.errors import QuotaExceededError, TrainFeedError
from trainfeed.pfs.transfer._chunked_copy import copy_chunked
from trainfeed.pfs.transfer._copy_values import CopyOptions, FileCopy, FileOutcome
from trainfeed.pfs.transfer._small_copies import batches, copy_small, failed
from trainfeed.pfs.trees import CHUNK_BYTES, SMALL_BYTES

__all__ = ["copy_files"]

_Task: TypeAlias = Callable[[], list[FileOutcome]]

# Files above this size are copied one after another, each by all threads.
_LARGE_BYTES: Final = 4 * CHUNK_BYTES


def copy_files(
    copies: Iterable[FileCopy], options: CopyOptions, *, is_hidden: bool
) -> Iterator[FileOutcome]:
    """Copy files; yield what became of each.

    When the iterator is closed, or an exception passes through it, ``options.stop`` is set, and
    all threads end at their next chunk. Unfinished files stay for the next try.

    Args:
        copies: Files of one source tree, for one target tree.
        options: Options of all copies.
        is_hidden: Whether a folder above the targets has an unfinished name.
    """
    sizes: dict[bool, list[FileCopy]] = {False: [], True: []}
    larger = []
    for copy in copies:
        if copy.num_bytes > _LARGE_BYTES:
            larger.append(copy)
        else:
            sizes[copy.num_bytes > SMALL_BYTES].append(copy)
    tasks: list[_Task] = [
        partial(_copied_small, batch, options, is_hidden=is_hidden)
        for batch in batches(sizes[False])
    ]
    tasks += [partial(_copied, copy, options, 1) for copy in sizes[True]]
    large: list[_Task] = [partial(_copied, copy, options, options.threads) for copy in larger]
    try:
        for outcome in chain(_in_threads(tasks, options), _in_turn(large)):
            # Every further file would fail as well, so the first one ends the copy.
            if isinstance(outcome.error, QuotaExceededError):
                raise outcome.error  # noqa: TRY301 - also for the sake of the threads
            yield outcome
    except BaseException:
        options.stop.set()
        raise


def _in_turn(tasks: Iterable[_Task]) -> Iterator[FileOutcome]:
    for task in tasks:
        yield from task()


def _in_threads(tasks: list[_Task], options: CopyOptions) -> Iterator[FileOutcome]:
    if len(tasks) < 2:
        yield from _in_turn(tasks)
        return
    pool = ThreadPoolExecutor(min(options.threads, len(tasks)), "pfs-copy")
    try:
        futures: list[Future[list[FileOutcome]]] = [pool.submit(task) for task in tasks]
        for future in futures:
            yield from future.result()
    except BaseException:
        options.stop.set()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _copied_small(
    copies: list[FileCopy], options: CopyOptions, *, is_hidden: bool
) -> list[FileOutcome]:
    try:
        return copy_small(copies, options, is_hidden=is_hidden)
    except TrainFeedError as error:
        return [failed(copy, error) for copy in copies]


def _copied(copy: FileCopy, options: CopyOptions, threads: int) -> list[FileOutcome]:
    try:
        return [copy_chunked(copy, options, threads=threads)]
    except TrainFeedError as error:
        return [failed(copy, error)]
