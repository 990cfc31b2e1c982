"""Several readers as one: in sequence, sample by sample, or mapped by a function."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Any, TypeVar

from trainfeed.decorators.stage import (
    BlockStage,
    ReaderStage,
    block_reader,
    block_readers,
    epochs_of,
    open_blocks,
    open_samples,
)
from trainfeed.readers import (
    Block,
    BlockReader,
    Reader,
    ReaderLike,
    RowForm,
    Sample,
    num_rows,
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
            change, also to 0. Its arguments may be views of shared memory, which it must not
            change.
        reader: A reader that gives blocks.
        form: Form of the new samples; None keeps the form.

    Raises:
        ValueError: The reader gives no blocks, or its blocks are batches.
    """
    source = block_reader(reader)
    if source is None or source.batched:
        raise ValueError("expected a reader that gives blocks, got one that does not")

    def blocks(epoch: int | None) -> Iterator[Block]:
        with open_blocks(source, epoch) as iterator:
            for block in map(func, iterator):
                if num_rows(block):
                    yield block

    return BlockStage([reader], blocks, form=form or source.form)


def chain(*readers: ReaderLike) -> Reader:
    """Return a reader over all samples of the first reader, then of the second, and so on.

    A reader is called when the one before it has ended. The result has blocks if all readers have
    them.
    """
    sources = block_readers(readers)
    if sources:

        def blocks(epoch: int | None) -> Iterator[Block]:
            return _one_after_another(open_blocks, sources, epoch)

        return BlockStage(readers, blocks, form=sources[0].form, batched=sources[0].batched)

    def samples(epoch: int | None) -> Iterator[Sample]:
        return _one_after_another(open_samples, readers, epoch)

    batched = bool(readers) and all(getattr(reader, "batched", False) for reader in readers)
    return ReaderStage(readers, samples, batched=batched)


def _one_after_another(
    open_pass: Callable[[R, int | None], AbstractContextManager[Iterator[T]]],
    readers: Sequence[R],
    epoch: int | None,
) -> Iterator[T]:
    for reader, own in epochs_of(readers, epoch):
        with open_pass(reader, own) as iterator:
            yield from iterator


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

    def samples(epoch: int | None) -> Iterator[Sample]:
        with ExitStack() as stack:
            iterators = _open_all(stack, open_samples, readers, epoch)
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

        def blocks(epoch: int | None) -> Iterator[Block]:
            with ExitStack() as stack:
                iterators = _open_all(stack, open_blocks, sources, epoch)
                yield from _aligned(iterators, check=check_alignment)

        return BlockStage(readers, blocks, form=RowForm.TUPLE)

    def samples(epoch: int | None) -> Iterator[Sample]:
        with ExitStack() as stack:
            iterators = _open_all(stack, open_samples, readers, epoch)
            yield from _flattened(iterators, check=check_alignment)

    return ReaderStage(readers, samples)


def _with_columns(readers: Sequence[ReaderLike]) -> list[BlockReader] | None:
    """Return the readers if each has blocks whose columns are the values of its samples."""
    found = [reader for reader in readers if isinstance(reader, BlockReader)]
    forms = {reader.form for reader in found}
    batched = any(reader.batched for reader in found)
    return None if len(found) < len(readers) or RowForm.MAPPING in forms or batched else found


def _flattened(iterators: list[Iterator[Sample]], *, check: bool) -> Iterator[Sample]:
    """Yield tuples of the values of all readers."""
    num_yielded = 0
    missing: list[int] = []
    marked = [
        itertools.chain(iterator, _mark_end(missing, number))
        for number, iterator in enumerate(iterators)
    ]
    for values in zip(*marked, strict=False):
        parts: list[Any] = []
        for value in values:
            if isinstance(value, tuple):
                parts.extend(value)
            else:
                parts.append(value)
        yield tuple(parts)
        num_yielded += 1
    if check:
        # zip stopped at the first reader that ended: readers before it gave one more value, and
        # readers after it were not called. Only the latter may have ended too.
        for later in marked[missing[0] + 1 :]:
            next(later, None)
        _require_end(missing, len(iterators), num_yielded)


def _mark_end(missing: list[int], number: int) -> Iterator[Any]:
    missing.append(number)
    yield from ()


def _aligned(iterators: list[Iterator[Block]], *, check: bool) -> Iterator[Block]:
    """Yield blocks with the columns of all readers, as views."""
    num_yielded = 0
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
            _require_end(missing, len(rests), num_yielded)
            return
        length = min(map(num_rows, blocks))
        columns = [column for block in blocks for column in block.values()]
        yield {str(number): column[:length] for number, column in enumerate(columns)}
        num_yielded += length
        rests = [_behind(block, length) for block in blocks]


def _behind(block: Block, length: int) -> Block | None:
    if num_rows(block) == length:
        return None
    return {name: column[length:] for name, column in block.items()}


def _require_end(missing: list[int], num_readers: int, num_yielded: int) -> None:
    if len(missing) < num_readers:
        raise ComposeNotAligned(
            f"expected {num_readers} readers of one length, readers {missing} (from 0) ended"
            f" after {num_yielded} samples and others did not; give readers of one length, or pass"
            " check_alignment=False to end with the shortest"
        )


def _open_all(
    stack: ExitStack,
    open_pass: Callable[[R, int | None], AbstractContextManager[Iterator[T]]],
    readers: Sequence[R],
    epoch: int | None,
) -> list[Iterator[T]]:
    return [stack.enter_context(open_pass(*each)) for each in epochs_of(readers, epoch)]


def _require(readers: tuple[ReaderLike, ...]) -> None:
    if not readers:
        raise ValueError("expected at least one reader, got none")
