"""Many chunks in a given order, read and decompressed by one thread or by several ahead."""

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

    def located(self) -> AbstractContextManager[None]:
        """Add file, byte offset and chunk number to the format errors of a block."""
        return located(path_of(self.file), self.info.offset_bytes, self.number)


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
    """Read the chunks that indexes describe, and decode each in the thread that has read it.

    Args:
        places: As for ``read_chunks``.
        decode: Makes something of a framing; the number says which of ``places`` it is of.
        threads: As for ``read_chunks``; ``decode`` is called by all of them.
        max_raw_bytes: As for ``read_chunks``.
        pool: Where the memory of framings comes from, and goes to as soon as ``decode`` returns;
            with None every framing has memory of its own, for what looks into it.

    Yields:
        What ``decode`` has made of each chunk, in the order of ``places``.

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
    """Yield what ``work`` gives for each place, in their order."""
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


class _Ahead(Generic[_T]):
    """Keeps threads busy with the chunks that come next; each takes a desk while it works."""

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
        """Yield what was made of the chunks, in order."""
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
        # There are as many desks as threads, so one is always free.
        desk = self._desks.get_nowait()
        try:
            return self._work(desk, number, place)
        finally:
            self._desks.put(desk)
