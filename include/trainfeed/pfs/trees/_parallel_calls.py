"""One call for each of several files or folders, by a few threads.

A network file system answers each call after some milliseconds, and several calls at once not much
later than one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

__all__ = ["in_threads"]

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

# More do not help one server of names, and several batches are at work at once.
_THREADS: Final = 8


def in_threads(call: Callable[[_Item], _Result], items: Iterable[_Item]) -> list[_Result]:
    """Return the results of a call for each item, in their order.

    All calls have ended when this function returns. The first exception of a call is raised; calls
    that have not begun are then left out.

    Args:
        call: The call, for many threads.
        items: Its arguments.
    """
    items = list(items)
    if len(items) < 2:
        return list(map(call, items))
    with ThreadPoolExecutor(min(_THREADS, len(items)), "pfs-files") as threads:
        return list(threads.map(call, items))
