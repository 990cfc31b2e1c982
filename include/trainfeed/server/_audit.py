"""The audit of a server: one JSON line per request, in files of bounded size and number."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from typing import Any, Final

from trainfeed.paths import os_errors

__all__ = ["Audit"]

_log: Final = logging.getLogger("trainfeed.server.audit")


class Audit:
    """The audit log: caller, request, outcome, sizes and duration; no payload and no token.

    A full file ``NAME`` becomes ``NAME.1``, ``NAME.1`` becomes ``NAME.2`` and so on. A file that
    another program renamed or removed is made again. While no new file can be begun, lines go to
    the file that is open, above the limit, and the kept files stay as they are.

    Args:
        path: The file, appended to; None leaves the lines to the log ``trainfeed.server.audit``.
        max_bytes: Size at which a file is full.
        max_files: Number of full files that are kept.

    Attributes:
        failures: Number of lines that could not be written, because the disk is full for example.

    Raises:
        StorageError: The file cannot be opened.
    """

    def __init__(self, path: Path | None, *, max_bytes: int, max_files: int) -> None:
        self.failures = 0
        self._path = path
        self._max_bytes = max_bytes
        self._max_files = max_files
        self._descriptor = -1
        self._is_stuck = False
        if path is not None:
            with os_errors(path):
                self._use(_opened(path))

    def write(self, line: dict[str, Any]) -> None:
        """Add a line. A failure is counted and logged; the request was answered all the same."""
        text = json.dumps(line, ensure_ascii=True, separators=(",", ":"))
        if self._path is None:
            _log.info("%s", text)
            return
        data = text.encode() + b"\n"
        try:
            self._make_room(self._path, len(data))
            self._append(data)
        except OSError as error:
            self.failures += 1
            _log.error("cannot write the audit to %s: %s; %s", self._path, error.strerror, text)

    def close(self) -> None:
        """Close the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _append(self, data: bytes) -> None:
        """Add a line whole, or nothing of it: a disk that fills takes a part without an error."""
        before = os.fstat(self._descriptor).st_size
        try:
            while data:
                data = data[os.write(self._descriptor, data) :]
        except OSError:
            os.ftruncate(self._descriptor, before)
            raise

    def _make_room(self, path: Path, num_bytes: int) -> None:
        """Begin a new file if the file is full or gone; the open one stays in use if that fails."""
        try:
            size = self._size(path)
            if size is None:
                self._use(_opened(path))
            elif size and size + num_bytes > self._max_bytes:
                self._rotate(path)
            self._is_stuck = False
        except OSError as error:
            if not self._is_stuck:
                _log.error("cannot begin a new file of the audit %s: %s", path, error.strerror)
            self._is_stuck = True

    def _size(self, path: Path) -> int | None:
        """Return the size of the file; None if another program renamed or removed it."""
        try:
            found = path.lstat()
        except FileNotFoundError:
            return None
        return found.st_size if (found.st_dev, found.st_ino) == self._identity else None

    def _use(self, descriptor: int) -> None:
        found = os.fstat(descriptor)
        old, self._descriptor = self._descriptor, descriptor
        self._identity = found.st_dev, found.st_ino
        if old >= 0:
            os.close(old)

    def _rotate(self, path: Path) -> None:
        # The new file is open before any is renamed, so that a failure leaves all names.
        fresh = Path(f"{path}.new")
        descriptor = _opened(fresh)
        try:
            self._shift(path)
            fresh.replace(path)
        except BaseException:
            os.close(descriptor)
            raise
        self._use(descriptor)

    def _shift(self, path: Path) -> None:
        """Free the name of the file; kept files move only up to the first free number."""
        kept = [Path(f"{path}.{number}") for number in range(1, self._max_files + 1)]
        free = next((place for place, each in enumerate(kept) if not each.exists()), len(kept) - 1)
        for place in range(free, 0, -1):
            kept[place - 1].replace(kept[place])
        path.replace(kept[0])


def _opened(path: Path) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
    return os.open(path, flags, 0o600)
