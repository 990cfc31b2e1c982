"""What a worker process and its parent agree on; light, so that workers are started early."""

from __future__ import annotations

import mmap
import signal
from typing import Final

__all__ = ["LAST_REPORTS", "NOWHERE", "PROGRESS_BYTES", "STACK_SIGNAL", "Place"]

# Makes a worker write where it is to its standard error, even inside a loop of C code.
STACK_SIGNAL: Final = signal.SIGUSR1
# What the report begins with that ends a job.
LAST_REPORTS: Final = ("done", "error", "bug")
PROGRESS_BYTES: Final = 32
NOWHERE: Final = -1


class Place:
    """Where a worker is, in memory that its parent shares and reads after its death.

    Args:
        file: Descriptor of ``PROGRESS_BYTES`` of memory.
    """

    def __init__(self, file: int) -> None:
        self._memory = mmap.mmap(file, PROGRESS_BYTES)
        self._view = memoryview(self._memory).cast("q")

    def begin(self, index: int) -> None:
        """Say which range of the plan comes now."""
        self._view[0], self._view[1], self._view[2], self._view[3] = index, *[NOWHERE] * 3

    def batch(self, source: str, first: int, last: int) -> None:  # noqa: ARG002 - the range says it
        """Say that records of offsets ``first`` to ``last`` come now."""
        self._view[1], self._view[2], self._view[3] = first, last, NOWHERE

    def record(self, offset: int) -> None:
        """Say which record comes now."""
        self._view[3] = offset

    def read(self) -> tuple[int | None, int | None, int | None, int | None]:
        """Return range, first and last offset, record; None for what is not known."""
        index, first, last, record = (None if v == NOWHERE else v for v in self._view)
        return index, first, last, record

    def close(self) -> None:
        """Release the memory."""
        self._view.release()
        self._memory.close()
