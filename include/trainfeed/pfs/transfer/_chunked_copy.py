"""Copies one file by chunks, of which only those are sent that the target does not have yet."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Literal

from trainfeed import faults
from trainfeed.errors import FileReplacedError, QuotaExceededError
from trainfeed.pfs.transfer._copy_values import CopyOptions, FileCopy, FileOutcome, name_taken
from trainfeed.pfs.trees import (
    CHUNK_BYTES,
    DigestKind,
    Kind,
    Source,
    Target,
    chunk_count,
    chunk_size,
)

__all__ = ["copy_chunked"]


def copy_chunked(copy: FileCopy, options: CopyOptions, *, threads: int) -> FileOutcome:
    """Copy a file; the target has its name complete and compared, or not at all.

    Memory: one chunk for each thread.

    Args:
        copy: The file.
        options: Options of all copies.
        threads: Number of threads that read, compare and send chunks.

    Raises:
        FileReplacedError: The source changed during the copy.
        ConflictError: The name of the copy is taken.
        StorageError: A tree refused or failed.
        Stopped: ``options.stop`` was set.
    """
    with closing(copy.source.tree.open_source(copy.source.parts)) as source:
        if _is_equal(copy, source, options, threads):
            # The copy that gave the name may have been killed before the name was durable.
            copy.target.tree.sync_names_of([copy.target.parts])
            return _outcome(copy, "equal", source.state.num_bytes, 0)
        target = copy.target.tree.open_target(
            copy.target.parts, source.state, replace=options.replace
        )
        with closing(target), _kept(copy):
            # What this call sent is compared with what was written: only an accident differs.
            kind = DigestKind.XXH3
            pump = _Pump(source, target, target.digests(kind), kind, options, copy.source.shown)
            chunks = pump.run(threads)
            source.require_same()
            target.commit(chunks, kind)
    return _outcome(copy, "copied", source.state.num_bytes, pump.sent_bytes)


def _is_equal(copy: FileCopy, source: Source, options: CopyOptions, threads: int) -> bool:
    """Return whether the file that has the name already has the bytes of the source."""
    there = copy.existing
    if there is None or there.kind is not Kind.FILE or there.num_bytes != source.state.num_bytes:
        return False
    # Others may have made both files, so only a digest that cannot be forged says it.
    found = copy.target.tree.digests(copy.target.parts)
    kind = DigestKind.SHA256
    pump = _Pump(source, None, found.chunks, kind, options, copy.source.shown)
    chunks = pump.run(threads)
    source.require_same()
    if found.chunks != chunks and not options.replace:
        raise name_taken(copy)
    return found.chunks == chunks


@dataclass
class _Pump:
    """Threads that take the chunks of a source in their order.

    Attributes:
        source: The file that is read.
        target: Where chunks are written; None if they are only digested.
        there: Digests of the chunks that the target has.
        kind: How chunks are digested.
        options: Options of all copies.
        shown: The source, for messages.
        sent_bytes: Bytes written so far.
    """

    source: Source
    target: Target | None
    there: tuple[bytes, ...]
    kind: DigestKind
    options: CopyOptions
    shown: str
    sent_bytes: int = 0

    def run(self, threads: int) -> tuple[bytes, ...]:
        """Return the digests of all chunks, each of which the target has now."""
        count = chunk_count(self.source.state.num_bytes)
        self._digests = [b""] * count
        self._indexes: Iterator[int] = iter(range(count))
        self._lock, self._ends = threading.Lock(), threading.Event()
        threads = min(threads, count)
        if threads < 2:
            self._work()
        else:
            with ThreadPoolExecutor(threads, "pfs-copy") as pool:
                for future in [pool.submit(self._work) for _ in range(threads)]:
                    future.result()
        return tuple(self._digests)

    def _work(self) -> None:
        buffer = bytearray(min(CHUNK_BYTES, self.source.state.num_bytes))
        try:
            while not self._ends.is_set():
                with self._lock:
                    index = next(self._indexes, None)
                if index is None:
                    return
                self.options.require_going()
                self._chunk(index, memoryview(buffer))
        except BaseException:
            self._ends.set()
            raise

    def _chunk(self, index: int, buffer: memoryview) -> None:
        view = buffer[: chunk_size(self.source.state.num_bytes, index)]
        if self.source.read_into(index * CHUNK_BYTES, view) != len(view):
            raise FileReplacedError(
                f"{self.shown}: expected {self.source.state.num_bytes} bytes, the file became"
                " shorter during the copy; no name was given to the copy; repeat the command when"
                " its writer has ended"
            )
        digest = self._digests[index] = self.kind.of(view)
        is_there = index < len(self.there) and self.there[index] == digest
        if self.target is not None and not is_there:
            self.options.rate.wait(len(view), self.options.stop)
            self.options.require_going()
            self.target.write(index * CHUNK_BYTES, view)
            faults.point(f"pfs.chunk_{index}")
            with self._lock:
                self.sent_bytes += len(view)
        if self.target is not None:
            self.options.tell(len(view))


@contextmanager
def _kept(copy: FileCopy) -> Iterator[None]:
    """Say after a full disk or quota what is kept, and what to do."""
    try:
        yield
    except QuotaExceededError as error:
        raise QuotaExceededError(
            f"{error}; {copy.target.shown} has no new content, and what was sent is kept for the"
            " next try; free space or raise the quota, then repeat the command, or remove what is"
            f" kept: trainfeed pfs rm --unfinished {copy.target.tree.show(copy.target.parts[:-1])}"
        ) from error


def _outcome(
    copy: FileCopy, verdict: Literal["copied", "equal"], num_bytes: int, sent: int
) -> FileOutcome:
    return FileOutcome(copy.source.shown, copy.target.shown, verdict, num_bytes, sent)
