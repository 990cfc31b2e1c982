"""How large a sample may be, and how many records a function gets at once.

A sample is held several times on its way: as the function made it, encoded, in a run, in a batch of
a work file as it is and compressed. So it may take a share of the memory; and records are given to
a function of batches in numbers that its samples so far let expect a bounded batch of.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from trainfeed.errors import MemoryLimitError, PreprocessError, TrainFeedError
from trainfeed.recordio import MAX_RAW_BYTES
from trainfeed.samples import Schema
from trainfeed.specification import DatasetSpec

__all__ = [
    "BatchSize",
    "SampleLimits",
    "field_bytes",
    "fitting_processes",
    "require_room_for_fields",
]

# A chunk holds the length of a record before it.
_MAX_SAMPLE_BYTES: Final = MAX_RAW_BYTES - 4
# Copies of a sample that there are at once, at most.
_COPIES: Final = 10
# Records that a function gets at once, at most: they and their samples stay in the cache.
_BATCH_ROWS: Final = 16_384
# A batch grows that many times at once, while its samples are small.
_GROWTH: Final = 4
_FIRST_SHARE: Final = 16
# What a field takes in a process besides samples: its codec, its statistics, and what is written of
# them. Measured with 10,000 fields of integers, which have frequent values besides a histogram.
_FIELD_BYTES: Final = 40 << 10


@dataclass(frozen=True)
class SampleLimits:
    """What the samples of one process may take.

    Attributes:
        memory_bytes: The setting, for all processes of a task.
        limit_bytes: The share of this process.
        block_bytes: What is encoded at once, about.
    """

    memory_bytes: int
    limit_bytes: int
    block_bytes: int

    @property
    def sample_bytes(self) -> int:
        """The most that a sample may take."""
        return min(_MAX_SAMPLE_BYTES, self.limit_bytes // _COPIES)

    def refusal(
        self, num_bytes: int, mistake: Callable[[str, str], PreprocessError]
    ) -> TrainFeedError:
        """Return the error of a sample that is larger.

        Args:
            num_bytes: What it takes.
            mistake: Makes an error of what a function did, and what to do.
        """
        made = f"made a sample of {num_bytes} bytes"
        if num_bytes > _MAX_SAMPLE_BYTES:
            return mistake(
                f"{made}, a record takes {_MAX_SAMPLE_BYTES} at most,", "return smaller samples"
            )
        needed = -(-num_bytes * _COPIES * self.memory_bytes // self.limit_bytes)
        expected = (
            f"expected at most {self.sample_bytes}, a tenth of what this process has of"
            f" resources.memory_bytes = {self.memory_bytes}"
        )
        remedy = (
            f"raise resources.memory_bytes to {needed}, lower resources.processes, or return"
            " smaller samples"
        )
        return MemoryLimitError(str(mistake(f"{made}, {expected},", remedy)))


class BatchSize:
    """How many records a function of batches gets at once.

    Args:
        sample_bytes: Of a sample, where all have one size; else None, and the first batch is small.
        block_bytes: What the samples of a batch should take, at most.

    Attributes:
        rows: How many.
    """

    def __init__(self, sample_bytes: int | None, block_bytes: int) -> None:
        self._block_bytes = block_bytes
        first = 1 if sample_bytes is None else block_bytes // (_FIRST_SHARE * max(1, sample_bytes))
        self.rows = max(1, min(_BATCH_ROWS, first))

    def learn(self, num_rows: int, num_bytes: int) -> None:
        """Take into account that so many records became samples of so many bytes."""
        fitting = num_rows * self._block_bytes // max(1, num_bytes)
        self.rows = max(1, min(_BATCH_ROWS, fitting, self.rows * _GROWTH))


def field_bytes(spec: DatasetSpec) -> int:
    """Return what the fields of a data set take in a process, besides samples."""
    return _FIELD_BYTES * len(spec.fields)


def require_room_for_fields(spec: DatasetSpec) -> None:
    """Refuse more fields than the memory has room for, before anything is read.

    Raises:
        MemoryLimitError: There are more; names the least that holds.
    """
    needed, resources = field_bytes(spec), spec.resources
    if needed > resources.memory_bytes:
        raise MemoryLimitError(
            f"data set {spec.name!r} has {len(spec.fields)} fields, whose codecs and"
            f" statistics take {needed} bytes, expected at most resources.memory_bytes ="
            f" {resources.memory_bytes}; nothing was read and nothing was published; raise"
            f" resources.memory_bytes to {needed}, or put fields of one dtype into one with a"
            " shape, then build the interval again"
        )


def fitting_processes(spec: DatasetSpec) -> int:
    """Return how many processes may share the memory while each has room for a sample.

    Samples that differ in size do not count, as nobody knows them yet; fields always do.
    """
    resources = spec.resources
    schema = Schema.from_json(spec.schema_fields())
    least = max(1, field_bytes(spec))
    if schema.is_fixed:
        least = max(least, _COPIES * schema.record_dtype.itemsize)
    return max(1, min(resources.processes, resources.memory_bytes // least))
