"""Converts items of generators to columns, and checks the places of batches."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trainfeed.decorators import collate, is_batch
from trainfeed.errors import ConfigError, LoaderError, SampleShapeError
from trainfeed.readers import BlockReader, ReaderLike, RowForm, open_reader

__all__ = [
    "ColumnBatch",
    "as_arrays",
    "collated",
    "count_cpus",
    "num_bytes",
    "per_place",
    "refuse_batch",
]

# The arrays of a batch by position, or by name if the generator yields mappings.
ColumnBatch: TypeAlias = "list[Any] | dict[str, Any]"


def num_bytes(columns: ColumnBatch) -> int:
    """Return the size of the arrays of a batch in bytes."""
    values: Iterable[Any] = columns.values() if isinstance(columns, dict) else columns
    return sum(getattr(value, "nbytes", 0) for value in values)


def collated(
    reader: ReaderLike, check: Callable[[Any], None] | None = None
) -> Iterator[ColumnBatch]:
    """Yield the columns of batches; call ``check`` with the first sample of a pass."""
    if isinstance(reader, BlockReader) and reader.batched:
        with open_reader(reader.blocks) as blocks:
            for block in blocks:
                yield block if reader.form is RowForm.MAPPING else list(block.values())
        return
    with open_reader(reader) as iterator:
        for number, items in enumerate(iterator):
            if check is not None and not number:
                check(items[0])
            yield _columns(items, number)


def as_arrays(reader: ReaderLike) -> Iterator[ColumnBatch]:
    """Yield the columns of batches that are arrays already.

    Raises:
        SampleShapeError: A column consists of lists of different lengths.
    """
    with open_reader(reader) as iterator:
        for number, item in enumerate(iterator):
            if isinstance(item, Mapping):
                yield {name: _array(value, number) for name, value in item.items()}
            else:
                columns = item if isinstance(item, tuple | list) else (item,)
                yield [_array(column, number) for column in columns]


def per_place(
    batches: Iterator[ColumnBatch], num_places: int, *, names: list[str] | None, drop_last: bool
) -> Iterator[list[Any]]:
    """Yield batches in the form for static graphs: a list with one batch per place.

    Args:
        batches: Batches as columns by position.
        num_places: Number of places.
        names: Names of the columns, to yield mappings; None to yield lists of columns.
        drop_last: Whether to omit the last batches if they are fewer than the places.
    """
    with open_reader(lambda: batches):
        while group := list(itertools.islice(batches, num_places)):
            if len(group) < num_places and drop_last:
                return
            if names is None:
                yield group
            else:
                yield [dict(zip(names, columns, strict=True)) for columns in group]


def refuse_batch(sample: Any) -> None:
    """Raise if an item that should be a sample is a batch.

    Raises:
        LoaderError: The item is a batch.
    """
    if is_batch(sample):
        raise LoaderError(
            "expected samples, got a batch (a list of tuples); pass such a reader to"
            " set_sample_list_generator, or do not batch it"
        )


def _array(column: Any, number: int) -> NDArray[Any]:
    try:
        return np.asarray(column)
    except ValueError as error:
        raise SampleShapeError(
            f"batch {number}: expected arrays, or lists of equal lengths, got {column!r:.80}; pad"
            " sequences of several lengths, and feed their lengths as a column of their own"
        ) from error


def _columns(items: Any, number: int) -> ColumnBatch:
    columns = collate(items, number)
    first = items[0]
    return dict(zip(first, columns, strict=True)) if isinstance(first, Mapping) else list(columns)


def count_cpus(places: Any) -> int:
    """Return the number of places.

    Raises:
        ConfigError: A place is not the CPU, or the list is empty.
    """
    found = places if isinstance(places, list | tuple) else [places]
    for place in found:
        # The text of Paddle's own CPU place is "Place(cpu)".
        if place is not None and "cpu" not in str(place).lower():
            raise ConfigError(
                f"expected the CPU as place, got {place}; batches are made in main memory, copy"
                " them to the device in the training step"
            )
    if not found:
        raise ConfigError("expected at least one place, got an empty list")
    return len(found)
