"""The shards of versions at a store, read chunk by chunk through the cache of this machine.

Worker processes of a loader get a pickled copy of ``RemoteShards``, so this module imports neither
Arrow nor manifests.
"""

from __future__ import annotations

import errno
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np
from isal import isal_zlib
from numpy.typing import NDArray

from trainfeed.core.thread_ties import new_lock, patience_s
from trainfeed.errors import ChecksumError, FormatError, StorageError, TruncatedError
from trainfeed.files import os_errors
from trainfeed.files.stores import FileSystem, Location
from trainfeed.recordio import ChunkInfo, Codec
from trainfeed.remote.cache import ChunkCache, Claim, Part, cache_at
from trainfeed.remote.plans import Plan
from trainfeed.versions.chunk_index import EXAMPLES, Chunk, ChunkTable, ExampleRun
from trainfeed.versions.chunks import ChunkDecoder

_T = TypeVar("_T")

# --- Shards at a store, as a loader reads files

# Seconds for which a fetch is repeated, unless a loader says otherwise.
_DEADLINE_S: Final = 60.0
_FIRST_WAIT_S: Final = 0.05
_LAST_WAIT_S: Final = 2.0
# How often it is looked whether another process has fetched a chunk.
_LOOK_S: Final = 0.002
_LAST_LOOK_S: Final = 0.05
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
# Files that a thread keeps open at the store.
_MAX_OPEN: Final = 8


class CachePlace(NamedTuple):
    """The cache of a machine.

    Attributes:
        folder: The folder, absolute.
        bound_bytes: Most bytes of chunks in it.
    """

    folder: Path
    bound_bytes: int


