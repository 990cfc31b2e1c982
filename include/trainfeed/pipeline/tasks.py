"""Cuts the work of an interval into tasks: neither too many nor too large."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final

from trainfeed.pipeline.plans import Planned, PlannedRange, PlannedShard
from trainfeed.samples import Schema
from trainfeed.specification import DatasetSpec
from trainfeed.versions.order import split_member

MAX_TASKS: Final = 512
MAX_RANGE_READS: Final = 16_384
# Most files of a task of a plan with a list: an account of each is in memory, and in its work file.
MOST_FILES: Final = 2048
# A run of sorted samples may take one sixth of the memory. Sorting holds the run three times: as
# blocks, joined, and in order. The other half is for the next block (as returned, encoded, added)
# and for the batch that is written.
RUN_COPIES: Final = 6
# Bytes of a sample besides its record: key, source, offset, ordinal, split, place in the order.
SAMPLE_BYTES: Final = 48
# The end of a record in a column of binary values.
_END_BYTES: Final = 8
# Tasks grow beyond ``records_per_task`` only where so many are left for machines to share, and at
# most by this factor: a task is what is done again after a kill, and its quarantine is bounded.
_SHARED_TASKS: Final = 16
_MOST_GROWTH: Final = 4


@dataclass(frozen=True)
class Sizes:
    """The sizes of pieces and tasks of a data set.

    A *span* has the unit of the ranges: offsets of a topic, bytes of log files.

    Attributes:
        range_span: The largest span of a range.
        task_span: The approximate span of a task.
        span_per_record: The approximate span of a record: 1 offset, or some bytes.
    """

    range_span: int
    task_span: int
    span_per_record: int

    @classmethod
    def of(cls, spec: DatasetSpec) -> Sizes:
        """Return the sizes that follow from a specification."""
        records = spec.resources.records_per_task
        measure = spec.source.kind.measure(records)
        span = measure.span_per_record
        return cls(measure.range_span, records * span, span)

    def grown(self, spec: DatasetSpec, inputs: Mapping[str, Planned]) -> Sizes:
        """Return the sizes for a large interval: fewer and larger tasks, ranges as they are.

        Fewer tasks are fewer files that ``convert`` merges. A task grows while its samples fit
        into one sorted run of one process, as otherwise they would be merged twice. Tasks stay as
        they are if dataset.yaml says ``records_per_task``, and if samples have no fixed size.
        """
        resources = spec.resources
        schema = Schema.from_json(spec.schema_fields())
        if "records_per_task" in resources.model_fields_set or not schema.is_fixed:
            return self
        run_bytes = resources.memory_bytes // resources.processes // RUN_COPIES
        sample_bytes = schema.record_dtype.itemsize + SAMPLE_BYTES + _END_BYTES
        planned = sum(each.end - each.start for each in inputs.values())
        factor = min(
            run_bytes // (sample_bytes * resources.records_per_task),
            planned // (_SHARED_TASKS * self.task_span),
            _MOST_GROWTH,
        )
        return replace(self, task_span=max(1, factor) * self.task_span)


def group_ranges(
    ranges: Sequence[PlannedRange],
    task_span: int,
    most: int | None = None,
    most_tasks: int = MAX_TASKS,
) -> list[list[int]]:
    """Group neighbouring ranges so that a task has about ``task_span`` offsets or bytes.

    Args:
        ranges: The ranges to read.
        task_span: The offsets or bytes of a task.
        most: About the most ranges of a task; None for any number.
        most_tasks: The most tasks.

    Returns:
        Indices into ``ranges``; one empty group if there is no range, so that a stage always
        has a task.
    """
    least = 0 if most is None else -(-task_span // most)
    return _group([max(least, r.end - r.start) for r in ranges], task_span, most_tasks)


def group_by_member(
    ranges: Sequence[PlannedRange], task_spans: Mapping[str | None, int], most: int | None = None
) -> list[list[int]]:
    """Group neighbouring ranges of each member of a union: a task reads one source.

    Args:
        ranges: The ranges to read, in order of their sources.
        task_spans: Name of each member → the offsets or bytes of a task; for a source that is no
            union the name is None.
        most: About the most ranges of a task; None for any number.

    Returns:
        As of ``group_ranges``; together at most ``MAX_TASKS`` groups.
    """
    groups: list[list[int]] = []
    members = [split_member(piece.source)[0] for piece in ranges]
    for member, found in groupby(enumerate(members), lambda pair: pair[1]):
        numbers = [number for number, _ in found]
        own = [ranges[number] for number in numbers]
        parts = group_ranges(own, task_spans[member], most, MAX_TASKS // len(task_spans))
        groups += [[numbers[index] for index in part] for part in parts]
    return groups or [[]]


def group_shards(
    shards: Mapping[str, int], planned: int, num_groups: int, task_span: int
) -> list[list[PlannedShard]]:
    """Group shards, in split and shard order, so that a task writes the samples of ``task_span``.

    Args:
        shards: Number of shards per split.
        planned: Offsets or bytes to read.
        num_groups: Number of groups of ranges, one spill file each.
        task_span: The offsets or bytes whose samples a task should write.
    """
    every = [
        PlannedShard(split=split, index=index)
        for split in sorted(shards)
        for index in range(shards[split])
    ]
    weight = max(1, planned // len(every))
    most = max(1, min(MAX_TASKS, MAX_RANGE_READS // num_groups))
    return [
        [every[index] for index in group]
        for group in _group([weight] * len(every), task_span, most)
    ]


def _group(weights: Sequence[int], aim: int, most: int) -> list[list[int]]:
    """Return at most ``most`` groups of neighbouring indices with weights of about ``aim``."""
    groups = _groups_below(weights, aim)
    if len(groups) <= most:
        return groups
    # The lowest limit that gives few enough: no group takes what the others leave. With the mean
    # and the largest weight together, every group but the last has more than the mean.
    limits = range(aim, sum(weights) // most + max(weights) + 1)
    lowest = bisect_left(limits, True, key=lambda limit: len(_groups_below(weights, limit)) <= most)
    return _groups_below(weights, aim + lowest)


def _groups_below(weights: Sequence[int], limit: int) -> list[list[int]]:
    """Return groups of neighbouring indices whose weights do not exceed ``limit``, or of one."""
    groups: list[list[int]] = [[]]
    full = 0
    for index, weight in enumerate(weights):
        if full + weight > limit and groups[-1]:
            groups.append([])
            full = 0
        groups[-1].append(index)
        full += weight
    return groups
