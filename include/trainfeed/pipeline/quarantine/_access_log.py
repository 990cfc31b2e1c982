"""The audit of quarantined bytes: who read how many records of which build, and when.

One JSON line per reading, in a file of the data set that only its builder may read. A line is
appended and synced before a byte is handed out, so a line may stand for a reading that a kill
prevented, and never the other way round.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, Final

from trainfeed import faults
from trainfeed.accounts import account_name
from trainfeed.dataset import DatasetFolder
from trainfeed.errors import AccessDeniedError
from trainfeed.intervals import format_time
from trainfeed.paths import open_plain
from trainfeed.pipeline.quarantine._private_quarantine import PRIVATE_MODE, require_private
from trainfeed.printable_text import printable
from trainfeed.storage import posix

__all__ = ["Access", "DamagedLine", "accesses", "record_access"]

_APPEND: Final = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_REMEDY: Final = "move it aside; its lines may still be readings"
# A line has at most six texts, beside less than 250 bytes.
_MOST_LINE_BYTES: Final = 2048
_MOST_TEXT_BYTES: Final = 250


@dataclass(frozen=True)
class Access:
    """One reading of quarantined bytes.

    Attributes:
        at: Time, UTC, to the second.
        account: Name of the account of the process.
        uid: Its number.
        host: Name of the machine.
        command: What was asked for, as ``show`` or ``preview``.
        interval: Name of the interval.
        origin: Generation, or id of the plan that is not published.
        reason: The reason that was asked for; None for all.
        records: The most records whose bytes were handed out.
    """

    at: str
    account: str
    uid: int
    host: str
    command: str
    interval: str
    origin: str
    reason: str | None
    records: int

    @classmethod
    def now(
        cls, command: str, interval: str, origin: str, *, reason: str | None, records: int
    ) -> Access:
        """Return the access of this process at this time."""
        uid = os.geteuid()
        return cls(
            at=format_time(datetime.now(UTC).replace(microsecond=0)),
            account=_short(account_name()),
            uid=uid,
            host=_short(socket.gethostname()),
            command=_short(command),
            interval=_short(interval),
            origin=_short(origin),
            reason=None if reason is None else _short(reason),
            records=records,
        )


@dataclass(frozen=True)
class DamagedLine:
    """A line of the file that is no access: torn by a kill or a full disk, too long, or changed.

    Attributes:
        number: Number of the line, from 1.
    """

    number: int


def record_access(folder: DatasetFolder, access: Access) -> None:
    """Append an access durably; if this fails, the caller hands out nothing.

    Raises:
        AccessDeniedError: The file may not be written, belongs to another account, or is not there
            yet and would belong to another account than the builder's.
        StorageError: The disk is full, or the file system refused.
    """
    path = folder.quarantine_audit
    data = json.dumps(asdict(access), ensure_ascii=True, separators=(",", ":")).encode() + b"\n"
    descriptor = _opened(path, folder)
    try:
        require_private(path, os.fstat(descriptor), owner=folder.path, remedy=_REMEDY)
        # Not every network file system appends atomically, so writers take turns.
        with posix.file_lock(path), posix.map_errors(path):
            faults.point("quarantine.before_access")
            _append(descriptor, data)
            os.fsync(descriptor)
        posix.sync_dir(path.parent)
        faults.point("quarantine.after_access")
    finally:
        os.close(descriptor)


def accesses(folder: DatasetFolder) -> Iterator[Access | DamagedLine]:
    """Yield all accesses in the order of the file, the oldest first; nothing if there is no file.

    Raises:
        AccessDeniedError: Only the account that builds may read the file.
        FormatError: The name is that of no plain file.
    """
    path = folder.quarantine_audit
    if not os.path.lexists(path):
        return
    with open_plain(path, follow=False) as file, posix.map_errors(path):
        require_private(path, os.fstat(file.fileno()), owner=folder.path, remedy=_REMEDY)
        yield from _lines(file)


def _opened(path: Path, folder: DatasetFolder) -> int:
    with posix.map_errors(path), suppress(FileNotFoundError):
        return os.open(path, _APPEND)
    # Made by another account, the file would keep the builder from reading for ever.
    with posix.map_errors(folder.path):
        builder = folder.path.stat().st_uid
    if os.geteuid() != builder:
        raise AccessDeniedError(
            f"{path}: expected the account that owns {folder.path} (uid {builder}), got uid"
            f" {os.geteuid()}, to which the file would belong, because it is not there yet; nothing"
            " was shown; run the command as that account"
        )
    with posix.map_errors(path):
        return os.open(path, _APPEND | os.O_CREAT, PRIVATE_MODE)


def _append(descriptor: int, data: bytes) -> None:
    """Write a line; one that a kill or a full disk has torn before is ended first."""
    size = os.fstat(descriptor).st_size
    if size and os.pread(descriptor, 1, size - 1) != b"\n":
        data = b"\n" + data
    while data:
        data = data[os.write(descriptor, data) :]


def _lines(file: BinaryIO) -> Iterator[Access | DamagedLine]:
    number = 0
    while line := file.readline(_MOST_LINE_BYTES):
        number += 1
        # No reading writes such a line, so it hides none.
        is_too_long = False
        while len(line) == _MOST_LINE_BYTES and not line.endswith(b"\n"):
            is_too_long, line = True, file.readline(_MOST_LINE_BYTES)
        yield DamagedLine(number) if is_too_long else _parsed(line) or DamagedLine(number)


def _parsed(line: bytes) -> Access | None:
    try:
        value = json.loads(line)
        access = Access(**value)
    except (ValueError, TypeError):
        return None
    return access if _is_typed(access) else None


def _is_typed(access: Access) -> bool:
    texts = (access.at, access.account, access.host, access.command)
    names = (access.interval, access.origin, "" if access.reason is None else access.reason)
    numbers = (access.uid, access.records)
    return all(isinstance(each, str) for each in (*texts, *names)) and all(
        type(each) is int for each in numbers
    )


def _short(text: str) -> str:
    """Return the beginning of a text that has a bounded size as JSON."""
    shown = printable(text[:_MOST_TEXT_BYTES])
    while len(json.dumps(shown)) > _MOST_TEXT_BYTES:
        shown = shown[:-1]
    return shown
