"""One call for each of several files or folders, by a few threads.

A network file system answers each call after some milliseconds, and several calls at once not much
later than one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Final, Self, TypeVar

__all__ = ["ParallelCalls"]

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

# More do not help one server of names, and several batches are at work at once.
_THREADS: Final = 8


class ParallelCalls:
    """Threads for several rounds of calls; the context manager ends them.

    Args:
        count: Most calls of a round; one call needs no thread.
        is_far: Whether other machines answer; calls on a local disk run one after another.
    """

    def __init__(self, count: int, *, is_far: bool) -> None:
        self._threads: ThreadPoolExecutor | None = None
        if is_far and count > 1:
            self._threads = ThreadPoolExecutor(min(_THREADS, count), "pfs-files")

    def each(self, call: Callable[[_Item], _Result], items: Iterable[_Item]) -> list[_Result]:
        """Return the results of a call for each item, in their order.

        The first exception of a call is raised; when the context has ended, all calls have.

        Args:
            call: The call, for many threads.
            items: Its arguments.
        """
        return list((map if self._threads is None else self._threads.map)(call, items))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._threads is not None:
            self._threads.shutdown(wait=True, cancel_futures=True)
