"""The audit of a server: one JSON line per request, or a summary of many that are alike."""

from __future__ import annotations

import itertools
import json
import logging
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from trainfeed.files import os_errors

# --- The audit of a server: one JSON line per request, in files of bounded size and number

_log: Final = logging.getLogger("trainfeed.server.audit")


class Audit:
    """The audit log: caller, request, outcome, sizes and duration; no payload and no token.

    A full file ``NAME`` becomes ``NAME.1``, ``NAME.1`` becomes ``NAME.2`` and so on. A full file
    goes by age only: however many lines callers cause, those of the last days stay. A file that
    another program renamed or removed is made again. While no new file can be begun, lines go to
    the file that is open, above the limit, and the kept files stay as they are.

    Args:
        path: The file, appended to; None leaves the lines to the log ``trainfeed.server.audit``.
        max_bytes: Size at which a file is full.
        max_files: Number of full files that are kept whatever their age is.
        max_days: Age in days up to which further full files are kept.

    Attributes:
        failures: Number of lines that could not be written, because the disk is full for example.
        is_writable: Whether the last line was written.

    Raises:
        StorageError: The file cannot be opened.
    """

    def __init__(
        self, path: Path | None, *, max_bytes: int, max_files: int, max_days: float
    ) -> None:
        self.failures = 0
        self.is_writable = True
        self._path = path
        self._max_bytes = max_bytes
        self._max_files = max_files
        self._max_seconds = max_days * 86400
        self._descriptor = -1
        self._is_stuck = False
        if path is not None:
            with os_errors(path):
                self._use(_opened(path))

    def write(self, line: dict[str, Any]) -> int:
        """Add a line, and return its size in bytes.

        A failure is counted and logged; the request was answered all the same.
        """
        text = json.dumps(line, ensure_ascii=True, separators=(",", ":"))
        if self._path is None:
            _log.info("%s", text)
            return len(text) + 1
        data = text.encode() + b"\n"
        try:
            self._make_room(self._path, len(data))
            self._append(data)
            self.is_writable = True
        except OSError as error:
            self.failures += 1
            self.is_writable = False
            _log.error("cannot write the audit to %s: %s; %s", self._path, error.strerror, text)
        return len(text) + 1

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
        free = next(number for number in itertools.count(1) if not _numbered(path, number).exists())
        for number in range(free, 1, -1):
            _numbered(path, number - 1).replace(_numbered(path, number))
        path.replace(_numbered(path, 1))
        self._remove_old(path, free)

    def _remove_old(self, path: Path, last: int) -> None:
        """Remove the last files beyond the number that is kept, if they are old enough."""
        for number in range(last, self._max_files, -1):
            old = _numbered(path, number)
            if time.time() - old.stat().st_mtime < self._max_seconds:
                return
            old.unlink()


def _numbered(path: Path, number: int) -> Path:
    return Path(f"{path}.{number}")


def _opened(path: Path) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
    return os.open(path, flags, 0o600)


# --- Requests that the audit counts and does not list, so that nobody can fill it with them

_WINDOW_SECONDS: Final = 60.0
_MAX_KINDS: Final = 20
_OTHERS: Final = "others"

# Kind of a request: who, from, what, status, outcome.
Kind = tuple[str, str, str, int, str]


@dataclass
class _Count:
    requests: int = 0
    bytes_in: int = 0
    bytes_out: int = 0


class Summary:
    """Counts of one server. For one loop.

    Args:
        audit: Gets the lines.
        now: Returns the time for lines.
        clock: Seconds of a clock that never goes back.
    """

    def __init__(
        self, audit: Audit, now: Callable[[], str], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._audit = audit
        self._now = now
        self._clock = clock
        self._counts: dict[Kind, _Count] = {}
        self._since = clock()

    def add(self, line: dict[str, Any], what: str) -> None:
        """Count a request.

        Args:
            line: Its line of the audit, which is written if it is the first of its kind.
            what: What the kind has in place of the method and the path, which a caller can choose.
        """
        self.look()
        if not self._counts:
            self._since = self._clock()
        kind = (line["who"], line["from"], what, line["status"], line["outcome"])
        is_new = kind not in self._counts
        if is_new and len(self._counts) >= _MAX_KINDS:
            kind, is_new = (line["who"], _OTHERS, _OTHERS, 0, _OTHERS), False
            if kind not in self._counts and len(self._counts) >= 2 * _MAX_KINDS:
                kind = (_OTHERS, _OTHERS, _OTHERS, 0, _OTHERS)
        if is_new:
            self._audit.write(line)
            self._counts[kind] = _Count()
            return
        count = self._counts.setdefault(kind, _Count())
        count.requests += 1
        count.bytes_in += line["bytes_in"]
        count.bytes_out += line["bytes_out"]

    def look(self) -> None:
        """Write the counts of a minute that has ended."""
        if self._counts and self._clock() - self._since >= _WINDOW_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Write the counts up to now."""
        counts, self._counts = self._counts, {}
        for (who, address, what, status, outcome), count in counts.items():
            if count.requests:
                self._audit.write(
                    {
                        "at": self._now(),
                        "who": who,
                        "from": address,
                        "what": what,
                        "status": status,
                        "outcome": outcome,
                        "count": count.requests,
                        "seconds": round(self._clock() - self._since, 1),
                        "bytes_in": count.bytes_in,
                        "bytes_out": count.bytes_out,
                    }
                )
