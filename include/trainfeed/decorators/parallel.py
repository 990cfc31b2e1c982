"""Samples read or mapped ahead in threads and processes, and the output of commands."""

from __future__ import annotations

import codecs
import functools
import math
import os
import shlex
import socket
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from trainfeed.core.process_ties import ending
from trainfeed.core.thread_ties import new_lock, require_owner
from trainfeed.decorators.stage import (
    BlockStage,
    Epochs,
    ReaderStage,
    before_fork,
    block_reader,
    block_readers,
    count,
    epochs_of,
    open_samples,
    start_blocks,
    start_samples,
)
from trainfeed.errors import FormatError, LoaderError, TruncatedError
from trainfeed.files import os_errors
from trainfeed.readers import Block, Reader, ReaderLike, Sample, num_rows, open_reader
from trainfeed.readers.ahead import (
    Channel,
    Child,
    MessageKind,
    end_threads,
    iter_ahead,
    iter_in_processes,
    receive_any,
    receive_message,
    send_message,
    start_thread,
    started,
    timeout_error,
)

# --- ``buffered``: reads samples ahead in a thread


def buffered(reader: ReaderLike, size: int) -> Reader:
    """Return a reader over the same samples; every pass has a thread that reads ahead.

    Reading overlaps with the work of the consumer, as far as one of them releases the interpreter
    lock. The thread ends with the pass, for whatever reason that ends. Errors of the reader are
    raised in the consumer, after all samples before them.

    Args:
        reader: The reader.
        size: Largest number of samples ahead; 0 reads none ahead. For blocks it counts rows, and a
            block is read as long as there is room for one row.

    Raises:
        ValueError: ``size`` is negative.
    """
    bound = count("size", size, at_least=0)
    batched = getattr(reader, "batched", False)
    if source := block_reader(reader):

        def blocks(epoch: int | None) -> Iterator[Block]:
            if not bound:
                return start_blocks(source, epoch)
            units_of = None if batched else num_rows
            return iter_ahead(lambda: start_blocks(source, epoch), bound, units_of=units_of)

        return BlockStage([reader], blocks, form=source.form, batched=batched)

    def samples(epoch: int | None) -> Iterator[Sample]:
        if not bound:
            return start_samples(reader, epoch)
        return iter_ahead(lambda: start_samples(reader, epoch), bound)

    return ReaderStage([reader], samples, batched=batched)


# --- ``multiprocess_reader``: one process per reader

T = TypeVar("T")

# Number of blocks that each process reads ahead.
_BLOCKS_AHEAD: Final = 2


