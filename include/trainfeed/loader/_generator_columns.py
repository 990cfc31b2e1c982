"""What generators give, as columns; and where batches may be wanted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from trainfeed.decorators import collate, is_batch
from trainfeed.errors import ConfigError, LoaderError
from trainfeed.readers import BlockReader, ReaderLike, RowForm, open_reader

__all__ = ["ColumnBatch", "collated", "count_cpus", "num_bytes", "refuse_batch"]

# The arrays of a batch by position, or by name where the generator gives mappings.
ColumnBatch: TypeAlias = "list[Any] | dict[str, Any]"


def num_bytes(columns: ColumnBatch) -> int:
    """Return what the arrays of a batch take."""
    values: Iterable[Any] = columns.values() if isinstance(columns, dict) else columns
    return sum(getattr(value, "nbytes", 0) for value in values)


def collated(
    reader: ReaderLike, check: Callable[[Any], None] | None = None
) -> Iterator[ColumnBatch]:
    """Yield the columns of batches; ``check`` is called with the first sample of a pass."""
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


def refuse_batch(sample: Any) -> None:
    """Raise if what should be a sample is a batch.

    Raises:
        LoaderError: It is one.
    """
    if is_batch(sample):
        raise LoaderError(
            "expected samples, got a batch (a list of tuples); pass such a reader to"
            " set_sample_list_generator, or do not batch it"
        )


def _columns(items: Any, number: int) -> ColumnBatch:
    columns = collate(items, number)
    first = items[0]
    return dict(zip(first, columns, strict=True)) if isinstance(first, Mapping) else list(columns)


def count_cpus(places: Any) -> int:
    """Return how many places are wanted.

    Raises:
        ConfigError: One of them is not the CPU, or there is none.
    """
    found = places if isinstance(places, list | tuple) else [places]
    for place in found:
        # Paddle writes its own Place(cpu).
        if place is not None and "cpu" not in str(place).lower():
            raise ConfigError(
                f"expected the CPU as place, got {place}; batches are made in main memory, copy"
                " them to the device in the training step"
            )
    if not found:
        raise ConfigError("expected at least one place, got an empty list")
    return len(found)
