"""Reads and decompresses many chunks in a given order, in one thread or ahead in several."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from queue import SimpleQueue
from typing import Final, Generic, NamedTuple, TypeVar

from trainfeed.errors import ConfigError
from trainfeed.paths import path_of
from trainfeed.recordio._byte_source import ReadableFile, open_source
from trainfeed.recordio._chunk import ChunkBuffers, ChunkReader
from trainfeed.recordio._recordio_format import MAX_RAW_BYTES, ChunkInfo, located

__all__ = ["BufferPool", "ChunkPlace", "decode_chunks", "read_chunks"]

_T = TypeVar("_T")

# Number of chunks per thread that may be decoded before they are requested.
_AHEAD: Final = 2


class ChunkPlace(NamedTuple):
    """A chunk of a file.

    Attributes:
        file: A path or a mapped file; a binary file only with one thread.
        info: Entry of the chunk in an index.
        number: Number of the chunk in the file, for messages; None when unknown.
    """

    file: ReadableFile
    info: ChunkInfo
    number: int | None = None

    def located(self) -> AbstractContextManager[None]:
        """Add file, byte offset and chunk number to the format errors of a block."""
        return located(path_of(self.file), self.info.offset_bytes, self.number)


class BufferPool:
    """Memory for chunks, shared by several calls of ``read_chunks``.

    New memory costs a page fault per 4 KiB, which can take longer than reading. Threads may share
    the object.
    """

    def __init__(self) -> None:
        self._free: list[ChunkBuffers] = []

    def take(self) -> ChunkBuffers:
        """Return unused buffers, new ones if there are none."""
        try:
            return self._free.pop()
        except IndexError:
            return ChunkBuffers()

    def give(self, buffers: ChunkBuffers) -> None:
        """Give ``buffers`` back for further use."""
        self._free.append(buffers)


def read_chunks(
    places: Iterable[ChunkPlace],
    *,
    threads: int = 1,
    lend: bool = True,
    max_raw_bytes: int = MAX_RAW_BYTES,
    pool: BufferPool | None = None,
) -> Iterator[tuple[ChunkPlace, memoryview]]:
    """Read the chunks that indexes describe.

    Args:
        places: The chunks; iterated in the caller's thread. Each thread keeps the file of its
            latest chunk open, so the chunks of one file should follow each other.
        threads: Number of chunks that are read and decompressed at once. More than one thread
            reads ahead of the caller, by up to two chunks per thread.
        lend: Whether memory is used again; otherwise every framing has memory of its own.
        max_raw_bytes: Limit for the bytes of a chunk's framing; a larger chunk is refused.
        pool: Source of lent memory; takes it back at the end.

    Yields:
        Each chunk and its framing, with verified checksum and length, in the order of ``places``.
        A lent framing is valid until the next one is requested; that of an uncompressed chunk in a
        mapped file stays valid.

    Raises:
        TruncatedError: A file ends inside a chunk.
        ChecksumError: A payload is damaged.
        FormatError: A file and its index differ, or a chunk is larger than allowed.
        ConfigError: ``threads`` is below 1.
    """
    lent = (pool or BufferPool()) if lend else None

    def read(
        desk: _Desk, _number: int, place: ChunkPlace
    ) -> tuple[ChunkPlace, memoryview, ChunkBuffers]:
        buffers = lent.take() if lent else ChunkBuffers()
        return place, desk.read(place, buffers), buffers

    for place, framing, buffers in _each(places, read, threads, max_raw_bytes):
        yield place, framing
        if lent:
            lent.give(buffers)


def decode_chunks(
    places: Iterable[ChunkPlace],
    decode: Callable[[int, memoryview], _T],
    *,
    threads: int = 1,
    max_raw_bytes: int = MAX_RAW_BYTES,
    pool: BufferPool | None = None,
) -> Iterator[_T]:
    """Read the chunks that indexes describe, and decode each in the thread that read it.

    Args:
        places: See ``read_chunks``.
        decode: Function from the number of a place in ``places`` and its framing to the result.
        threads: See ``read_chunks``; ``decode`` is called in these threads.
        max_raw_bytes: See ``read_chunks``.
        pool: Source of the framings' memory, which goes back when ``decode`` returns. With None
            every framing has memory of its own, so results may hold views of it.

    Yields:
        The result of ``decode`` for each chunk, in the order of ``places``.

    Raises:
        TruncatedError: A file ends inside a chunk.
        ChecksumError: A payload is damaged.
        FormatError: A file and its index differ, or a chunk is larger than allowed.
        ConfigError: ``threads`` is below 1.
    """

    def work(desk: _Desk, number: int, place: ChunkPlace) -> _T:
        buffers = pool.take() if pool else ChunkBuffers()
        decoded = decode(number, desk.read(place, buffers))
        if pool:
            pool.give(buffers)
        return decoded

    return _each(places, work, threads, max_raw_bytes)


def _each(
    places: Iterable[ChunkPlace],
    work: Callable[[_Desk, int, ChunkPlace], _T],
    threads: int,
    max_raw_bytes: int,
) -> Iterator[_T]:
    """Yield the result of ``work`` for each place, in order."""
    if threads < 1:
        raise ConfigError(f"expected at least 1 thread, got {threads}")
    with ExitStack() as closing:
        desks = [_Desk(max_raw_bytes) for _ in range(threads)]
        for desk in desks:
            closing.callback(desk.close)
        if threads == 1:
            yield from (work(desks[0], number, place) for number, place in enumerate(places))
        else:
            executor = closing.enter_context(ThreadPoolExecutor(threads, "chunks"))
            yield from _Ahead(executor, desks, work).iterate(places)


class _Desk:
    """Reads chunks for one thread, and keeps the file of the latest chunk open."""

    def __init__(self, max_raw_bytes: int) -> None:
        self._max_raw_bytes = max_raw_bytes
        self._file: ReadableFile | None = None
        self._closing = ExitStack()

    def read(self, place: ChunkPlace, buffers: ChunkBuffers) -> memoryview:
        """Return the framing of a chunk."""
        if place.file is not self._file:
            self.close()
            self._source = self._closing.enter_context(open_source(place.file))
            self._file = place.file
        reader = ChunkReader(self._source, buffers, self._max_raw_bytes)
        with located(self._source.path, place.info.offset_bytes, place.number):
            return reader.read_known(place.info)

    def close(self) -> None:
        """Close the file."""
        self._file = None
        self._closing.close()


class _Ahead(Generic[_T]):
    """Runs ``work`` for the next chunks in threads; each call takes a free ``_Desk``."""

    def __init__(
        self,
        executor: ThreadPoolExecutor,
        desks: list[_Desk],
        work: Callable[[_Desk, int, ChunkPlace], _T],
    ) -> None:
        self._executor = executor
        self._work = work
        self._num_ahead = _AHEAD * len(desks)
        self._desks: SimpleQueue[_Desk] = SimpleQueue()
        for desk in desks:
            self._desks.put(desk)

    def iterate(self, places: Iterable[ChunkPlace]) -> Iterator[_T]:
        """Yield the results of the chunks, in order."""
        pending: deque[Future[_T]] = deque()
        try:
            for number, place in enumerate(places):
                pending.append(self._executor.submit(self._do, number, place))
                if len(pending) > self._num_ahead:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()

    def _do(self, number: int, place: ChunkPlace) -> _T:
        # There are as many desks as threads, so one is always free here.
        desk = self._desks.get_nowait()
        try:
            return self._work(desk, number, place)
        finally:
            self._desks.put(desk)