def multiprocess_reader(
    readers: Sequence[ReaderLike],
    use_pipe: bool = True,  # noqa: ARG001
    queue_size: int = 1000,
) -> Reader:
    """Return a reader over the samples of all readers, each read by a process of its own.

    Samples of one reader keep their order; samples of several readers are mixed in the order of
    arrival. Every value that can be pickled arrives unchanged; arrays of 32 KiB or more are passed
    in shared memory. Processes are forked when the first sample is requested, and end with the
    pass.

    Args:
        readers: At least one reader.
        use_pipe: Ignored; the original library has two implementations, which differ only in their
            faults.
        queue_size: Largest number of samples ahead of the consumer, besides one per process; 0
            sets no limit. True and False count as 1 and 0, because code for the original also
            passes the last two arguments in the other order.

    Raises:
        ValueError: There is no reader, or ``queue_size`` is below 0.
        WorkerDiedError: A process was killed or has exited; raised by a pass, after all samples
            that the process had sent.
    """
    if not isinstance(readers, list | tuple) or not readers:
        raise ValueError(f"expected a list of at least one reader, got {readers!r}")
    ahead = int(queue_size) if isinstance(queue_size, bool) else queue_size
    ahead = count("queue_size", ahead, at_least=0) or sys.maxsize
    size = max(1, ahead // len(readers))
    epochs = Epochs()
    stage = _of_blocks(readers, epochs) or _of_samples(readers, size, epochs)
    if len(readers) > 1:
        stage.unordered = "multiprocess_reader() of several readers gives samples as they come"
    return stage


def _of_blocks(readers: Sequence[ReaderLike], epochs: Epochs) -> ReaderStage | None:
    sources = block_readers(readers)
    if not sources:
        return None

    def blocks(epoch: int | None) -> Iterator[Block]:
        # The number of the pass is computed here: a process gets a new copy of the reader, which
        # has not counted the passes before.
        own = epochs.of(epoch)
        reads = [functools.partial(start_blocks, *each) for each in epochs_of(sources, own)]
        prepare = functools.partial(before_fork, sources)
        return _iter_started(reads, _BLOCKS_AHEAD, own, prepare)

    first = sources[0]
    return BlockStage(readers, blocks, form=first.form, batched=first.batched, epochs=epochs)


def _of_samples(readers: Sequence[ReaderLike], size: int, epochs: Epochs) -> ReaderStage:
    def samples(epoch: int | None) -> Iterator[Sample]:
        own = epochs.of(epoch)
        reads = [functools.partial(start_samples, *each) for each in epochs_of(readers, own)]
        prepare = functools.partial(before_fork, readers)
        return _iter_started(reads, size, own, prepare)

    batched = all(getattr(reader, "batched", False) for reader in readers)
    return ReaderStage(readers, samples, batched=batched, epochs=epochs)


def _iter_started(
    reads: Sequence[Callable[[], Iterator[T]]],
    size: int,
    epoch: int,
    prepare: Callable[[], None],
) -> Iterator[T]:
    return iter_in_processes(reads, size, epoch=epoch, prepare=prepare, reseeds_parent=True)


# --- ``xmap_readers``: applies a function to samples in several threads or processes

# A worker takes at most this many samples at once, for about _TAKEN_S seconds of work. More would
# save little, and leave other workers without samples at the end.
_MAX_TAKEN: Final = 64
_TAKEN_S: Final = 0.001


def xmap_readers(
    mapper: Callable[[Any], Any],
    reader: ReaderLike,
    process_num: int,
    buffer_size: int,
    order: bool = False,
    *,
    use_processes: bool = False,
) -> Reader:
    """Return a reader over ``mapper(sample)``, computed by several workers at once.

    Errors of the mapper are raised in the consumer: with ``order`` after all samples before it,
    without ``order`` as soon as possible. No thread waits in a loop.

    Args:
        mapper: Called by several workers at once.
        reader: The reader; one thread reads it.
        process_num: Number of workers.
        buffer_size: Largest number of samples ahead of the consumer, besides one per worker; 0
            sets no limit.
        order: Whether the order of the reader is kept.
        use_processes: Whether workers are forked processes, for mappers that hold the interpreter
            lock; otherwise they are threads.

    Raises:
        ValueError: ``process_num`` is below 1, or ``buffer_size`` below 0.
        WorkerDiedError: A process was killed or has exited; raised by a pass.
    """
    num_workers = count("process_num", process_num, at_least=1)
    size = num_workers + (count("buffer_size", buffer_size, at_least=0) or sys.maxsize)
    epochs = Epochs()

    def samples(epoch: int | None) -> Iterator[Sample]:
        # Readers below that have numbers of their own keep them, unless a number was asked for.
        own = epochs.of(epoch)
        workers = _Workers(num_workers, size, own, epoch, reseeds_parent=use_processes)
        if use_processes:
            return _mapped_by_processes(lambda _: mapper, reader, workers, order=order)
        return _mapped(mapper, reader, workers, order=order)

    stage = ReaderStage([reader], samples, epochs=epochs)
    if num_workers > 1 and not order:
        stage.unordered = "xmap_readers() without order=True gives samples as they come"
    return stage


def iter_mapped(
    open_mapper: Callable[[int], Callable[[Any], Any]],
    reader: ReaderLike,
    num_workers: int,
    size: int,
    *,
    epoch: int = 0,
    timeout_s: float | None = None,
) -> Iterator[Any]:
    """Yield the items of a reader, mapped by forked processes, in order.

    Args:
        open_mapper: Called in a worker, with its number, before its first item; returns the mapper.
        reader: The reader; one thread reads it.
        num_workers: Number of processes.
        size: Largest number of items ahead of the consumer.
        epoch: Number of the pass; used for the seeds of random generators only.
        timeout_s: Seconds that the next item may take; None waits as long as its worker is alive.

    Raises:
        WorkerDiedError: A process was killed or has exited.
        LoaderError: The next item takes longer.
    """
    workers = _Workers(num_workers, size, epoch, timeout_s=timeout_s)
    return _mapped_by_processes(open_mapper, reader, workers, order=True)


class _Workers(NamedTuple):
    number: int
    size: int
    epoch: int
    reader_epoch: int | None = None
    timeout_s: float | None = None
    reseeds_parent: bool = False


class _Outcome(NamedTuple):
    """The result, or the error, of the sample with a number."""

    number: int
    value: Any
    error: BaseException | None


# Function from numbered samples to their outcomes; it may stop after an outcome with an error.
_Call = Callable[[list[tuple[int, Any]]], Iterator[_Outcome]]


class _Outcomes:
    """Outcomes on their way to the consumer; with ``order`` in the order of their numbers."""

    def __init__(self, *, order: bool) -> None:
        self._order = order
        self._waiting: dict[int, _Outcome] = {}
        self._next = 0
        self._total: int | None = None
        self._error: BaseException | None = None
        self._owner = os.getpid()
        self._changed = threading.Condition(new_lock())

    def put(self, outcome: _Outcome) -> None:
        with self._changed:
            self._waiting[outcome.number] = outcome
            self._changed.notify()

    def end(self, total: int, error: BaseException | None) -> None:
        """Set the number of samples, and the error of the reader, if any."""
        with self._changed:
            self._total, self._error = total, error
            self._changed.notify()

    def take(self, timeout_s: float | None) -> _Outcome | None:
        """Wait for the next outcome; None at the end. Fails in a fork, see ``require_owner``."""
        require_owner(self._owner)
        limit_s = math.inf if timeout_s is None else timeout_s
        end_s = time.monotonic() + limit_s
        with self._changed:
            while True:
                # With an order the next number only; without, whichever outcome came first.
                key = self._next if self._order else next(iter(self._waiting), -1)
                outcome = self._waiting.pop(key, None)
                if outcome is not None:
                    self._next += 1
                    return outcome
                # The number of samples is known when the reader ends; until then this waits for
                # more.
                if self._next == self._total:
                    return None if self._error is None else _Outcome(-1, None, self._error)
                if time.monotonic() > end_s:
                    raise timeout_error(limit_s)
                self._changed.wait(min(1.0, end_s - time.monotonic()))


def _mapped_by_processes(
    open_mapper: Callable[[int], Callable[[Any], Any]],
    reader: ReaderLike,
    workers: _Workers,
    *,
    order: bool,
) -> Iterator[Sample]:
    services = [functools.partial(_serve, open_mapper, number) for number in range(workers.number)]
    # All processes are forked before any thread starts: a lock that a thread holds during a fork is
    # never released in the child.
    with started(services, epoch=workers.epoch, reseeds_parent=workers.reseeds_parent) as children:
        calls = [functools.partial(_ask, child) for child in children]
        yield from _outcomes_of(calls, reader, workers, order=order, stop=children)


def _mapped(
    mapper: Callable[[Any], Any], reader: ReaderLike, workers: _Workers, *, order: bool
) -> Iterator[Sample]:
    calls = [functools.partial(_call, mapper)] * workers.number
    yield from _outcomes_of(calls, reader, workers, order=order, stop=())


def _outcomes_of(
    calls: Sequence[_Call],
    reader: ReaderLike,
    workers: _Workers,
    *,
    order: bool,
    stop: Sequence[Child],
) -> Iterator[Sample]:
    todo: Channel[tuple[int, Any]] = Channel(workers.size)
    outcomes = _Outcomes(order=order)
    threads = [start_thread(_feed, reader, workers.reader_epoch, todo, outcomes)]
    threads += [start_thread(_work, call, todo, outcomes, len(calls)) for call in calls]
    try:
        while (outcome := outcomes.take(workers.timeout_s)) is not None:
            # The unit is given back before the sample is handed on: the consumer holds it from now
            # on.
            todo.release(1)
            if outcome.error is not None:
                raise outcome.error
            yield outcome.value
            del outcome
    finally:
        todo.close()
        for child in stop:
            # A thread may wait for an answer of its child; the end of the process wakes it.
            child.kill()
        end_threads(threads)


def _feed(
    reader: ReaderLike, epoch: int | None, todo: Channel[tuple[int, Any]], outcomes: _Outcomes
) -> None:
    error = None
    try:
        with open_samples(reader, epoch) as iterator:
            todo.fill(enumerate(iterator))
    except BaseException as raised:  # noqa: BLE001 (any error is raised in the consumer)
        error = raised
    todo.finish()
    # The reader's error is raised after the outcomes of all samples before it.
    outcomes.end(todo.num_items, error)


def _work(
    call: _Call, todo: Channel[tuple[int, Any]], outcomes: _Outcomes, num_workers: int
) -> None:
    num_taken = 1
    while tasks := todo.take(num_taken):
        started_at = time.monotonic()
        for outcome in call(tasks):
            outcomes.put(outcome)
        per_sample_s = (time.monotonic() - started_at) / len(tasks)
        # Slow samples are taken one by one, so that no sample waits behind a slow one; and a
        # worker takes at most half of its fair share, so that others get samples too.
        fair_share = todo.backlog // (2 * num_workers)
        at_once = int(_TAKEN_S / max(per_sample_s, _TAKEN_S / _MAX_TAKEN))
        # At most doubled per round, because the time of a few samples may not be typical.
        num_taken = max(1, min(2 * num_taken, at_once, fair_share))


def _call(mapper: Callable[[Any], Any], tasks: list[tuple[int, Any]]) -> Iterator[_Outcome]:
    for number, item in tasks:
        try:
            value = mapper(item)
        except BaseException as error:  # noqa: BLE001 (any error is raised in the consumer)
            yield _Outcome(number, None, error)
            return
        yield _Outcome(number, value, None)


def _ask(child: Child, tasks: list[tuple[int, Any]]) -> Iterator[_Outcome]:
    num_done = 0
    try:
        child.send([item for _, item in tasks])
        while num_done < len(tasks):
            _, message = receive_any([child])
            for value in message.content:
                yield _Outcome(tasks[num_done][0], value, None)
                num_done += 1
    except Exception as error:  # noqa: BLE001 (any error is raised in the consumer)
        yield _Outcome(tasks[num_done][0], None, error)


def _serve(
    open_mapper: Callable[[int], Callable[[Any], Any]], number: int, connection: socket.socket
) -> None:
    """Map the items that the parent sends; runs in the child. ``run`` sends an exception."""
    mapper: Callable[[Any], Any] | None = None
    while (message := receive_message(connection)) is not None:
        values: list[Any] = []
        try:
            mapper = mapper or open_mapper(number)
            for item in message.content:
                values.append(mapper(item))  # noqa: PERF401 (keeps the values before an error)
        finally:
            send_message(connection, MessageKind.ITEMS, values)


# --- ``PipeReader``: the lines that a command writes

_GZIP_WINDOW: Final = 16 + zlib.MAX_WBITS
_MAX_LINE_CHARS: Final = 64 << 20
# Time for the command to exit after it has closed its output.
_EXIT_S: Final = 10.0


class PipeReader:
    """The lines of the output of a command; ``get_line`` is a reader.

    Args:
        command: A program and its arguments. A text is split like in a shell, but no shell runs:
            ``|``, ``*`` and ``$`` have no effect.
        bufsize: Bytes to read at once, 1 or more.
        file_type: ``"plain"`` or ``"gzip"``; gzip output may have several members.

    Raises:
        TypeError: The command is neither text nor a list of texts, or the file type is unknown.
        ValueError: The command is empty, or ``bufsize`` is below 1.
    """

    def __init__(
        self, command: str | Sequence[str], bufsize: int = 8192, file_type: str = "plain"
    ) -> None:
        if file_type not in {"plain", "gzip"}:
            raise TypeError(f"expected file_type 'plain' or 'gzip', got {file_type!r}")
        is_text = isinstance(command, str)
        if not is_text and not (
            isinstance(command, list | tuple) and all(isinstance(word, str) for word in command)
        ):
            raise TypeError(f"expected a text or a list of texts, got {command!r}")
        self.command = shlex.split(command) if isinstance(command, str) else list(command)
        if not self.command:
            raise ValueError("expected a command, got an empty one")
        if bufsize < 1:
            raise ValueError(f"expected a bufsize of 1 or more, got {bufsize}")
        self._bufsize = bufsize
        self._file_type = file_type

    def get_line(self, cut_lines: bool = True, line_break: str = "\n") -> Iterator[str]:
        """Run the command and yield its lines, each without its line break.

        The command is killed when the iterator ends for any reason.

        Args:
            cut_lines: False yields the text in pieces of any length.
            line_break: Text that ends a line.

        Raises:
            NotFoundError: The program does not exist.
            LoaderError: The command has exited with another status than 0, or was killed; raised
                after all lines.
            FormatError: The output is not UTF-8, or cannot be decompressed, or has a line of more
                than 64 Mi characters.
            TruncatedError: The gzip stream ends inside a member.
        """
        if not line_break:
            raise ValueError("expected a line break of one character or more, got none")
        with open_reader(self._texts) as texts:
            yield from _lines(texts, line_break) if cut_lines else texts

    def _texts(self) -> Iterator[str]:
        with os_errors(self.command[0]):
            process = subprocess.Popen(  # noqa: S603 (no shell; the command is the user's own)
                self.command, bufsize=0, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
            )
        try:
            pieces = self._pieces(process)
            yield from _decoded(_inflated(pieces) if self._file_type == "gzip" else pieces)
            self._check_exit(process)
        finally:
            process.kill()
            # Waits for the process and closes the pipe.
            with process:
                pass

    def _pieces(self, process: subprocess.Popen[bytes]) -> Iterator[bytes]:
        output = process.stdout
        while output is not None and (data := output.read(self._bufsize)):
            yield data

    def _check_exit(self, process: subprocess.Popen[bytes]) -> None:
        try:
            status = process.wait(_EXIT_S)
        except subprocess.TimeoutExpired:
            raise LoaderError(
                f"{shlex.join(self.command)} has closed its output and does not exit"
            ) from None
        if status:
            raise LoaderError(
                f"{shlex.join(self.command)} {ending(status)}; lines that it had written were"
                " delivered"
            )


def _inflated(pieces: Iterable[bytes]) -> Iterator[bytes]:
    member, is_inside = zlib.decompressobj(_GZIP_WINDOW), False
    try:
        for piece in pieces:
            data = piece
            # Zero bytes between and after members are padding.
            while data := data if is_inside else data.lstrip(b"\0"):
                is_inside = True
                yield member.decompress(data, len(piece) * 16)
                data = member.unconsumed_tail
                if member.eof:
                    data, is_inside = member.unused_data, False
                    member = zlib.decompressobj(_GZIP_WINDOW)
    except zlib.error as error:
        raise FormatError(f"the gzip stream is damaged: {error}") from error
    if is_inside:
        raise TruncatedError("the gzip stream ends inside a member")


def _decoded(pieces: Iterable[bytes]) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for piece in pieces:
            yield decoder.decode(piece)
        yield decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        raise FormatError(f"expected UTF-8: {error}") from error


def _lines(texts: Iterable[str], line_break: str) -> Iterator[str]:
    rest = ""
    for text in texts:
        # The part of a long line that was searched before is not searched again.
        start = max(0, len(rest) - len(line_break) + 1)
        rest += text
        if rest.find(line_break, start) >= 0:
            *lines, rest = rest.split(line_break)
            yield from lines
        if len(rest) > _MAX_LINE_CHARS:
            raise FormatError(f"a line has more than {_MAX_LINE_CHARS} characters")
    if rest:
        yield rest
