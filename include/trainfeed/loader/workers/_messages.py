"""What crosses the border between a loader and its worker processes."""

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
    """What a worker is told when it starts.

    Attributes:
        children: The sets, each with its order.
        slot_bytes: Size of a slot.
        num_slots: How many there are in the shared memory.
    """

    children: Sequence[tuple[Source, Order]]
    slot_bytes: int
    num_slots: int


class Question(NamedTuple):
    """A window to load.

    Attributes:
        number: Of the question, from 0.
        slot: Where to put the window.
        task: Which window.
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
        values: Its values; of a ragged one all its bytes, one sample after another.
        ends: Of a ragged one: where the samples end in them, shape ``(n,)``.
        absent: Which samples lack the field.
        kind: Of a ragged one, see ``Ragged``; "object" for pickled values; "" for dense ones.
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
        number: Of the question.
        packed: Where its columns are in the slot; None when it did not fit.
        columns: Its columns, when they did not fit.
        num_samples: How many samples it has.
        error: What kept the rest from being loaded.
        seconds: What loading took.
        num_reread: How often reads were tried again so far.
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
        ConfigError: Another process could not make sense of it.
    """
    try:
        return bytes(ForkingPickler.dumps(value))
    except Exception as error:
        raise ConfigError(
            f"the dataset cannot be sent to worker processes: {error}; define its class in a"
            " module, keep open files and locks out of it, or use num_threads"
        ) from error


def load(data: bytes) -> Any:
    """Return the value that ``dump`` made bytes of."""
    return ForkingPickler.loads(io.BytesIO(data).getbuffer())
