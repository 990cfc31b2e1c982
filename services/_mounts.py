"""Mounts of FUSE file systems: whether one exists and answers, and its removal."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path


def answers(path: Path) -> bool:
    """Return whether a file system is mounted at ``path`` and reports its size."""
    try:
        return _is_mounted(path) and os.statvfs(path).f_blocks > 0
    except OSError:
        return False


def unmount(path: Path) -> None:
    """Detach the mount at ``path``, even if it is in use or its server has died."""
    if not _is_mounted(path):
        return
    busy = subprocess.run(["umount", path], capture_output=True, check=False).returncode
    if busy:
        subprocess.run(["umount", "-l", path], capture_output=True, check=False)


def _is_mounted(path: Path) -> bool:
    # Not os.path.ismount, which returns False if the server has died.
    points = (line.split()[1] for line in Path("/proc/mounts").read_text().splitlines())
    return str(path) in {point.replace("\\040", " ") for point in points}
