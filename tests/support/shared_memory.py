"""Which segments of shared memory have a name."""

from __future__ import annotations

from pathlib import Path

SHARED_MEMORY = Path("/dev/shm")


def named_segments() -> set[Path]:
    """Return the segments of this program and of Python's ``SharedMemory`` in /dev/shm.

    Folders are none: tests keep their files there, and those of other workers come and go. Nor are
    semaphores, which other programs of the machine have.
    """
    return {
        path
        for path in SHARED_MEMORY.iterdir()
        if path.name.startswith(("trainfeed", "psm_")) and path.is_file()
    }
