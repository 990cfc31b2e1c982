"""Plans of reading processes: at which position each needs which chunk, and how far it is.

A plan is a file that others map: its first line is JSON, then come the positions (int64) and the
chunks (int64) of its rows. It is replaced as a whole when an epoch begins.
"""

from __future__ import annotations

import fcntl
import json
import os
import uuid
import weakref
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trainfeed.errors import FormatError
from trainfeed.files import UnfinishedFile, os_errors, read_plain

# --- A plan, and the distance of every chunk to its next use

_PLAN: Final = ".plan"
# A plan of 2^26 rows: 64 TiB in chunks of 1 MiB.
_MAX_BYTES: Final = 1 << 30
_NEVER: Final = np.iinfo(np.int64).max


@dataclass(frozen=True, eq=False)
class Plan:
    """What one process reads, in the order in which it needs it.

    Attributes:
        parts: Name and number of chunks of each part; the chunks are numbered through over all.
        positions: Where in the process's stream of samples a chunk is needed, ascending, over all
            epochs; shape ``(n,)``.
        chunks: The chunk that is needed there, shape ``(n,)``.
        unit_bytes: Bytes that are fetched for a sample, on average.
    """

    parts: tuple[tuple[str, int], ...]
    positions: NDArray[np.int64]
    chunks: NDArray[np.int64]
    unit_bytes: float

    @property
    def num_chunks(self) -> int:
        """Number of chunks of all parts."""
        return sum(count for _, count in self.parts)

    def to_bytes(self) -> bytes:
        """Return the content of the file."""
        head = {"parts": self.parts, "rows": len(self.positions), "unit_bytes": self.unit_bytes}
        rows = (self.positions.astype("<i8"), self.chunks.astype("<i8"))
        return b"".join([json.dumps(head).encode(), b"\n", *(each.tobytes() for each in rows)])

    @classmethod
    def from_bytes(cls, data: bytes, path: str) -> Plan:
        """Return the plan of a file.

        Raises:
            FormatError: It is none.
        """
        line, _, rest = data.partition(b"\n")
        try:
            head = json.loads(line)
            rows = np.frombuffer(rest, "<i8").reshape(2, int(head["rows"])).astype(np.int64)
            parts = tuple((str(name), int(count)) for name, count in head["parts"])
            plan = cls(parts, rows[0], rows[1], float(head["unit_bytes"]))
        except (KeyError, TypeError, ValueError) as error:
            raise FormatError(f"expected a plan of a reader: {error}", path=path) from error
        if len(plan.chunks) and not 0 <= plan.chunks.min() <= plan.chunks.max() < plan.num_chunks:
            raise FormatError("expected a plan of the chunks of its parts", path=path)
        return plan


