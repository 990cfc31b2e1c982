"""Ends a driver that nobody waits for: the submitting process has taken its job away.

A driver beside the submitting process ends with that process. A driver in the cluster does not; it
finds that its job is gone.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from trainfeed.errors import TrainFeedError
from trainfeed.pipeline.spark._application_files import ApplicationFolder

__all__ = ["ending_when_unwanted"]

_LOOK_S: Final = 5.0
_STATUS: Final = 1


@contextmanager
def ending_when_unwanted(folder: ApplicationFolder) -> Iterator[None]:
    """Look for the job while the block runs; end this process, and so the application, without it.

    Args:
        folder: The files of the application.
    """
    done = threading.Event()
    thread = threading.Thread(target=_watch, args=(folder, done), daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _watch(folder: ApplicationFolder, done: threading.Event) -> None:
    while not done.wait(_LOOK_S):
        if _is_unwanted(folder):
            print("the build has been ended: its job is gone", file=sys.stderr, flush=True)  # noqa: T201
            os._exit(_STATUS)


def _is_unwanted(folder: ApplicationFolder) -> bool:
    try:
        return not folder.has_job()
    except TrainFeedError:
        # A store that is away for a while says nothing about the build.
        return False
