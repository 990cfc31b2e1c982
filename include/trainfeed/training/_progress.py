"""How far a training is, for those who look at it from outside."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

from trainfeed.dataset import canonical
from trainfeed.paths import os_errors, unfinished_name
from trainfeed.whole_numbers import whole

__all__ = ["PROGRESS_FILE", "Progress"]

PROGRESS_FILE: Final = "progress.json"
_EVERY_S: Final = 1.0


class Progress:
    """The file of a job's progress: ``{"done": …, "total": …}``, replaced at most once a second.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._due_s = 0.0

    def set(self, done: int, total: int) -> None:
        """Say how much is done; the last word of a training is always written.

        Raises:
            ConfigError: They are no whole numbers, or more is done than there is.
        """
        total = whole("the total of a progress", total, 0)
        done = whole("what is done of a progress", done, 0, total)
        now_s = time.monotonic()
        if now_s < self._due_s and done < total:
            return
        self._due_s = now_s + _EVERY_S
        # Not synced: what a machine that goes down loses is out of date.
        new = self._path.with_name(unfinished_name(self._path.name))
        with os_errors(self._path):
            new.write_bytes(canonical.dumps({"done": done, "total": total}))
            new.replace(self._path)
