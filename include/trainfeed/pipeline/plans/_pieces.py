"""Cuts the work of an interval into tasks: neither too many nor too large.

Airflow runs one mapped task per group, so a stage has at most ``MAX_TASKS``. Every task of
``convert`` reads every spill file, so the product of both numbers is bounded as well. The grouping
never changes the published bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from trainfeed.pipeline.plans._plan_file import Planned, PlannedRange, PlannedShard
from trainfeed.specification import DatasetSpec

__all__ = ["MAX_RANGE_READS", "MAX_TASKS", "Sizes", "cut", "group_ranges", "group_shards"]

MAX_TASKS: Final = 512
MAX_RANGE_READS: Final = 16_384


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


def cut(inputs: Mapping[str, Planned], range_span: int) -> list[PlannedRange]:
    """Cut inputs into ranges of at most ``range_span`` offsets or bytes.

    An input that cannot be cut, such as a compressed file, is one range. An empty input gives none.
    """
    return [
        PlannedRange(source=source, start=start, end=min(start + step, planned.end))
        for source, planned in sorted(inputs.items(), key=lambda item: item[0].encode())
        if (step := range_span if planned.is_cut else planned.end - planned.start) > 0
        for start in range(planned.start, planned.end, step)
    ]


def group_ranges(ranges: Sequence[PlannedRange], task_span: int) -> list[list[int]]:
    """Group neighbouring ranges so that a task has about ``task_span`` offsets or bytes.

    Returns:
        Indices into ``ranges``; one empty group if there is no range, so that a stage always
        has a task.
    """
    return _group([r.end - r.start for r in ranges], task_span, MAX_TASKS)


def group_shards(
    shards: Mapping[str, int],
    ranges: Sequence[PlannedRange],
    groups: Sequence[Sequence[int]],
    task_span: int,
) -> list[list[PlannedShard]]:
    """Group shards, in split and shard order, so that a task writes the samples of ``task_span``.

    Args:
        shards: Number of shards per split.
        ranges: The ranges to read.
        groups: The groups of ranges, one spill file each.
        task_span: The offsets or bytes whose samples a task should write.
    """
    every = [
        PlannedShard(split=split, index=index)
        for split in sorted(shards)
        for index in range(shards[split])
    ]
    planned = sum(r.end - r.start for r in ranges)
    weight = max(1, planned // len(every))
    most = max(1, min(MAX_TASKS, MAX_RANGE_READS // len(groups)))
    return [
        [every[index] for index in group]
        for group in _group([weight] * len(every), task_span, most)
    ]


def _group(weights: Sequence[int], aim: int, most: int) -> list[list[int]]:
    """Return at most ``most`` groups of neighbouring indices with weights of about ``aim``."""
    # A larger aim where total / aim would give more than ``most`` groups.
    aim = max(aim, -(-sum(weights) // most))
    groups: list[list[int]] = [[]]
    full = 0
    for index, weight in enumerate(weights):
        if full + weight > aim and groups[-1] and len(groups) < most:
            groups.append([])
            full = 0
        groups[-1].append(index)
        full += weight
    return groups
