"""Imports of many modules at once, as at the start of a command or of a worker process."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from trainfeed.core.garbage import collector_at_rest


@contextmanager
def without_collection() -> Iterator[None]:
    """Do not look for garbage while modules are imported, which takes a fifth of the time.

    What is there after new modules is not looked at any more: they live as long as the process.
    """
    num_modules = len(sys.modules)
    with collector_at_rest():
        try:
            yield
        finally:
            if len(sys.modules) > num_modules:
                gc.freeze()