class RemoteShards:
    """The shards of a set at a store, by number; threads may share the object.

    Args:
        shards: The places of the shards.
        table: Their chunks.
        parts: Name and number of chunks of each part of the set: the chunks of the table in order.
        place: The cache.
        deadline_s: Seconds for which a fetch is repeated after temporary errors.

    Attributes:
        table: Their chunks.
        paths: The URIs of the shards.
        num_retries: Number of fetches that were repeated.
        num_fetched_bytes: Bytes that this process has fetched.
    """

    def __init__(
        self,
        shards: Sequence[Location],
        table: ChunkTable,
        parts: Sequence[tuple[str, int]],
        place: CachePlace,
        *,
        deadline_s: float = _DEADLINE_S,
    ) -> None:
        self._shards, self.table = list(shards), table
        self._parts, self._place = list(parts), place
        self._deadline_s = deadline_s
        self._start()

    def __getstate__(self) -> dict[str, object]:
        names = ("_shards", "table", "_parts", "_place", "_deadline_s")
        return {name: getattr(self, name) for name in names}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._start()

    def _start(self) -> None:
        table = self.table
        self.paths = [shard.uri for shard in self._shards]
        self.num_retries = self.num_fetched_bytes = 0
        self._heads = np.where(table.codec == EXAMPLES, ExampleRun.head_bytes, ChunkInfo.head_bytes)
        self._lengths = self._heads + table.stored_bytes
        # The first byte of a chunk as a number that grows with the shard, for a look-up.
        keys = _key(table.shard.astype(np.int64), table.offset_bytes)
        self._sorted = np.argsort(keys, kind="stable")
        self._keys = keys[self._sorted]
        self._firsts = np.cumsum([0, *(count for _, count in self._parts)])
        self._lock = new_lock()
        self._stores = _Stores(self._shards)
        self._dropped: set[int] = set()
        self._way: Way | None = None
        self._cached: tuple[ChunkCache, list[Part]] | None = None

    def read(self, shard: int, offset_bytes: int, out: Sequence[memoryview]) -> None:
        """Fill all of ``out`` from ``offset_bytes`` on, within one chunk.

        Raises:
            ChecksumError: The store gave other bytes than those that were published, twice.
            TruncatedError: The shard is shorter than its index says.
            NotFoundError: The shard is gone.
            StorageError: The store or the disk still failed at the deadline.
        """
        chunk = self._chunk_at(shard, offset_bytes)
        start = offset_bytes - int(self.table.offset_bytes[chunk])
        cache, part, number = self._where(chunk)
        with os_errors(part.path(number)):
            fd = cache.open(part, number)
            if fd is not None:
                try:
                    if _fill(fd, start, out):
                        return
                finally:
                    os.close(fd)
                cache.drop(part, number)  # cut by a crash of the machine
            data = self._obtain(chunk)
        for piece in out:
            piece[:] = data[start : start + len(piece)]
            start += len(piece)

    def view(self, shard: int, offset_bytes: int, num_bytes: int) -> memoryview:
        """Return a part of a chunk, in memory of its own; see ``read``."""
        data = memoryview(bytearray(num_bytes))
        self.read(shard, offset_bytes, [data])
        return data

    def expect(self, shard: int, offset_bytes: int, num_bytes: int) -> None:
        """Do nothing: what comes next is fetched along the plan; see ``Way``."""

    def discard(self, shard: int, offset_bytes: int) -> bool:
        """Drop a chunk that cannot be decoded; return whether it is worth another read."""
        chunk = self._chunk_at(shard, offset_bytes)
        with self._lock:
            if chunk in self._dropped:
                return False
            self._dropped.add(chunk)
        cache, part, number = self._where(chunk)
        cache.drop(part, number)
        return True

    def framing(self, chunk: int, decoder: ChunkDecoder) -> memoryview:
        """Return the framing of a chunk of the table, verified, in new memory; see ``read``.

        Raises:
            FormatError: The chunk is damaged.
        """

        def decode(info: Chunk, stored: memoryview) -> memoryview:
            head, payload = stored[: info.head_bytes], stored[info.head_bytes :]
            is_plain = info.codec is Codec.NONE
            out = payload if is_plain else memoryview(bytearray(info.raw_bytes))
            decoder.decode(info, head, payload, out, verify=True)
            return out

        return self.decoded(chunk, decode)

    def decoded(self, chunk: int, decode: Callable[[Chunk, memoryview], _T]) -> _T:
        """Return what a function makes of the bytes of a chunk of the table; see ``read``.

        Args:
            chunk: The chunk.
            decode: Gets entry and bytes, which it may keep; what it finds damaged is read again.

        Raises:
            FormatError: The chunk is damaged.
        """
        info, shard = self.table.info(chunk), int(self.table.shard[chunk])
        while True:
            stored = self.view(shard, info.offset_bytes, int(self._lengths[chunk]))
            try:
                return decode(info, stored)
            except FormatError as error:
                if self.discard(shard, info.offset_bytes):
                    continue
                error.path, error.offset_bytes = self.paths[shard], info.offset_bytes
                raise

    @property
    def first_ordinals(self) -> NDArray[np.int64]:
        """Number in the set of the first sample of each chunk."""
        counts = self.table.num_records
        return np.cumsum(counts) - counts

    @property
    def way(self) -> Way:
        """The way of this process through the chunks."""
        with self._lock:
            if self._way is None or not self._way.is_usable:
                self._way = Way(self)
            return self._way

    def close(self) -> None:
        """End threads and close files; a later read opens them again."""
        with self._lock:
            way, self._way = self._way, None
            self._cached = None
        if way is not None:
            way.close()
        self._stores.close()

    # --- For the way through the chunks

    def plan(self, positions: NDArray[np.int64], chunks: NDArray[np.int64]) -> Plan:
        """Return a plan of chunks of the set; see ``Plan``."""
        return Plan(tuple(self._parts), positions, chunks, self.unit_bytes())

    def lengths(self, chunks: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the bytes that are fetched for chunks."""
        return self._lengths[chunks]

    def unit_bytes(self) -> float:
        """Return the bytes that are fetched for a sample, on average."""
        return float(self._lengths.sum()) / max(1, int(self.table.num_records.sum()))

    def cache(self) -> ChunkCache:
        """Return the cache, as this process uses it."""
        return self._open_cache()[0]

    def fetch_ahead(self, chunk: int, distance: Callable[[], float]) -> bool:
        """Fetch a chunk that is needed later, unless it is there, or being fetched.

        Args:
            chunk: The chunk.
            distance: Returns the bytes that are fetched until it is needed, negative if it was.

        Returns:
            False if there is no room without evicting what is needed sooner.
        """
        cache, part, number = self._where(chunk)
        if part.marks[number]:
            return True
        claim = cache.claim(part, number)
        if isinstance(claim, bool):
            return True
        # A thread that was held up here comes when others have fetched, read and evicted the chunk.
        if (far := distance()) < 0:
            cache.give_up(claim)
            return True
        return self._fetch(claim, chunk, far) is not None

    # --- The cache, and the store behind it

    def _obtain(self, chunk: int) -> memoryview:
        """Return a chunk that is needed now: fetched here, or by who fetches it already."""
        cache, part, number = self._where(chunk)
        end_s, look_s = time.monotonic() + self._deadline_s, _LOOK_S
        while True:
            try:
                claim = cache.claim(part, number)
            except OSError as error:
                if error.errno not in _FULL:
                    raise
                return self._download(chunk)
            if isinstance(claim, Claim):
                found = self._fetch(claim, chunk, None)
            elif claim:
                found = self._cached_chunk(chunk)
            elif time.monotonic() > end_s:
                found = self._download(chunk)  # whoever fetches it hangs, or was stopped
            else:
                threading.Event().wait(look_s)
                look_s, found = min(2 * look_s, _LAST_LOOK_S), None
            if found is not None:
                return found

    def _cached_chunk(self, chunk: int) -> memoryview | None:
        cache, part, number = self._where(chunk)
        if (fd := cache.open(part, number)) is None:
            return None
        data = memoryview(bytearray(int(self._lengths[chunk])))
        try:
            if _fill(fd, 0, [data]):
                return data
        finally:
            os.close(fd)
        cache.drop(part, number)
        return None

    def _fetch(self, claim: Claim, chunk: int, distance: float | None) -> memoryview | None:
        """Fetch a claimed chunk; None if it is not needed now, and there is no room."""
        cache = self.cache()
        num_bytes = int(self._lengths[chunk])
        reserved = 0
        try:
            if cache.reserve(claim, num_bytes, distance):
                reserved = num_bytes
            elif distance is not None:
                cache.give_up(claim)
                return None
            data = self._download(chunk)
        except BaseException:
            cache.give_up(claim, reserved)
            raise
        if reserved:
            cache.keep(claim, data)
        else:
            cache.give_up(claim)
        return data

    def _download(self, chunk: int) -> memoryview:
        """Return a chunk from the store; one that differs from the index is fetched twice."""
        try:
            return self._checked(chunk)
        except FormatError:
            with self._lock:
                self.num_retries += 1
        return self._checked(chunk)

    def _checked(self, chunk: int) -> memoryview:
        data = self._from_store(chunk)
        info, head_bytes = self.table.info(chunk), int(self._heads[chunk])
        where = {
            "path": self.paths[int(self.table.shard[chunk])],
            "offset_bytes": info.offset_bytes,
        }
        note = "it was fetched twice; compare the shard with its digest in the manifest"
        crc32 = isal_zlib.crc32(data[head_bytes:])
        if crc32 != info.crc32:
            raise ChecksumError(
                f"expected CRC-32 {info.crc32:#010x}, got {crc32:#010x}: {note}",
                **where,  # type: ignore[arg-type]
            )
        if isinstance(info, ChunkInfo) and data[:head_bytes] != info.header:
            raise FormatError(
                f"expected the head of the chunk of the index, got another: {note}",
                **where,  # type: ignore[arg-type]
            )
        return data

    def _from_store(self, chunk: int) -> memoryview:
        shard, offset_bytes = int(self.table.shard[chunk]), int(self.table.offset_bytes[chunk])
        data = memoryview(bytearray(int(self._lengths[chunk])))
        end_s, wait_s = time.monotonic() + self._deadline_s, _FIRST_WAIT_S
        while True:
            try:
                self._stores.read(shard, offset_bytes, data)
            except StorageError as error:
                # The other kinds say that the next try would end alike.
                if type(error) is not StorageError or time.monotonic() + wait_s > end_s:
                    raise
            else:
                with self._lock:
                    self.num_fetched_bytes += len(data)
                return data
            threading.Event().wait(wait_s)
            wait_s = min(2 * wait_s, _LAST_WAIT_S)
            with self._lock:
                self.num_retries += 1

    def _chunk_at(self, shard: int, offset_bytes: int) -> int:
        place = int(np.searchsorted(self._keys, _key(shard, offset_bytes), side="right")) - 1
        return int(self._sorted[place])

    def _where(self, chunk: int) -> tuple[ChunkCache, Part, int]:
        """Return the cache, and the part with the number of a chunk in it."""
        cache, parts = self._open_cache()
        place = int(np.searchsorted(self._firsts, chunk, side="right")) - 1
        return cache, parts[place], chunk - int(self._firsts[place])

    def _open_cache(self) -> tuple[ChunkCache, list[Part]]:
        found = self._cached
        if found is None or not found[0].is_usable:
            cache = cache_at(*self._place)
            largest = int(self._lengths.max(initial=0))
            parts = [cache.part(name, count, largest) for name, count in self._parts]
            found = self._cached = cache, parts
        return found


def _key(
    shard: NDArray[np.int64] | int, offset_bytes: NDArray[np.int64] | int
) -> NDArray[np.int64]:
    return np.asarray(shard, np.int64) * (1 << 44) + offset_bytes


def _fill(fd: int, start: int, out: Sequence[memoryview]) -> bool:
    """Fill all of ``out`` from a file; return whether it is long enough."""
    parts = [part for part in out if len(part)]
    while parts:
        if not (count := os.preadv(fd, parts, start)):
            return False
        start += count
        while parts and count >= len(parts[0]):
            count -= len(parts.pop(0))
        if count:
            parts[0] = parts[0][count:]
    return True


@runtime_checkable
class RangedStore(Protocol):
    """A file system whose files need not be opened one by one, as that behind https."""

    def connect(self) -> Ranges:
        """Return what reads ranges of any file; for one thread at a time."""


class Ranges(Protocol):
    """Ranges of files, as one thread reads them."""

    def read_into(self, path: str, offset_bytes: int, out: memoryview, /) -> None:
        """Fill all of ``out`` from a file.

        Raises:
            TruncatedError: The file ends before.
            StorageError: The store refused or failed.
        """

    def close(self) -> None:
        """Close connections; a later read opens others."""


class _OpenedFiles:
    """Ranges of files of a store that opens them one by one, the last ones kept open."""

    def __init__(self, fs: FileSystem) -> None:
        self._fs = fs
        self._files: OrderedDict[str, BinaryIO] = OrderedDict()

    def read_into(self, path: str, offset_bytes: int, out: memoryview, /) -> None:
        file = self._files.get(path)
        if file is None:
            while len(self._files) >= _MAX_OPEN:
                _close(self._files.popitem(last=False)[1])
            file = self._files[path] = self._fs.open_read(path)
        self._files.move_to_end(path)
        # Below the buffer, which would fetch more than was asked for.
        raw: Any = getattr(file, "raw", file)
        raw.seek(offset_bytes)
        done = 0
        while done < len(out):
            if not (count := raw.readinto(out[done:])):
                raise TruncatedError(
                    f"expected {len(out)} bytes of a chunk, the shard has {done}",
                    path=self._fs.uri(path),
                    offset_bytes=offset_bytes,
                )
            done += count

    def close(self) -> None:
        while self._files:
            _close(self._files.popitem()[1])


class _Stores:
    """The stores of shards, as each thread reads them.

    Args:
        shards: The places of the files.
    """

    def __init__(self, shards: Sequence[Location]) -> None:
        self._shards = shards
        self._lock = new_lock()
        self._all: list[Ranges] = []
        self._own = threading.local()
        self._owner = os.getpid()

    def read(self, shard: int, offset_bytes: int, out: memoryview) -> None:
        """Fill all of ``out`` from a shard; see ``Ranges``. After an error all begins anew."""
        place = self._shards[shard]
        ranges = self._ranges(place.fs)
        try:
            ranges.read_into(place.path, offset_bytes, out)
        except BaseException:
            ranges.close()
            raise

    def close(self) -> None:
        """Close the files and connections of all threads."""
        with self._lock:
            threads, self._all = self._all, []
            self._own = threading.local()
        for ranges in threads:
            ranges.close()

    def _ranges(self, fs: FileSystem) -> Ranges:
        with self._lock:
            if os.getpid() != self._owner:
                # A fork would read what its parent has asked for: the connections are the same.
                self._all, self._own, self._owner = [], threading.local(), os.getpid()
        known: dict[FileSystem, Ranges] | None = getattr(self._own, "known", None)
        if known is None:
            known = self._own.known = {}
        ranges = known.get(fs)
        if ranges is None:
            ranges = fs.connect() if isinstance(fs, RangedStore) else _OpenedFiles(fs)
            known[fs] = ranges
            with self._lock:
                self._all.append(ranges)
        return ranges


def _close(file: BinaryIO) -> None:
    with suppress(StorageError, OSError):
        file.close()


# --- A way through the chunks: published for other processes, and fetched ahead

# Requests of one process at once: enough for 200 MB/s at 40 ms with chunks of 1 MiB.
_NUM_FETCHING: Final = 8
_AHEAD_BYTES: Final = 256 << 20
_AHEAD_SHARE: Final = 8
# After a fetch that failed, and while there is no room; the loader raises what stays wrong.
_PAUSE_S: Final = 0.2
_JOIN_S: Final = 1.0


class _Rows(NamedTuple):
    """Chunks in the order of need; see ``Way.begin``."""

    positions: NDArray[np.int64]
    chunks: NDArray[np.int64]


class Way:
    """The way of one process through the chunks of a set.

    Args:
        shards: The set.
    """

    def __init__(self, shards: RemoteShards) -> None:
        self._shards = shards
        self._reader = shards.cache().reader()
        self._unit_bytes = shards.unit_bytes()
        self._changed = threading.Condition()
        self._threads: list[threading.Thread] = []
        self._rows = _Rows(np.zeros(0, np.int64), np.zeros(0, np.int64))
        self._bytes_before = np.zeros(1, np.int64)
        self._num_passed = self._num_begun = 0
        self._run = 0
        self._owner = os.getpid()
        # What waits to be read takes room from what a later epoch would find.
        self._most_bytes = min(_AHEAD_BYTES, shards.cache().bound_bytes // _AHEAD_SHARE)

    @property
    def is_usable(self) -> bool:
        """Whether this process began the way."""
        return os.getpid() == self._owner

    def begin(self, positions: NDArray[np.int64], chunks: NDArray[np.int64], position: int) -> None:
        """Publish what is read from a position on, and begin to fetch it.

        Args:
            positions: Where in the stream of samples each chunk is needed, ascending, shape (n,).
            chunks: The chunks, shape (n,).
            position: The position.
        """
        rows = _Rows(positions, chunks)
        self._reader.now = position
        self._reader.publish(self._shards.plan(positions, chunks))
        lengths = self._shards.lengths(rows.chunks)
        with self._changed:
            self._rows = rows
            self._bytes_before = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
            self._num_passed = self._num_begun = int(np.searchsorted(rows.positions, position))
            self._changed.notify_all()
            if not self._threads:
                self._start_threads()

    def passed(self, position: int) -> None:
        """Tell that all before a position was read."""
        self._reader.now = position
        with self._changed:
            passed = int(np.searchsorted(self._rows.positions, position))
            if passed != self._num_passed:
                self._num_passed = passed
                self._num_begun = max(self._num_begun, passed)
                self._changed.notify_all()

    def pause(self) -> None:
        """Stop fetching; the plan stays, for the pass that comes next."""
        if not self.is_usable:
            return
        with self._changed:
            threads, self._threads = self._threads, []
            self._run += 1
            self._changed.notify_all()
        end_s = time.monotonic() + patience_s(_JOIN_S)
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join(max(0.0, end_s - time.monotonic()))

    def close(self) -> None:
        """Stop fetching, and take the plan back."""
        self.pause()
        self._reader.close()

    def _start_threads(self) -> None:
        for _ in range(_NUM_FETCHING):
            thread = threading.Thread(
                target=self._work, args=[self._run], name="trainfeed-fetch", daemon=True
            )
            self._threads.append(thread)
            thread.start()

    def _work(self, run: int) -> None:
        while (found := self._next(run)) is not None:
            row, rows = found
            try:
                distance = partial(self._distance, rows.positions[row])
                is_done = self._shards.fetch_ahead(int(rows.chunks[row]), distance)
            except Exception:  # noqa: BLE001 - the loader reads the chunk itself, and raises
                is_done = True
                self._wait(run)
            if not is_done:
                self._wait(run)
                with self._changed:
                    if rows is self._rows:
                        self._num_begun = max(self._num_passed, min(self._num_begun, row))

    def _distance(self, position: np.int64) -> float:
        """Return the bytes that are fetched until a position, negative for one that was passed."""
        return float(position - self._reader.now) * self._unit_bytes

    def _next(self, run: int) -> tuple[int, _Rows] | None:
        """Return the next row that is near enough; None when this run of threads ends."""
        with self._changed:
            while run == self._run:
                row = self._num_begun
                if row < len(self._rows.chunks):
                    ahead = self._bytes_before[row + 1] - self._bytes_before[self._num_passed]
                    if ahead <= self._most_bytes or row == self._num_passed:
                        self._num_begun += 1
                        return row, self._rows
                self._changed.wait()
        return None

    def _wait(self, run: int) -> None:
        with self._changed:
            if run == self._run:
                self._changed.wait(_PAUSE_S)
