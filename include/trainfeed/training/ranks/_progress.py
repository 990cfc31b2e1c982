"""The progress of a training, in a file that other programs can read."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

from trainfeed import canonical_json
from trainfeed.paths import os_errors, unfinished_name
from trainfeed.whole_numbers import whole

__all__ = ["PROGRESS_FILE", "Progress"]

PROGRESS_FILE: Final = "progress.json"
_EVERY_S: Final = 1.0


class Progress:
    """The progress file of a job: ``{"done": …, "total": …}``, replaced at most once a second.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._due_s = 0.0

    def set(self, done: int, total: int) -> None:
        """Write the progress, unless the file is less than a second old and ``done < total``.

        Raises:
            ConfigError: A value is no whole number, or ``done`` is more than ``total``.
            StorageError: The file cannot be written.
        """
        total = whole("the total of a progress", total, 0)
        done = whole("what is done of a progress", done, 0, total)
        now_s = time.monotonic()
        if now_s < self._due_s and done < total:
            return
        self._due_s = now_s + _EVERY_S
        # Not synced: after a crash of the machine an old progress is of no use.
        new = self._path.with_name(unfinished_name(self._path.name))
        with os_errors(self._path):
            new.write_bytes(canonical_json.dumps({"done": done, "total": total}))
            new.replace(self._path)
