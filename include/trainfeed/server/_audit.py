"""The audit of a server: one JSON line per request, in files of bounded size and number."""

from __future__ import annotations

import json
import logging
import os
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from trainfeed.paths import os_errors

__all__ = ["Audit"]

_log: Final = logging.getLogger("trainfeed.server.audit")


class Audit:
    """The audit log: caller, request, outcome, sizes and duration; no payload and no token.

    A full file ``NAME`` becomes ``NAME.1``, ``NAME.1`` becomes ``NAME.2`` and so on.

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
        if path is not None:
            with os_errors(path):
                self._open(path)

    def write(self, line: dict[str, Any]) -> None:
        """Add a line. A failure is counted and logged; the request was answered all the same."""
        text = json.dumps(line, ensure_ascii=True, separators=(",", ":"))
        if self._path is None:
            _log.info("%s", text)
            return
        data = text.encode() + b"\n"
        try:
            if self._size_bytes and self._size_bytes + len(data) > self._max_bytes:
                self._rotate(self._path)
            self._size_bytes += os.write(self._descriptor, data)
        except OSError as error:
            self.failures += 1
            _log.error("cannot write the audit to %s: %s; %s", self._path, error.strerror, text)

    def close(self) -> None:
        """Close the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _open(self, path: Path) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        self._descriptor = os.open(path, flags, 0o600)
        self._size_bytes = os.fstat(self._descriptor).st_size

    def _rotate(self, path: Path) -> None:
        for number in range(self._max_files - 1, 0, -1):
            with suppress(FileNotFoundError):
                Path(f"{path}.{number}").replace(f"{path}.{number + 1}")
        path.replace(f"{path}.1")
        old = self._descriptor
        self._open(path)
        os.close(old)
