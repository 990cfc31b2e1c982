"""Chunks on local disk: whole or absent, bounded in bytes, shared by the processes of a machine.

::

    state                   format, bound and bytes in use (int64 each); its lock guards all room
    parts/<part>/marks      bytes on disk of each chunk of the part (int32), 0 for an absent one
    parts/<part>/<number>   a chunk
    parts/<part>/<n>.part   a chunk that is being fetched by the process that holds its lock
    readers/…               the processes that use the cache; see ``plans``

At every line a killed process leaves ``state`` and ``marks`` with too much, never with too little.
"""

from __future__ import annotations

import fcntl
import logging
import os
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trainfeed.core import faults
from trainfeed.core.config import PRIVATE_ROOTS
from trainfeed.core.thread_ties import new_lock
from trainfeed.errors import ConfigError, FormatError
from trainfeed.files import make_folders, os_errors
from trainfeed.remote.plans import ReaderFile, Readers

_LOG: Final = logging.getLogger(__name__)

FORMAT: Final = 1
_STATE: Final = "state"
_MARKS: Final = "marks"
_UNFINISHED: Final = ".part"
# Training data may be private: the cache is its owner's.
_FOLDER_MODE: Final = 0o700
_FILE_MODE: Final = 0o600
_BLOCK_BYTES: Final = 4096
# So many victims are chosen at once: one of a small cache, 1/256 of the chunks of a large one.
_SHARE: Final = 256
_CHOSEN_S: Final = 1.0
# A cache must hold the chunks that are being fetched, beside those that are read.
_LEAST_CHUNKS: Final = 4


class Part:
    """The chunks of one split of one version, in a cache.

    Attributes:
        name: Digest that names the part in every cache.
        folder: Its folder.
        marks: Bytes on disk of each chunk, 0 for an absent one; all processes share this memory.
    """

    def __init__(self, name: str, folder: Path, marks: Any) -> None:
        self.name = name
        self.folder = folder
        self.marks: NDArray[np.int32] = marks

    def path(self, chunk: int) -> str:
        """Return the path of a chunk."""
        return f"{self.folder}/{chunk}"


class Claim(NamedTuple):
    """The right to fetch a chunk, held as a lock; see ``ChunkCache.claim``."""

    part: Part
    chunk: int
    fd: int

    @property
    def path(self) -> str:
        """Path of the unfinished file."""
        return self.part.path(self.chunk) + _UNFINISHED


class _Victim(NamedTuple):
    distance: float
    part: Part
    chunk: int


_opened: Final[weakref.WeakSet[ChunkCache]] = weakref.WeakSet()


