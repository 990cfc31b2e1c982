"""Many chunks in a given order, read and decompressed by one thread or by several ahead."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from queue import SimpleQueue
from typing import Final, NamedTuple

from trainfeed.errors import ConfigError
from trainfeed.recordio._chunk import ChunkBuffers, ChunkReader
from trainfeed.recordio._files import ReadableFile, open_source
from trainfeed.recordio._format import MAX_RAW_BYTES, ChunkInfo, located

__all__ = ["BufferPool", "ChunkPlace", "read_chunks"]

# How many chunks per thread may be decoded before they are asked for.
_AHEAD: Final = 2


class ChunkPlace(NamedTuple):
    """A chunk of a file.

    Attributes:
        file: Best a path or a mapped file; a binary file only with one thread.
        info: What an index says about the chunk.
        number: Its number in the file, for messages; None when unknown.
    """

    file: ReadableFile
    info: ChunkInfo
    number: int | None = None


class BufferPool:
    """Memory for chunks that several calls of ``read_chunks`` use one after another.

    Memory that is new costs a page fault per 4 KiB, which can cost more than reading. Threads may
    share it.
    """

    def __init__(self) -> None:
        self._free: list[ChunkBuffers] = []

    def take(self) -> ChunkBuffers:
        """Return buffers that nobody uses."""
        try:
            return self._free.pop()
        except IndexError:
            return ChunkBuffers()

    def give(self, buffers: ChunkBuffers) -> None:
        """Let others have ``buffers``."""
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
        places: The chunks. Each thread keeps the file of its latest chunk open, so chunks of one
            file best follow each other. It is iterated in the caller's thread.
        threads: How many chunks are read and decompressed at once. With more than one they are
            ahead of the caller, by up to two chunks each.
        lend: Memory is used again and again; otherwise every framing is the caller's own.
        max_raw_bytes: Refuse a chunk whose framing is longer.
        pool: Where memory that is lent comes from, and goes to at the end.

    Yields:
        Each chunk and its framing, whose checksum and length were verified, in the order of
        ``places``. A framing that is lent is valid until the next one is asked for, unless it is
        stored uncompressed in a mapped file: then it stays valid.

    Raises:
        TruncatedError: A file ends inside a chunk.
        ChecksumError: A payload is damaged.
        FormatError: A file and its index differ, or a chunk is larger than allowed.
        ConfigError: ``threads`` is below 1.
    """
    if threads < 1:
        raise ConfigError(f"expected at least 1 thread, got {threads}")
    with ExitStack() as closing:
        desks = [_Desk(max_raw_bytes) for _ in range(threads)]
        for desk in desks:
            closing.callback(desk.close)
        lent = (pool or BufferPool()) if lend else None
        if threads == 1:
            buffers = lent.take() if lent else None
            for place in places:
                yield place, desks[0].read(place, buffers or ChunkBuffers())
            if lent and buffers:
                lent.give(buffers)
        else:
            executor = closing.enter_context(ThreadPoolExecutor(threads, "chunks"))
            yield from _Ahead(executor, desks, lent).iterate(places)


class _Desk:
    """Where one thread works: keeps a file open."""

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


class _Ahead:
    """Keeps threads busy with the chunks that come next.

    A thread takes a desk and buffers; the desk goes back when the chunk is decoded, the buffers
    when the caller asks for the chunk after it.
    """

    def __init__(
        self, executor: ThreadPoolExecutor, desks: list[_Desk], pool: BufferPool | None
    ) -> None:
        self._executor = executor
        self._pool = pool
        self._num_ahead = _AHEAD * len(desks)
        self._desks: SimpleQueue[_Desk] = SimpleQueue()
        for desk in desks:
            self._desks.put(desk)

    def iterate(self, places: Iterable[ChunkPlace]) -> Iterator[tuple[ChunkPlace, memoryview]]:
        """Yield chunks and framings in order."""
        pending: deque[tuple[ChunkPlace, ChunkBuffers, Future[memoryview]]] = deque()
        try:
            for place in places:
                buffers = self._pool.take() if self._pool else ChunkBuffers()
                future = self._executor.submit(self._decode, place, buffers)
                pending.append((place, buffers, future))
                if len(pending) > self._num_ahead:
                    yield from self._first_of(pending)
            while pending:
                yield from self._first_of(pending)
        finally:
            for _, _, future in pending:
                future.cancel()

    def _first_of(
        self, pending: deque[tuple[ChunkPlace, ChunkBuffers, Future[memoryview]]]
    ) -> Iterator[tuple[ChunkPlace, memoryview]]:
        place, buffers, future = pending.popleft()
        yield place, future.result()
        if self._pool:
            self._pool.give(buffers)

    def _decode(self, place: ChunkPlace, buffers: ChunkBuffers) -> memoryview:
        # There are as many desks as threads, so one is always free.
        desk = self._desks.get_nowait()
        try:
            return desk.read(place, buffers)
        finally:
            self._desks.put(desk)
