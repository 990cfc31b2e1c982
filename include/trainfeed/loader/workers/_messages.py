"""The messages between a loader and its worker processes."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.reduction import ForkingPickler
from threading import Event
from typing import Any, Final, NamedTuple

import numpy as np

from trainfeed.errors import ConfigError
from trainfeed.loader.columns import Columns
from trainfeed.loader.order import Order, Task
from trainfeed.loader.sources import Source

__all__ = [
    "IMPORTING_MAIN",
    "Answer",
    "LoaderJob",
    "PackedArray",
    "PackedColumn",
    "Question",
    "dump",
    "load",
]

# Set in a worker process while it imports the main program for a class that is defined there.
IMPORTING_MAIN: Final = Event()


@dataclass(frozen=True)
class LoaderJob:
    """The first message to a worker: the sets, and the layout of the shared memory.

    Attributes:
        children: The sets, each with its order.
        slot_bytes: Size of a slot.
        num_slots: Number of slots in the shared memory.
    """

    children: Sequence[tuple[Source, Order]]
    slot_bytes: int
    num_slots: int


class Question(NamedTuple):
    """A window to load.

    Attributes:
        number: Number of the question, from 0.
        slot: Number of the slot for the window.
        task: The window.
    """

    number: int
    slot: int
    task: Task


class PackedArray(NamedTuple):
    """An array in a slot."""

    offset_bytes: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype[Any]


class PackedColumn(NamedTuple):
    """A column in a slot.

    Attributes:
        values: The values; for a ragged column the bytes of all samples, in order.
        ends: For a ragged column the end of each sample in ``values``, shape ``(n,)``; otherwise
            None.
        absent: True for samples without the field; None if no sample lacks it.
        kind: For a ragged column see ``Ragged``; "object" for pickled values; "" for dense ones.
        item_shape: See ``Ragged``.
    """

    values: PackedArray
    ends: PackedArray | None = None
    absent: PackedArray | None = None
    kind: str = ""
    item_shape: tuple[int, ...] = ()


class Answer(NamedTuple):
    """A window that was loaded.

    Attributes:
        number: Number of the question; -1 for an error of the worker itself.
        packed: Places of the columns in the slot; None when they did not fit.
        columns: The columns themselves when they did not fit; otherwise None.
        num_samples: Number of samples.
        error: The reason why later samples were not loaded; None if all were.
        seconds: Seconds that loading took.
        num_reread: Number of reads that the worker has repeated so far.
    """

    number: int
    packed: dict[str, PackedColumn] | None
    columns: Columns | None
    num_samples: int
    error: BaseException | None
    seconds: float
    num_reread: int


def dump(value: Any) -> bytes:
    """Return a value as bytes for a worker.

    Raises:
        ConfigError: The value cannot be pickled.
    """
    try:
        return bytes(ForkingPickler.dumps(value))
    except Exception as error:
        raise ConfigError(
            f"the dataset cannot be sent to worker processes: {error}; define its class in a"
            " module, keep open files and locks out of it, or use num_threads"
        ) from error


def load(data: bytes) -> Any:
    """Return the value that ``dump`` turned into bytes."""
    return ForkingPickler.loads(io.BytesIO(data).getbuffer())