class ChunkCache:
    """A cache folder, as one process uses it; threads may share the object.

    Args:
        folder: The folder, on a disk of this machine; made if it is missing.
        bound_bytes: Most bytes of chunks on disk, those that are being written included.

    Raises:
        ConfigError: The folder holds something else, is of a newer trainfeed, or is in use with
            another bound.
        StorageError: The file system refused or failed.
    """

    def __init__(self, folder: Path, bound_bytes: int) -> None:
        self.folder = folder
        self.bound_bytes = bound_bytes
        self._lock = new_lock()
        self._parts: dict[str, Part] = {}
        self._victims: list[_Victim] = []
        self._chosen_s = 0.0
        self._is_full = False
        with os_errors(folder):
            make_folders(folder, _FOLDER_MODE)
            _require_cache(folder)
            # First: whoever finds something else in the folder finds this, too.
            self._state_fd = os.open(folder / _STATE, os.O_RDWR | os.O_CREAT, _FILE_MODE)
            for name in ("parts", "readers"):
                make_folders(folder / name, _FOLDER_MODE)
        self._readers = Readers(folder / "readers")
        self._own: ReaderFile | None = None
        self._finalizer = weakref.finalize(self, os.close, self._state_fd)
        with self._locked():
            self._state = self._begin(bound_bytes)
        self._own = ReaderFile(folder / "readers")
        _opened.add(self)

    # --- Parts and their chunks

    def part(self, name: str, num_chunks: int, largest_bytes: int = 0) -> Part:
        """Return a part; its folder is made when it is used first.

        Raises:
            ConfigError: The bound is too small for its chunks.
            FormatError: The cache has a part of this name with another number of chunks.
        """
        if largest_bytes * _LEAST_CHUNKS > self.bound_bytes:
            raise ConfigError(
                f"expected a cache of at least {_LEAST_CHUNKS} chunks, which have up to"
                f" {largest_bytes} bytes, got {self.bound_bytes} bytes for {self.folder}; raise"
                " cache_bytes or TRAINFEED_CACHE_BYTES"
            )
        with self._lock:
            part = self._parts.get(name) or self._open_part(name, num_chunks)
        if len(part.marks) != num_chunks:
            raise FormatError(
                f"expected a part of {num_chunks} chunks, the cache has {len(part.marks)}; remove"
                " this folder while nothing reads through the cache",
                path=str(part.folder),
            )
        return part

    def open(self, part: Part, chunk: int) -> int | None:
        """Open a chunk for reading; None if it is absent. The caller closes the descriptor.

        A chunk that is evicted stays readable through the descriptor.
        """
        try:
            return os.open(part.path(chunk), os.O_RDONLY)
        except FileNotFoundError:
            return None

    def claim(self, part: Part, chunk: int) -> Claim | bool:
        """Begin to fetch a chunk.

        Returns:
            The claim, which ``keep`` or ``give_up`` ends; True if the chunk is there by now; False
            if another process or thread fetches it.
        """
        while True:
            claim = Claim(part, chunk, -1)
            fd = os.open(claim.path, os.O_RDWR | os.O_CREAT, _FILE_MODE)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(fd)
                return False
            if not _is_named(fd, claim.path):
                os.close(fd)  # it was finished, or removed, before the lock was free
                continue
            claim = claim._replace(fd=fd)
            if Path(part.path(chunk)).exists():
                self._end(claim)
                return True
            os.ftruncate(fd, 0)  # what a killed process has left
            return claim

    def reserve(self, claim: Claim, num_bytes: int, distance: float | None = None) -> bool:
        """Make room for a claimed chunk.

        Args:
            claim: The claim.
            num_bytes: Size of the chunk.
            distance: Bytes that are fetched until it is needed: nothing that is needed sooner is
                evicted. None if it is needed now.

        Returns:
            Whether there is room.
        """
        size = _room_of(num_bytes)
        with self._locked():
            if not self._make_room(size, distance):
                return False
            self._state[2] += size
            faults.point("cache.counted")
            # A reservation can be told by its length.
            os.ftruncate(claim.fd, num_bytes)
        faults.point("cache.reserved")
        return True

    def keep(self, claim: Claim, data: memoryview) -> bool:
        """Write a chunk for which room was reserved, and give it its name.

        Returns:
            Whether it was written; False if the disk is full, which is logged once.
        """
        try:
            _write(claim.fd, data)
        except OSError as error:
            self.give_up(claim, len(data))
            if not self._is_full:
                _LOG.warning(
                    "%s: a chunk was not kept: %s; chunks are fetched again when they are needed;"
                    " free space, or lower cache_bytes or TRAINFEED_CACHE_BYTES",
                    self.folder,
                    error.strerror,
                )
            self._is_full = True
            return False
        faults.point("cache.written")
        with self._locked():
            claim.part.marks[claim.chunk] = _room_of(len(data))
            faults.point("cache.marked")
            Path(claim.path).rename(claim.part.path(claim.chunk))
        faults.point("cache.named")
        os.close(claim.fd)
        return True

    def give_up(self, claim: Claim, reserved_bytes: int = 0) -> None:
        """End a claim without a chunk.

        Args:
            claim: The claim.
            reserved_bytes: Size for which room was reserved; 0 if none was.
        """
        with self._locked():
            self._end(claim)
            if reserved_bytes:
                self._state[2] -= _room_of(reserved_bytes)

    def drop(self, part: Part, chunk: int) -> None:
        """Remove a chunk, which is damaged."""
        with self._locked():
            self._evict(part, chunk)

    def reader(self) -> ReaderFile:
        """Return a file for a way through chunks; see ``ReaderFile``."""
        return ReaderFile(self.folder / "readers")

    @property
    def used_bytes(self) -> int:
        """Bytes of chunks on disk, as far as they are counted."""
        return int(self._state[2])

    def close(self) -> None:
        """End the use of the cache; safe to call twice."""
        own, self._own = self._own, None
        if own is not None:
            own.close()
        self._finalizer()

    def forget(self) -> None:
        """Close what a fork has of the cache, which it must open anew."""
        self._own = None
        self._finalizer()

    @property
    def is_usable(self) -> bool:
        """Whether the cache is open, in this process."""
        return self._own is not None

    # --- Room

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with self._lock:
            fcntl.flock(self._state_fd, fcntl.LOCK_EX)
            try:
                yield
            finally:
                fcntl.flock(self._state_fd, fcntl.LOCK_UN)

    def _begin(self, bound_bytes: int) -> Any:
        """Return the state as shared memory, after what killed processes have left is counted."""
        path = self.folder / _STATE
        if not os.fstat(self._state_fd).st_size:
            os.pwrite(self._state_fd, np.array([FORMAT, bound_bytes, 0], "<i8").tobytes(), 0)
        state = np.memmap(path, "<i8", "r+", shape=(3,))
        self._state = state
        if state[0] != FORMAT:
            raise ConfigError(
                f"expected a cache of format {FORMAT}, got {state[0]} in {path}; a newer trainfeed"
                " made it: name another folder"
            )
        if state[1] != bound_bytes:
            if self._readers.num_living():
                raise ConfigError(
                    f"expected a bound of {state[1]} bytes, with which others use the cache"
                    f" {self.folder} now, got {bound_bytes}; give the same cache_bytes or"
                    " TRAINFEED_CACHE_BYTES, or name another folder"
                )
            state[1] = bound_bytes
        if self._readers.has_dead():
            self._recount()
        return state

    def _make_room(self, size: int, distance: float | None) -> bool:
        """Evict what is needed last until there is room; return whether there is."""
        while self._state[2] + size > self._state[1]:
            if not self._victims or time.monotonic() > self._chosen_s + _CHOSEN_S:
                self._choose()
            if not self._victims:
                return False
            victim = self._victims[-1]
            if distance is not None and victim.distance <= distance:
                self._victims.clear()  # until the next call, others may have become farther
                return False
            self._victims.pop()
            self._evict(victim.part, victim.chunk)
        return True

    def _choose(self) -> None:
        """Choose the chunks whose next use is farthest, in ascending order."""
        if self._readers.has_dead():
            self._recount()
        distances = self._readers.distances()
        parts = self._all_parts()
        found = [(np.zeros(0), np.zeros(0, np.int64), np.zeros(0, np.int64))]
        for number, part in enumerate(parts):
            chunks = np.flatnonzero(part.marks)
            far = distances.get(part.name)
            known = far is not None and len(far) == len(part.marks)
            mine = far[chunks] if known and far is not None else np.full(len(chunks), np.inf)
            found.append((mine, np.full(len(chunks), number), chunks))
        far, where, chunks = (np.concatenate(each) for each in zip(*found, strict=True))
        count = max(1, len(far) // _SHARE)
        # Among chunks that nobody needs, those of parts that changed longest ago come last here.
        order = np.lexsort((chunks, where, far))[-count:]
        self._victims = [
            _Victim(float(far[i]), parts[int(where[i])], int(chunks[i])) for i in order.tolist()
        ]
        self._chosen_s = time.monotonic()

    def _evict(self, part: Part, chunk: int) -> None:
        """Remove a chunk, if it is there; room is counted as free last."""
        size = int(part.marks[chunk])
        with suppress(FileNotFoundError):
            Path(part.path(chunk)).unlink()
        faults.point("cache.evicted")
        part.marks[chunk] = 0
        self._state[2] -= size

    def _recount(self) -> None:
        """Count what is there, and remove what killed processes have left."""
        total = 0
        for part in self._all_parts():
            marks = np.zeros(len(part.marks), np.int32)
            for entry in os.scandir(part.folder):
                if entry.name.isdigit() and int(entry.name) < len(marks):
                    marks[int(entry.name)] = _room_of(entry.stat().st_size)
                elif entry.name.endswith(_UNFINISHED):
                    total += _size_if_fetched(entry.path)
            part.marks[:] = marks
            total += int(marks.sum(dtype=np.int64))
        self._state[2] = total
        # Last: a process that is killed here leaves the files, and the next one counts again.
        self._readers.remove_dead()

    def _all_parts(self) -> list[Part]:
        """Return all parts of the cache, those that changed last first."""
        ages: list[tuple[int, Part]] = []
        with os.scandir(self.folder / "parts") as entries:
            for entry in entries:
                # One without marks was being made when its process was killed, or is now.
                with suppress(FileNotFoundError):
                    changed = entry.stat().st_mtime_ns
                    part = self._parts.get(entry.name) or self._open_part(entry.name, None)
                    ages.append((changed, part))
        return [part for _, part in sorted(ages, key=lambda each: (-each[0], each[1].name))]

    def _open_part(self, name: str, num_chunks: int | None) -> Part:
        folder = self.folder / "parts" / name
        path = folder / _MARKS
        if num_chunks is not None and not path.exists():
            with os_errors(folder):
                make_folders(folder, _FOLDER_MODE)
                new = folder / f"{_MARKS}.{os.getpid()}.{time.monotonic_ns()}"
                with new.open("xb") as file:
                    file.truncate(4 * max(1, num_chunks))
                # Of two processes at once one makes the file, and both use it.
                with suppress(FileExistsError):
                    path.hardlink_to(new)
                new.unlink()
        size = path.stat().st_size // 4
        marks: Any = np.memmap(path, "<i4", "r+", shape=(size,))
        part = self._parts[name] = Part(name, folder, marks)
        return part

    def _end(self, claim: Claim) -> None:
        with suppress(FileNotFoundError):
            Path(claim.path).unlink()
        os.close(claim.fd)


def _require_cache(folder: Path) -> None:
    """Refuse a folder that holds something else, before anything is made or removed there."""
    # Private copies of roots in buckets may be there first.
    names = {path.name for path in folder.iterdir()} - {PRIVATE_ROOTS}
    if names and _STATE not in names:
        raise ConfigError(
            f"expected an empty folder for a cache, or one that is a cache, got {folder}, which"
            " holds other files; nothing was changed; name another folder"
        )


def _room_of(num_bytes: int) -> int:
    """Return the bytes that a file takes on disk."""
    return -(-num_bytes // _BLOCK_BYTES) * _BLOCK_BYTES


def _is_named(fd: int, path: str) -> bool:
    """Return whether an open file still has a name."""
    try:
        found = Path(path).stat()
    except FileNotFoundError:
        return False
    return os.path.samestat(found, os.fstat(fd))


def _size_if_fetched(path: str) -> int:
    """Return the room that a living process has reserved; remove what a killed one has left."""
    try:
        fd = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return 0
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return _room_of(os.fstat(fd).st_size)
    else:
        if _is_named(fd, path):
            Path(path).unlink()
        return 0
    finally:
        os.close(fd)


def _write(fd: int, data: memoryview) -> None:
    done = 0
    while done < len(data):
        done += os.pwrite(fd, data[done:], done)


# --- The caches of this process, one for a folder, each for as long as something reads through it

_caches: Final[weakref.WeakValueDictionary[Path, ChunkCache]] = weakref.WeakValueDictionary()
_caches_lock: Final = new_lock()


def cache_at(folder: Path, bound_bytes: int) -> ChunkCache:
    """Return the cache of a folder, which all readers of this process share.

    Raises:
        ConfigError: As ``ChunkCache``; or this process uses it with another bound.
        StorageError: The file system refused or failed.
    """
    with _caches_lock:
        found = _caches.get(folder)
        if found is None or not found.is_usable:
            found = _caches[folder] = ChunkCache(folder, bound_bytes)
    if found.bound_bytes != bound_bytes:
        raise ConfigError(
            f"expected one bound for the cache {folder} in a process, got {found.bound_bytes} and"
            f" {bound_bytes} bytes"
        )
    return found


def _forget_all() -> None:
    for cache in list(_opened):
        cache.forget()
    _caches.clear()


os.register_at_fork(after_in_child=_forget_all)
