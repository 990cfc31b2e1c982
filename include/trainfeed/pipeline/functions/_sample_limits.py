"""Limits for the size of a sample, and for the number of records in a batch of a function.

A sample is in memory several times on its way: as the function returned it, encoded, in a sorted
run, and in a batch of a work file, plain and compressed. A sample may therefore take only a share
of the memory. The number of records in the next batch follows from the size of the samples so far.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from trainfeed.errors import MemoryLimitError, PreprocessError, TrainFeedError
from trainfeed.recordio import MAX_RAW_BYTES
from trainfeed.samples import Schema, components_of_schema
from trainfeed.specification import DatasetSpec

__all__ = [
    "BatchSize",
    "SampleLimits",
    "field_bytes",
    "fitting_processes",
    "require_room_for_fields",
    "room_for_samples",
]

# A chunk stores the length of a record, 4 bytes, before the record.
_MAX_SAMPLE_BYTES: Final = MAX_RAW_BYTES - 4
# At most so many copies of a sample are in memory at once.
_COPIES: Final = 10
# Most records of a batch: with their samples, they stay in the processor's cache.
_BATCH_ROWS: Final = 16_384
# A batch has at most so many times the records of the batch before, while samples are small.
_GROWTH: Final = 4
_FIRST_SHARE: Final = 16
# Memory of a field or component besides samples: codec, statistics, and their JSON. Measured with
# 10,000 fields of integers, whose statistics have frequent values and a histogram.
_FIELD_BYTES: Final = 40 << 10


@dataclass(frozen=True)
class SampleLimits:
    """The memory that the samples of one process may take.

    Attributes:
        memory_bytes: The setting, for all processes of a task.
        limit_bytes: The share of this process.
        block_bytes: About how many bytes are encoded at once.
    """

    memory_bytes: int
    limit_bytes: int
    block_bytes: int

    @property
    def sample_bytes(self) -> int:
        """The most bytes that a sample may take."""
        return min(_MAX_SAMPLE_BYTES, self.limit_bytes // _COPIES)

    def refusal(
        self, num_bytes: int, mistake: Callable[[str, str], PreprocessError]
    ) -> TrainFeedError:
        """Return the error for a sample that is too large.

        Args:
            num_bytes: Size of the sample.
            mistake: Makes the error from a description of the mistake, and the remedy.
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
    """The number of records in the next batch of a function in batch mode.

    Args:
        sample_bytes: Size of a sample if it is fixed; else None, and the first batch is one record.
        block_bytes: The most bytes that the samples of a batch should take.

    Attributes:
        rows: Number of records in the next batch.
    """

    def __init__(self, sample_bytes: int | None, block_bytes: int) -> None:
        self._block_bytes = block_bytes
        first = 1 if sample_bytes is None else block_bytes // (_FIRST_SHARE * max(1, sample_bytes))
        self.rows = max(1, min(_BATCH_ROWS, first))

    def learn(self, num_rows: int, num_bytes: int) -> None:
        """Take into account that ``num_rows`` records became samples of ``num_bytes`` bytes."""
        fitting = num_rows * self._block_bytes // max(1, num_bytes)
        self.rows = max(1, min(_BATCH_ROWS, fitting, self.rows * _GROWTH))


def field_bytes(spec: DatasetSpec) -> int:
    """Return the bytes that the fields of a data set take in a process, besides samples."""
    components = components_of_schema(Schema.from_json(spec.schema_fields()))
    return _FIELD_BYTES * (len(spec.fields) + components)


def require_room_for_fields(spec: DatasetSpec) -> None:
    """Refuse more fields than the memory has room for, before anything is read.

    Raises:
        MemoryLimitError: There are more; the message has the ``memory_bytes`` that would suffice.
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
    """Return how many processes can share the memory, each with room for one sample.

    Samples without a fixed size do not count, because their sizes are not known yet; fields do.
    """
    resources = spec.resources
    schema = Schema.from_json(spec.schema_fields())
    least = max(1, field_bytes(spec))
    if schema.is_fixed:
        least = max(least, _COPIES * schema.record_dtype.itemsize)
    return max(1, min(resources.processes, resources.memory_bytes // least))


def room_for_samples(spec: DatasetSpec) -> int:
    """Return the memory that the statistics of the fields leave, at least a quarter of all."""
    memory_bytes = spec.resources.memory_bytes
    return max(memory_bytes // 4, memory_bytes - field_bytes(spec))
