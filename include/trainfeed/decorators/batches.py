"""Samples grouped into batches, blocks of other sizes, and columns for a training step."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from trainfeed.decorators.stage import (
    BlockStage,
    ReaderStage,
    block_reader,
    count,
    open_blocks,
    open_samples,
)
from trainfeed.errors import SampleShapeError
from trainfeed.readers import (
    Block,
    BlockReader,
    Reader,
    ReaderLike,
    RowForm,
    Sample,
    num_rows,
)
from trainfeed.samples import array_of, joined_columns

# --- Cuts blocks into blocks of other sizes


def rechunked(blocks: Iterable[Block], sizes: Iterator[int]) -> Iterator[list[Block]]:
    """Yield lists of pieces with ``next(sizes)`` rows together, fewer at the end.

    The pieces are views of the blocks. A block is read when its rows are needed.
    """
    size = next(sizes)
    pieces: list[Block] = []
    have = 0
    for block in blocks:
        start, length = 0, num_rows(block)
        while length - start >= size - have:
            stop = start + size - have
            pieces.append(_cut(block, start, stop))
            yield pieces
            pieces, have, start = [], 0, stop
            size = next(sizes)
        if start < length:
            pieces.append(_cut(block, start, length))
            have += length - start
    if pieces:
        yield pieces


def concatenated(pieces: list[Block]) -> Block:
    """Return one block with the rows of all pieces; a single piece is returned unchanged.

    Raises:
        SampleShapeError: The pieces differ in fields, shapes or types.
    """
    first = pieces[0]
    if len(pieces) == 1:
        return first
    for piece in pieces:
        if piece.keys() != first.keys():
            raise SampleShapeError(
                f"expected blocks of the fields {list(first)}, got one of {list(piece)}"
            )
    columns = {}
    for name in first:
        parts = [piece[name] for piece in pieces]
        if any(p.shape[1:] != parts[0].shape[1:] or p.dtype != parts[0].dtype for p in parts):
            raise SampleShapeError(
                f"expected blocks of one shape and type in field {name!r}, got"
                f" {sorted({f'{part.dtype} {part.shape[1:]}' for part in parts})}"
            )
        columns[name] = joined_columns(parts)
    return columns


def _cut(block: Block, start: int, stop: int) -> Block:
    if start == 0 and stop == num_rows(block):
        return block
    return {name: column[start:stop] for name, column in block.items()}


# --- Samples grouped into batches


def batch(
    reader: ReaderLike,
    batch_size: int | Callable[[int], int],
    drop_last: bool = False,
    *,
    strict: bool = False,
) -> Reader:
    """Return a reader of batches: lists of samples, or blocks that are one batch each.

    Args:
        reader: A reader of samples.
        batch_size: Samples per batch, or a function from the number of the batch in its pass, from
            0, to this number.
        drop_last: Whether a last batch with fewer samples is left out.
        strict: Whether samples that are not tuples are refused; see ``check_batch``.

    Raises:
        ValueError: ``batch_size`` is not a whole number of 1 or more, or the reader gives batches
            already.
        SampleShapeError: A batch breaks the tuple rule; raised by a pass.
    """
    if getattr(reader, "batched", False):
        raise ValueError(
            "expected a reader of samples, got one that gives batches already; drop one of the"
            " two calls of batch()"
        )
    size = batch_size if callable(batch_size) else count("batch_size", batch_size, at_least=1)
    drops_last = bool(drop_last)
    source = block_reader(reader)
    # The strict check is not needed for blocks whose samples are tuples by their form.
    if source is not None and not (strict and source.form is not RowForm.TUPLE):
        blocks = functools.partial(_batched_blocks, source, size, drops_last)
        return BlockStage([reader], blocks, form=source.form, batched=True)
    samples = functools.partial(_batched_samples, reader, size, drops_last, strict)
    return ReaderStage([reader], samples, batched=True)


def _sizes(size: int | Callable[[int], int]) -> Iterator[int]:
    """Yield the sizes of the batches of a pass, without end."""
    if not callable(size):
        return itertools.repeat(size)
    return (
        count(f"size of batch {number}", size(number), at_least=1) for number in itertools.count()
    )


def _batched_blocks(
    source: BlockReader, size: int | Callable[[int], int], drops_last: bool, epoch: int | None
) -> Iterator[Block]:
    # The sizes are needed twice: to cut the blocks, and to find out whether the last batch is
    # short.
    cuts, wanted = itertools.tee(_sizes(size))
    with open_blocks(source, epoch) as iterator:
        for pieces, num_wanted in zip(rechunked(iterator, cuts), wanted, strict=False):
            if not drops_last or sum(map(num_rows, pieces)) == num_wanted:
                yield concatenated(pieces)


def _batched_samples(
    reader: ReaderLike,
    size: int | Callable[[int], int],
    drops_last: bool,
    strict: bool,
    epoch: int | None,
) -> Iterator[list[Sample]]:
    with open_samples(reader, epoch) as iterator:
        for number, num_wanted in enumerate(_sizes(size)):
            items = list(itertools.islice(iterator, num_wanted))
            if not items or (drops_last and len(items) < num_wanted):
                return
            if strict:
                check_batch(items, number)
            yield items


def as_batches(reader: ReaderLike, batch_size: int, *, drop_last: bool = False) -> Reader:
    """Return a reader of batches for a reader of samples or of batches; never batches twice.

    The attribute ``batched`` of the reader decides; for a plain function the first item of a pass
    decides, see ``is_batch``.

    Raises:
        ValueError: ``batch_size`` is not a whole number of 1 or more.
    """
    size = count("batch_size", batch_size, at_least=1)
    if getattr(reader, "batched", False):
        return cast("Reader", reader)

    def samples(epoch: int | None) -> Iterator[list[Sample]]:
        with open_samples(reader, epoch) as iterator:
            for first in iterator:
                rest = itertools.chain([first], iterator)
                again = functools.partial(iter, rest)
                # The first item decides: a plain function does not declare whether it yields
                # batches.
                yield from rest if is_batch(first) else batch(again, size, drop_last)()

    if isinstance(reader, ReaderStage | BlockReader):
        return batch(reader, size, drop_last)
    return ReaderStage([reader], samples, batched=True)


def is_batch(item: Any) -> bool:
    """Return whether an item of a reader is a batch: a list of tuples that is not empty."""
    return isinstance(item, list) and bool(item) and all(isinstance(row, tuple) for row in item)


def strict_batches(reader: ReaderLike) -> Reader:
    """Return a reader over the same batches, each checked by ``check_batch``.

    Raises:
        SampleShapeError: A batch is refused by ``check_batch``; raised by a pass.
    """
    source = block_reader(reader)
    if source is not None and source.batched and source.form is RowForm.TUPLE:
        return source

    def samples(epoch: int | None) -> Iterator[list[Sample]]:
        with open_samples(reader, epoch) as iterator:
            for number, items in enumerate(iterator):
                check_batch(items, number)
                yield items

    return ReaderStage([reader], samples, batched=True)


def check_batch(items: Any, number: int = 0) -> None:
    """Raise unless a batch is a list of tuples with equal numbers of columns.

    The batch ``[[1, 1, 1], [2, 2, 2]]`` is refused because it is ambiguous: a sample may have
    three columns, or one column that is a list. Write ``[(1, 1, 1), …]`` for the former, and
    ``[([1, 1, 1],), …]`` for the latter.

    Args:
        items: The batch.
        number: Number of the batch in its pass, for the message.

    Raises:
        SampleShapeError: The batch is not such a list.
    """
    if not isinstance(items, list):
        raise SampleShapeError(
            f"batch {number}: expected a list of tuples, got {type(items).__name__}"
        )
    for i, sample in enumerate(items):
        if not isinstance(sample, tuple):
            raise SampleShapeError(
                f"batch {number}, sample {i}: expected a tuple, got"
                f" {type(sample).__name__}; write ({_short(sample)},) for a sample of one column,"
                " or a tuple of its columns"
            )
        if len(sample) != len(items[0]):
            raise SampleShapeError(
                f"batch {number}, sample {i}: expected {len(items[0])} columns like sample 0, got"
                f" {len(sample)}"
            )


def _short(sample: Any) -> str:
    text = repr(sample)
    return text if len(text) <= 40 else f"{text[:37]}..."


# --- ``feed``: the columns of batches by name, for a training step


def feed(batch_reader: ReaderLike, feeding: Mapping[str, int | str]) -> Reader:
    """Return a reader over mappings from name to column of a batch.

    A column may be used twice or not at all. Blocks are used without a step per sample.

    Args:
        batch_reader: A reader of batches.
        feeding: Name → number of the column, from 0; or → field, if samples are mappings.

    Returns:
        A reader over mappings from name to array of shape ``(batch_size, *S)``; columns of text
        are lists.

    Raises:
        ValueError: The reader gives blocks that are not batches, or a number is negative.
        SampleShapeError: A column is missing, or its values cannot be stacked; raised at the first
            batch.
    """
    for name, column in feeding.items():
        if isinstance(column, int) and column < 0:
            raise ValueError(f"expected a column of 0 or more for {name!r}, got {column}")
    source = block_reader(batch_reader)
    if source is not None:
        return _feed_blocks(source, feeding)

    def samples(epoch: int | None) -> Iterator[dict[str, Any]]:
        with open_samples(batch_reader, epoch) as iterator:
            for number, batch in enumerate(iterator):
                columns = _columns(batch, number)
                yield {
                    name: _pick(columns, name, column, number) for name, column in feeding.items()
                }

    return ReaderStage([batch_reader], samples)


def collate(batch: Sequence[Sample], number: int = 0) -> tuple[Any, ...]:
    """Return the columns of a batch.

    Args:
        batch: Samples: tuples or lists of columns, or single values, which form one column.
        number: Number of the batch in its pass, for messages.

    Returns:
        Arrays of shape ``(len(batch), *S)``; columns of text and bytes are lists.

    Raises:
        SampleShapeError: Samples differ in the number of columns, or values of a column differ in
            shape or type, or a column holds None, masked values or other objects, or numpy would
            change a value of a list. Python integers may be mixed with floats if they are exact as
            floats.
    """
    columns = _columns(batch, number)
    return tuple(_stacked(columns[key], key, number) for key in columns)


def _feed_blocks(source: BlockReader, feeding: Mapping[str, int | str]) -> Reader:
    if not source.batched:
        raise ValueError("expected a reader of batches; batch its samples first")

    def blocks(epoch: int | None) -> Iterator[Block]:
        with open_blocks(source, epoch) as iterator:
            for number, block in enumerate(iterator):
                columns: dict[Any, Any] = dict(block)
                if source.form is not RowForm.MAPPING:
                    columns = dict(enumerate(block.values()))
                yield {name: _find(columns, name, key, number) for name, key in feeding.items()}

    return ReaderStage([source], blocks)


def _columns(batch: Sequence[Sample], number: int) -> dict[Any, list[Any]]:
    if not isinstance(batch, list | tuple) or not batch:
        found = "an empty one" if isinstance(batch, list | tuple) else type(batch).__name__
        raise SampleShapeError(f"batch {number}: expected a list of samples, got {found}")
    if isinstance(batch[0], Mapping | tuple | list):
        return fields_of(batch, f"batch {number}")
    return {0: list(batch)}


def _pick(columns: dict[Any, list[Any]], name: str, key: int | str, number: int) -> Any:
    return _stacked(_find(columns, name, key, number), key, number)


def _find(columns: Mapping[Any, Any], name: str, key: int | str, number: int) -> Any:
    if key not in columns:
        raise SampleShapeError(
            f"batch {number}: expected a column {key!r} for {name!r}, samples have"
            f" {len(columns)}: {list(columns)}; correct the mapping"
        )
    return columns[key]


def _are_floats(values: list[Any]) -> bool:
    """Return whether Python numbers are floats mixed with integers that are exact as floats."""
    kinds = {type(value) for value in values}
    return kinds == {int, float} and all(_is_exact(v) for v in values if type(v) is int)


def _is_exact(number: int) -> bool:
    try:
        return int(float(number)) == number
    except OverflowError:
        return False


def _stacked(values: list[Any], key: int | str, number: int) -> NDArray[Any] | list[Any]:
    if isinstance(values[0], str | bytes):
        return values
    where = f"batch {number}, column {key!r}"
    arrays = [array_in(value, where) for value in values]
    column = stacked(arrays, where)
    kinds = sorted({str(array.dtype) for array in arrays})
    if len(kinds) > 1 and not _are_floats(values):
        other = next(i for i, array in enumerate(arrays) if array.dtype != arrays[0].dtype)
        raise SampleShapeError(
            f"{where}: expected values of one type, got {kinds}; sample {other} is the first of"
            " another"
        )
    if column.dtype == object:
        names = sorted({type(value).__name__ for value in values})
        raise SampleShapeError(f"{where}: expected numbers or text, got {names}")
    return column


# --- Fields and arrays of a batch, for collate functions of all kinds

# The frequent ones first: the test of an abstract class takes longer.
_SEQUENCES: Final = (tuple, list, np.ndarray, Sequence)


def fields_of(batch: Sequence[Any], where: str) -> dict[Any, list[Any]]:
    """Return the values of the fields of samples: by name of mappings, by number of sequences.

    Args:
        batch: One or more samples; the first is a mapping or a sequence.
        where: The batch, for messages.

    Raises:
        SampleShapeError: A sample has other fields than the first.
    """
    first = batch[0]
    if isinstance(first, Mapping):
        for i, sample in enumerate(batch):
            if not isinstance(sample, Mapping) or sample.keys() != first.keys():
                raise SampleShapeError(
                    f"{where}, sample {i}: expected the fields {list(first)} like sample 0, got"
                    f" {list(sample) if isinstance(sample, Mapping) else type(sample).__name__}"
                )
        return {name: [sample[name] for sample in batch] for name in first}
    for i, sample in enumerate(batch):
        found = len(sample) if isinstance(sample, _SEQUENCES) else type(sample).__name__
        if found != len(first):
            raise SampleShapeError(
                f"{where}, sample {i}: expected {len(first)} columns like sample 0, got {found}"
            )
    return dict(enumerate(map(list, zip(*batch, strict=True))))


def stacked(arrays: Sequence[NDArray[Any]], where: str, remedy: str = "") -> NDArray[Any]:
    """Return arrays of one shape as one, of shape ``(len(arrays), *S)``.

    Args:
        arrays: One or more arrays; of several dtypes, the result has the one that numpy promotes
            them to.
        where: Batch and field, for messages.
        remedy: What to do, for messages.

    Raises:
        SampleShapeError: The shapes differ.
    """
    try:
        return np.stack(arrays)
    except ValueError:
        shapes = sorted({str(array.shape) for array in arrays})
        other = next(i for i, array in enumerate(arrays) if array.shape != arrays[0].shape)
        raise SampleShapeError(
            f"{where}: expected values of one shape, got {shapes}; sample {other} is the first of"
            f" another{remedy}"
        ) from None


def array_in(
    value: Any, where: str, *, make: Callable[[Any], NDArray[Any]] = array_of
) -> NDArray[Any]:
    """Return the array of a value; see ``array_of``, or ``make``.

    Raises:
        SampleShapeError: The value has no array, or numpy would change a value of a list.
    """
    try:
        return make(value)
    except SampleShapeError as error:
        raise SampleShapeError(f"{where}: {error}") from error
    except ValueError as error:
        raise SampleShapeError(
            f"{where}: expected numbers or lists of equal lengths, got {value!r:.80}; pad sequences"
            " of several lengths, and feed their lengths as a column of their own"
        ) from error