class NextUses:
    """The distance of every chunk of a plan to its next use, from a position that moves on.

    Args:
        plan: The plan.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._num_passed = 0
        positions, chunks = plan.positions, plan.chunks
        # For each row the position of the next row with the same chunk.
        order = np.argsort(chunks, kind="stable")
        self._following = np.full(len(chunks), _NEVER)
        same = chunks[order][1:] == chunks[order][:-1]
        self._following[order[:-1][same]] = positions[order][1:][same]
        self._next = np.full(plan.num_chunks, _NEVER)
        # Of several values for one place the last one stays: that of the first row.
        self._next[chunks[::-1]] = positions[::-1]

    def distances(self, now: int) -> NDArray[np.float64]:
        """Return the bytes that are fetched until each chunk is needed, infinite for never.

        Args:
            now: The position; rows before it were read.
        """
        rows = slice(self._num_passed, int(np.searchsorted(self.plan.positions, now)))
        if rows.stop > rows.start:
            self._next[self.plan.chunks[rows]] = self._following[rows]
            self._num_passed = rows.stop
        found = (self._next - np.int64(now)).astype(np.float64)
        found *= self.plan.unit_bytes
        found[self._next == _NEVER] = np.inf
        return found


# --- The files of the processes that use a cache: each holds the lock of its own while it lives


class ReaderFile:
    """The file of this process in ``readers``; others see how far it is, and that it lives.

    Args:
        folder: The folder ``readers`` of the cache.
    """

    def __init__(self, folder: Path) -> None:
        self._path, self._fd = _locked_file(folder)
        self._now: Any = np.memmap(self._path, "<i8", "r+", shape=(1,))
        # Also at the end of the program; only what is killed leaves its file.
        self._finalizer = weakref.finalize(self, _remove, self._path, self._fd, os.getpid())
        _held.add(self)

    @property
    def now(self) -> int:
        """The position before which all was read."""
        return int(self._now[0])

    @now.setter
    def now(self, position: int) -> None:
        self._now[0] = position

    def publish(self, plan: Plan) -> None:
        """Replace the plan.

        Raises:
            StorageError: The file system refused or failed.
        """
        path = self._path.with_name(self._path.name + _PLAN)
        with UnfinishedFile(path, mode=0o600) as new:
            new.file.write(plan.to_bytes())
            new.replace(is_folder_synced=False)

    def close(self) -> None:
        """Remove the files: this process reads no more; safe to call twice."""
        self._finalizer()


def _locked_file(folder: Path) -> tuple[Path, int]:
    while True:
        path = folder / f"{os.getpid()}-{uuid.uuid4().hex}"
        with os_errors(path):
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            os.ftruncate(fd, 8)
            fcntl.flock(fd, fcntl.LOCK_EX)
            # Before it was locked, another process may have taken it for one that a kill has left.
            if path.exists():
                return path, fd
            os.close(fd)


def _remove(path: Path, fd: int, owner: int) -> None:
    """Remove the files of a reader; a fork only closes what it has of them."""
    if os.getpid() == owner:
        for each in (path.with_name(path.name + _PLAN), path):
            with suppress(OSError):
                each.unlink()
    os.close(fd)


_held: Final[weakref.WeakSet[ReaderFile]] = weakref.WeakSet()


def _forget_all() -> None:
    # The parent goes on to hold the locks; with these descriptors a fork would hold them longer.
    for reader in list(_held):
        reader.close()


os.register_at_fork(after_in_child=_forget_all)


class _Known(NamedTuple):
    """A living process, as others see it."""

    mark: tuple[int, int]
    uses: NextUses
    now: NDArray[np.int64]


class Readers:
    """The processes that use a cache.

    Args:
        folder: The folder ``readers`` of the cache.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[str, _Known] = {}

    def has_dead(self) -> bool:
        """Return whether a process ended without removing its file."""
        return not all(map(_is_held, self._files()))

    def remove_dead(self) -> None:
        """Remove the files of processes that ended without it."""
        for path in self._files():
            with suppress(FileNotFoundError):
                fd = os.open(path, os.O_RDONLY)
                try:
                    # Held until it is gone, so a process that has just made it sees that.
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    path.with_name(path.name + _PLAN).unlink(missing_ok=True)
                    path.unlink()
                except BlockingIOError:
                    pass
                finally:
                    os.close(fd)

    def num_living(self) -> int:
        """Return the number of files whose process lives."""
        return sum(map(_is_held, self._files()))

    def distances(self) -> dict[str, NDArray[np.float64]]:
        """Return for each part in a plan of a living process the distances of its chunks."""
        found: dict[str, NDArray[np.float64]] = {}
        living: dict[str, _Known] = {}
        for path in self._files():
            if (known := self._look(path)) is None:
                continue
            living[path.name] = known
            mine = known.uses.distances(int(known.now[0]))
            first = 0
            for name, count in known.uses.plan.parts:
                own = mine[first : first + count]
                first += count
                other = found.get(name)
                if other is None or len(other) != count:
                    found[name] = own
                else:
                    found[name] = np.minimum(other, own)
        self._known = living
        return found

    def _files(self) -> Iterator[Path]:
        with os_errors(self._folder):
            names = sorted(os.listdir(self._folder))  # noqa: PTH208 - names alone are wanted
        return (self._folder / name for name in names if "." not in name)

    def _look(self, path: Path) -> _Known | None:
        plan = path.with_name(path.name + _PLAN)
        # A process without a plan reads what others ask of it, as workers of a loader do; one that
        # ended while its file is looked at has none either.
        with suppress(OSError, FormatError):
            if not _is_held(path):
                return None
            status = plan.stat()
            mark = status.st_ino, status.st_mtime_ns
            known = self._known.get(path.name)
            if known is not None and known.mark == mark:
                return known
            data = read_plain(plan, follow=False, max_bytes=_MAX_BYTES)
            uses = NextUses(Plan.from_bytes(data, str(plan)))
            now: Any = np.memmap(path, "<i8", "r", shape=(1,))
            return _Known(mark, uses, now)
        return None


def _is_held(path: Path) -> bool:
    """Return whether a process holds the lock of a file."""
    try:
        fd = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return True  # it has just ended in order
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False
