"""Checks that the batches of a child process fit into the available memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from trainfeed.compat.paddle.loading._generator_columns import ColumnBatch, num_bytes
from trainfeed.errors import MemoryLimitError
from trainfeed.memory_group import available_bytes
from trainfeed.readers import open_reader

__all__ = ["fitting", "require_memory"]

# Batches outside of the queue: one being made, and one held by the consumer.
_MORE_BATCHES: Final = 2


def fitting(read: Callable[[], Iterator[ColumnBatch]], capacity: int) -> Iterator[ColumnBatch]:
    """Yield batches; check the memory before the first batch, and before every larger batch.

    Raises:
        MemoryLimitError: See ``require_memory``.
    """
    most_bytes = -1
    with open_reader(read) as batches:
        for columns in batches:
            if num_bytes(columns) > most_bytes:
                most_bytes = num_bytes(columns)
                require_memory(capacity, most_bytes)
            yield columns


def require_memory(capacity: int, batch_bytes: int) -> None:
    """Raise unless ``capacity`` batches and the batches in use fit into memory.

    Anonymous shared memory counts as ordinary memory of the container; the size of ``/dev/shm``
    does not matter.

    Raises:
        MemoryLimitError: The batches do not fit.
    """
    need_bytes = (capacity + _MORE_BATCHES) * batch_bytes
    left_bytes = available_bytes()
    if left_bytes is not None and need_bytes > left_bytes:
        raise MemoryLimitError(
            f"{capacity} batches of {batch_bytes} bytes ahead, and {_MORE_BATCHES} in use, need"
            f" {need_bytes} bytes; {left_bytes} are left; lower capacity or the batch size, raise"
            " the memory limit, or use a thread (use_multiprocess=False) and less capacity"
        )
