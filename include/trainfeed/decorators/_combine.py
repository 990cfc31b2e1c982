"""Readers out of several readers: mapped, chained, composed."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, Final

from trainfeed.decorators._stage import BlockStage, Stage, block_reader, block_readers
from trainfeed.readers import Block, Reader, ReaderLike, RowForm, Sample, open_reader

__all__ = ["ComposeNotAligned", "chain", "compose", "map_blocks", "map_readers"]

_ENDED: Final = object()


class ComposeNotAligned(ValueError):  # noqa: N818 (the name that users catch)
    """One of the composed readers ended before another."""


def map_readers(func: Callable[..., Any], *readers: ReaderLike) -> Reader:
    """Return a reader over ``func(a, b, …)`` of the samples of readers, side by side.

    Ends with the shortest reader, without a word. For blocks see ``map_blocks``.

    Args:
        func: Called with one sample of each reader.
        readers: At least one.
    """
    _require(readers)

    def samples() -> Iterator[Sample]:
        with ExitStack() as stack:
            iterators = [stack.enter_context(open_reader(reader)) for reader in readers]
            # Not map(): a StopIteration out of func would end the pass as if it were complete.
            for values in zip(*iterators, strict=False):
                yield func(*values)

    return Stage(readers, samples)


def map_blocks(
    func: Callable[[Block], Block], reader: ReaderLike, *, form: RowForm | None = None
) -> Reader:
    """Return a reader over ``func(block)`` of the blocks of a reader.

    Args:
        func: Gets and returns field → array of shape ``(n, *S)``; the count of rows may change,
            also to 0. What it gets may be a view of something else: do not write into it.
        reader: A reader that gives blocks.
        form: What samples look like afterwards; as before when None.

    Raises:
        ValueError: The reader gives no blocks, or its blocks are batches.
    """
    source = block_reader(reader)
    if source is None or source.batched:
        raise ValueError("expected a reader that gives blocks, got one that does not")

    def blocks() -> Iterator[Block]:
        with open_reader(source.blocks) as iterator:
            for block in iterator:
                mapped = func(block)
                if len(next(iter(mapped.values()))):
                    yield mapped

    return BlockStage([reader], blocks, form=form or source.form)


def chain(*readers: ReaderLike) -> Reader:
    """Return a reader over all samples of the first reader, then of the second, and so on.

    A reader is called when its turn comes. Blocks stay blocks where all readers give them.
    """
    sources = block_readers(readers)
    if sources:

        def blocks() -> Iterator[Block]:
            for source in sources:
                with open_reader(source.blocks) as iterator:
                    yield from iterator

        return BlockStage(readers, blocks, form=sources[0].form, batched=sources[0].batched)

    def samples() -> Iterator[Sample]:
        for reader in readers:
            with open_reader(reader) as iterator:
                yield from iterator

    batched = bool(readers) and all(getattr(reader, "batched", False) for reader in readers)
    return Stage(readers, samples, batched=batched)


def compose(*readers: ReaderLike, check_alignment: bool = True) -> Reader:
    """Return a reader over tuples of the values of all readers, side by side.

    ``(1, 2)``, ``3`` and ``(4, 5)`` make ``(1, 2, 3, 4, 5)``; lists and mappings are single
    values. None is a value like any other.

    Args:
        readers: At least one. With an infinite one among finite ones, alignment cannot hold: pass
            ``check_alignment=False``.
        check_alignment: Readers of different lengths are an error, raised after the aligned part;
            False ends with the shortest.

    Raises:
        ComposeNotAligned: The readers differ in length; raised by a pass.
    """
    _require(readers)

    def samples() -> Iterator[Sample]:
        with ExitStack() as stack:
            iterators = [stack.enter_context(open_reader(reader)) for reader in readers]
            for position in itertools.count():
                values = _side_by_side(iterators, all_of_them=check_alignment)
                if ended := [i for i, value in enumerate(values) if value is _ENDED]:
                    if len(ended) < len(iterators) and check_alignment:
                        raise _not_aligned(position, ended, len(iterators))
                    return
                yield tuple(part for value in values for part in _parts(value))

    return Stage(readers, samples)


def _side_by_side(iterators: list[Iterator[Sample]], *, all_of_them: bool) -> list[Any]:
    values = []
    for iterator in iterators:
        values.append(next(iterator, _ENDED))
        # What is drawn after the end of one is lost; only a check needs it.
        if values[-1] is _ENDED and not all_of_them:
            break
    return values


def _parts(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _not_aligned(position: int, ended: list[int], num_readers: int) -> ComposeNotAligned:
    return ComposeNotAligned(
        f"expected {num_readers} readers of one length, readers {ended} (from 0) ended after"
        f" {position} samples and others did not; give readers of one length, or pass"
        " check_alignment=False to end with the shortest"
    )


def _require(readers: tuple[ReaderLike, ...]) -> None:
    if not readers:
        raise ValueError("expected at least one reader, got none")
