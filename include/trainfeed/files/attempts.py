"""Reports that an attempt at some work was killed: the next attempt does so.

An attempt has a mark while it runs, and removes the mark at its end. A mark that is found at the
start is therefore that of a killed attempt. The control group, which outlives the process, counts
the processes that the kernel has killed for want of memory. On another host, and in a restarted
container, that count is not available, and the log says so.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from trainfeed.core import canonical_json
from trainfeed.core.memory_group import KillCount
from trainfeed.core.process_ties import HIDDEN, start_ticks
from trainfeed.errors import NotFoundError, TrainFeedError
from trainfeed.files import write_all
from trainfeed.files.records import record_of
from trainfeed.files.stores import Location

# Folder of the marks of builds, in the work folder.
ATTEMPTS: Final = "attempts"

logger = logging.getLogger(__name__)

_MAX_BYTES: Final = 64 << 10
_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True)
class FoundMark:
    """The mark of an attempt that has not ended in good order, or is still at work.

    Attributes:
        name: Name of the file.
        began: Begin of the attempt, ISO 8601 in UTC.
        host: Name of the machine, with its boot id.
        pid: Id of the process.
        is_at_work: Whether the process lives; None for one of another machine.
    """

    name: str
    began: str
    host: str
    pid: int
    is_at_work: bool | None


def found_marks(folder: Location, names: Iterable[str]) -> list[FoundMark]:
    """Read marks of attempts; one that is gone by now, or damaged, is left out.

    Args:
        folder: Folder of the marks.
        names: Names of the files.

    Raises:
        StorageError: The store refused or failed.
    """
    found = []
    for name in names:
        mark = _read(folder / name)
        if mark is not None:
            here = mark.is_at_work() if mark.host == _host() else None
            found.append(FoundMark(name, mark.began, mark.host, mark.pid, here))
    return found


@contextmanager
def attempt(mark: Location, what: str, remedy: str) -> Iterator[None]:
    """Mark the work of the block as begun; first log a kill of the last attempt, if there was one.

    Marks are only advice: a mark that cannot be read or written is logged, and the work goes on.

    Args:
        mark: File of the mark, for this work alone; it exists while the block runs.
        what: Name of the work, for the log.
        remedy: Advice for the case of too little memory.
    """
    with _as_advice(mark):
        _tell_of_last(mark, what, remedy)
        _write(mark)
    try:
        yield
    finally:
        with _as_advice(mark), suppress(NotFoundError):
            mark.delete()


@dataclass(frozen=True)
class _Mark:
    """The content of a mark.

    Attributes:
        began: Begin of the attempt, ISO 8601 in UTC.
        host: Name and boot id of the machine.
        pid: Id of the process.
        started: Start of the process, in ticks since the boot; tells reused ids apart.
        kills: ``KillCount.counts`` at the begin.
    """

    began: str
    host: str
    pid: int
    started: int | None
    kills: dict[str, int]

    @classmethod
    def of_this_process(cls) -> _Mark:
        pid = os.getpid()
        began = datetime.now(UTC).isoformat(timespec="seconds")
        return cls(began, _host(), pid, start_ticks(pid), KillCount().counts)

    def is_at_work(self) -> bool:
        return self.started is not None and start_ticks(self.pid) in (self.started, HIDDEN)


def _tell_of_last(mark: Location, what: str, remedy: str) -> None:
    last = _read(mark)
    if last is None:
        return
    begin = f"the last attempt at {what}, begun at {last.began} by process {last.pid}"
    if last.host != _host():
        logger.warning(
            "%s on %s, has not ended in good order, or is still at work: it was perhaps killed, and"
            " only that machine knows why; look there with dmesg",
            begin,
            last.host,
        )
    elif last.is_at_work():
        logger.info("%s, is still at work", begin)
    else:
        logger.warning("%s, was killed: %s", begin, _why(last, remedy))


def _why(last: _Mark, remedy: str) -> str:
    grown = KillCount(last.kills).has_grown()
    if grown is None:
        return f"probably by the kernel for want of memory, but there is no counter here; {remedy}"
    if grown:
        return (
            "since then the kernel has ended a process of this control group for want of memory,"
            f" most likely this one; {remedy}"
        )
    return "not by the kernel for want of memory, which has ended no process here since then"


def _read(mark: Location) -> _Mark | None:
    try:
        return record_of(_Mark, canonical_json.loads(mark.read_bytes(max_bytes=_MAX_BYTES)))
    except NotFoundError:
        return None
    except ValueError:
        logger.warning("%s is no mark of an attempt; it is replaced", mark.uri)
        return None


def _write(mark: Location) -> None:
    data = canonical_json.dumps(asdict(_Mark.of_this_process()))
    mark.write_atomic(lambda file: write_all(file, data))


@contextmanager
def _as_advice(mark: Location) -> Iterator[None]:
    try:
        yield
    except TrainFeedError as error:
        logger.info("the next attempt may not know how this one ended: %s: %s", mark.uri, error)


def _host() -> str:
    try:
        boot = _BOOT.read_text().strip()
    except OSError:
        boot = "unknown boot"
    return f"{socket.gethostname()} ({boot})"
