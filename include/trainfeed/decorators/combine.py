"""Several readers as one: in sequence, sample by sample, or mapped by a function."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Any, TypeVar

from trainfeed.decorators.stage import (
    BlockStage,
    ReaderStage,
    Start,
    block_reader,
    block_readers,
    open_blocks,
    open_samples,
    starts_of,
)
from trainfeed.errors import ReaderEndedError
from trainfeed.readers import (
    Block,
    BlockReader,
    Reader,
    ReaderLike,
    RowForm,
    Sample,
    ended,
    leave_out_rows,
    num_rows,
    open_reader,
)

# --- ``chain``: readers in sequence; ``map_blocks``: a function of blocks

R = TypeVar("R", bound=ReaderLike)
T = TypeVar("T")


def map_blocks(
    func: Callable[[Block], Block], reader: ReaderLike, *, form: RowForm | None = None
) -> Reader:
    """Return a reader over ``func(block)`` for the blocks of a reader.

    Args:
        func: Function from and to field → array of shape ``(n, *S)``. The number of rows may
            change, also to 0; therefore a pass that skips samples calls the function for them too.
            Its arguments may be views of shared memory, which it must not change.
        reader: A reader that gives blocks.
        form: Form of the new samples; None keeps the form.

    Raises:
        ValueError: The reader gives no blocks, or its blocks are batches.
    """
    source = block_reader(reader)
    if source is None or source.batched:
        raise ValueError("expected a reader that gives blocks, got one that does not")

    def mapped(start: Start) -> Iterator[Block]:
        with open_blocks(source, start) as iterator:
            for block in map(func, iterator):
                if num_rows(block):
                    yield block

    def blocks(start: Start) -> Iterator[Block]:
        with open_reader(lambda: mapped(start.at(0))) as iterator:
            yield from leave_out_rows(iterator, start.position)

    return BlockStage([reader], blocks, form=form or source.form)


def chain(*readers: ReaderLike) -> Reader:
    """Return a reader over all samples of the first reader, then of the second, and so on.

    A reader is called when the one before it has ended. The result has blocks if all readers have
    them.
    """
    sources = block_readers(readers)
    if sources:

        def blocks(start: Start) -> Iterator[Block]:
            return _one_after_another(open_blocks, sources, start)

        return BlockStage(readers, blocks, form=sources[0].form, batched=sources[0].batched)

    def samples(start: Start) -> Iterator[Sample]:
        return _one_after_another(open_samples, readers, start)

    batched = bool(readers) and all(getattr(reader, "batched", False) for reader in readers)
    return ReaderStage(readers, samples, batched=batched)


def _one_after_another(
    open_pass: Callable[[R, Start], AbstractContextManager[Iterator[T]]],
    readers: Sequence[R],
    start: Start,
) -> Iterator[T]:
    left = start.position
    for reader, own in starts_of(readers, start):
        with ExitStack() as stack:
            try:
                iterator = stack.enter_context(open_pass(reader, own.at(left)))
            except ReaderEndedError as error:
                # The reader has fewer samples than are to be skipped: skip it, and the rest in the
                # readers after it.
                left -= error.num_samples
                continue
            left = 0
            yield from iterator
    if left:
        raise ended(start.position, start.position - left)


# --- ``map_readers`` and ``compose``: several readers in parallel, sample by sample


class ComposeNotAligned(ValueError):  # noqa: N818 (the name that users catch)
    """One of the composed readers ended before another."""


def map_readers(func: Callable[..., Any], *readers: ReaderLike) -> Reader:
    """Return a reader over ``func(a, b, …)`` of the samples of readers, in parallel.

    The pass ends with the shortest reader, without an error. For blocks see ``map_blocks``.

    Args:
        func: Called with one sample of each reader.
        readers: At least one.
    """
    _require(readers)

    def samples(start: Start) -> Iterator[Sample]:
        with ExitStack() as stack:
            iterators = _open_all(stack, open_samples, readers, start)
            # Not map(): a StopIteration raised by func would end the pass like a regular end.
            for values in zip(*iterators, strict=False):
                yield func(*values)

    return ReaderStage(readers, samples)


def compose(*readers: ReaderLike, check_alignment: bool = True) -> Reader:
    """Return a reader over tuples of the values of all readers, in parallel.

    The samples ``(1, 2)``, ``3`` and ``(4, 5)`` give ``(1, 2, 3, 4, 5)``; lists and mappings count
    as single values, and None is a value too. The result has blocks if all readers have blocks of
    values or tuples.

    Args:
        readers: At least one reader. For infinite and finite readers together pass
            ``check_alignment=False``, because their lengths differ.
        check_alignment: Whether different lengths are an error, which is raised after the aligned
            part; False ends with the shortest reader.

    Raises:
        ComposeNotAligned: The readers differ in length; raised by a pass.
    """
    _require(readers)
    sources = _with_columns(readers)
    if sources is not None:

        def blocks(start: Start) -> Iterator[Block]:
            with ExitStack() as stack:
                iterators = _open_all(stack, open_blocks, sources, start)
                yield from _aligned(iterators, start.position, check=check_alignment)

        return BlockStage(readers, blocks, form=RowForm.TUPLE)

    def samples(start: Start) -> Iterator[Sample]:
        with ExitStack() as stack:
            iterators = _open_all(stack, open_samples, readers, start)
            yield from _flattened(iterators, start.position, check=check_alignment)

    return ReaderStage(readers, samples)


def _with_columns(readers: Sequence[ReaderLike]) -> list[BlockReader] | None:
    """Return the readers if each has blocks whose columns are the values of its samples."""
    found = [reader for reader in readers if isinstance(reader, BlockReader)]
    forms = {reader.form for reader in found}
    batched = any(reader.batched for reader in found)
    return None if len(found) < len(readers) or RowForm.MAPPING in forms or batched else found


def _flattened(
    iterators: list[Iterator[Sample]], position: int, *, check: bool
) -> Iterator[Sample]:
    """Yield tuples of the values of all readers."""
    missing: list[int] = []
    told = [
        itertools.chain(iterator, _tell(missing, number))
        for number, iterator in enumerate(iterators)
    ]
    for values in zip(*told, strict=False):
        parts: list[Any] = []
        for value in values:
            if isinstance(value, tuple):
                parts.extend(value)
            else:
                parts.append(value)
        yield tuple(parts)
        position += 1
    if check:
        # zip stopped at the first reader that ended: readers before it gave one more value, and
        # readers after it were not called. Only the latter may have ended too.
        for later in told[missing[0] + 1 :]:
            next(later, None)
        _require_end(missing, len(iterators), position)


def _tell(missing: list[int], number: int) -> Iterator[Any]:
    missing.append(number)
    yield from ()


def _aligned(iterators: list[Iterator[Block]], position: int, *, check: bool) -> Iterator[Block]:
    """Yield blocks with the columns of all readers, as views."""
    rests: list[Block | None] = [None] * len(iterators)
    while True:
        for number, iterator in enumerate(iterators):
            rests[number] = rests[number] or next(iterator, None)
            # Further readers are read only for the check: their samples would be lost.
            if rests[number] is None and not check:
                return
        blocks = [rest for rest in rests if rest is not None]
        if len(blocks) < len(rests):
            missing = [number for number, rest in enumerate(rests) if rest is None]
            _require_end(missing, len(rests), position)
            return
        length = min(map(num_rows, blocks))
        columns = [column for block in blocks for column in block.values()]
        yield {str(number): column[:length] for number, column in enumerate(columns)}
        position += length
        rests = [_behind(block, length) for block in blocks]


def _behind(block: Block, length: int) -> Block | None:
    if num_rows(block) == length:
        return None
    return {name: column[length:] for name, column in block.items()}


def _require_end(missing: list[int], num_readers: int, position: int) -> None:
    if len(missing) < num_readers:
        raise ComposeNotAligned(
            f"expected {num_readers} readers of one length, readers {missing} (from 0) ended"
            f" after {position} samples and others did not; give readers of one length, or pass"
            " check_alignment=False to end with the shortest"
        )


def _open_all(
    stack: ExitStack,
    open_pass: Callable[[R, Start], AbstractContextManager[Iterator[T]]],
    readers: Sequence[R],
    start: Start,
) -> list[Iterator[T]]:
    iterators, lengths = [], []
    for reader, own in starts_of(readers, start):
        try:
            iterators.append(stack.enter_context(open_pass(reader, own)))
        except ReaderEndedError as error:
            lengths.append(error.num_samples)
    if lengths:
        raise ended(start.position, min(lengths))
    return iterators


def _require(readers: tuple[ReaderLike, ...]) -> None:
    if not readers:
        raise ValueError("expected at least one reader, got none")
