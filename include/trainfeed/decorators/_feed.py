"""``feed``: the columns of batches by name, for a training step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainfeed.decorators._reader_stage import ReaderStage, block_reader, open_blocks, open_samples
from trainfeed.decorators._start import Start
from trainfeed.errors import SampleShapeError
from trainfeed.readers import Block, BlockReader, Reader, ReaderLike, RowForm, Sample
from trainfeed.samples import array_of

__all__ = ["collate", "feed"]


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

    def samples(start: Start) -> Iterator[dict[str, Any]]:
        with open_samples(batch_reader, start) as iterator:
            for number, batch in enumerate(iterator, start.position):
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

    def blocks(start: Start) -> Iterator[Block]:
        with open_blocks(source, start) as iterator:
            for number, block in enumerate(iterator, start.position):
                columns: dict[Any, Any] = dict(block)
                if source.form is not RowForm.MAPPING:
                    columns = dict(enumerate(block.values()))
                yield {name: _find(columns, name, key, number) for name, key in feeding.items()}

    return ReaderStage([source], blocks)


def _columns(batch: Sequence[Sample], number: int) -> dict[Any, list[Any]]:
    if not isinstance(batch, list | tuple) or not batch:
        found = "an empty one" if isinstance(batch, list | tuple) else type(batch).__name__
        raise SampleShapeError(f"batch {number}: expected a list of samples, got {found}")
    first = batch[0]
    if isinstance(first, Mapping):
        for i, sample in enumerate(batch):
            if not isinstance(sample, Mapping) or sample.keys() != first.keys():
                raise SampleShapeError(
                    f"batch {number}, sample {i}: expected the fields {list(first)} like sample 0,"
                    f" got {list(sample) if isinstance(sample, Mapping) else type(sample).__name__}"
                )
        return {name: [sample[name] for sample in batch] for name in first}
    if not isinstance(first, tuple | list):
        return {0: list(batch)}
    for i, sample in enumerate(batch):
        if len(sample) != len(first):
            raise SampleShapeError(
                f"batch {number}, sample {i}: expected {len(first)} columns like sample 0, got"
                f" {len(sample)}"
            )
    return dict(enumerate(map(list, zip(*batch, strict=True))))


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
    first = values[0]
    if isinstance(first, str | bytes):
        return values
    where = f"batch {number}, column {key!r}"
    arrays = [_array(value, where) for value in values]
    try:
        column = np.stack(arrays)
    except ValueError:
        shapes = sorted({str(array.shape) for array in arrays})
        raise SampleShapeError(f"{where}: expected values of one shape, got {shapes}") from None
    kinds = sorted({str(array.dtype) for array in arrays})
    if len(kinds) > 1 and not _are_floats(values):
        raise SampleShapeError(f"{where}: expected values of one type, got {kinds}")
    if column.dtype == object:
        names = sorted({type(value).__name__ for value in values})
        raise SampleShapeError(f"{where}: expected numbers or text, got {names}")
    return column


def _array(value: Any, where: str) -> NDArray[Any]:
    try:
        return array_of(value)
    except SampleShapeError as error:
        raise SampleShapeError(f"{where}: {error}") from error
    except ValueError as error:
        raise SampleShapeError(
            f"{where}: expected numbers or lists of equal lengths, got {value!r:.80}; pad sequences"
            " of several lengths, and feed their lengths as a column of their own"
        ) from error
