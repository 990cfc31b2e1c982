"""Cuts the work of an interval into tasks: neither too many nor too large.

Airflow maps one task over each group, so there are at most ``MAX_TASKS`` of a stage; every shard
group reads every spill file, so their product is bounded as well. Nothing here changes what is
built.
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
    """How large pieces and tasks of a data set are.

    A *span* is counted in what ranges are counted in: offsets of a topic, bytes of log files.

    Attributes:
        range_span: Most of one range.
        task_span: What a task takes, about.
        span_per_record: What a record takes, about.
    """

    range_span: int
    task_span: int
    span_per_record: int

    @classmethod
    def of(cls, spec: DatasetSpec) -> Sizes:
        """The sizes that a specification asks for."""
        records = spec.resources.records_per_task
        measure = spec.source.kind.measure(records)
        span = measure.span_per_record
        return cls(measure.range_span, records * span, span)


def cut(inputs: Mapping[str, Planned], range_span: int) -> list[PlannedRange]:
    """Cut inputs into ranges of at most ``range_span`` offsets or bytes.

    An input that cannot be cut, as a compressed file, is one range. Inputs without a record
    in the interval give no range.
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
        Indices into ``ranges``; one empty group when there is no range, so that a stage always
        has a task.
    """
    return _group([r.end - r.start for r in ranges], task_span, MAX_TASKS)


def group_shards(
    shards: Mapping[str, int],
    ranges: Sequence[PlannedRange],
    groups: Sequence[Sequence[int]],
    task_span: int,
) -> list[list[PlannedShard]]:
    """Group shards, in split and shard order, so that a task writes what ``task_span`` gives.

    Args:
        shards: Number of shards per split.
        ranges: The ranges to read.
        groups: The split groups.
        task_span: Aim for the offsets or bytes whose samples a task writes.
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
    """Put indices into groups of neighbours that weigh about ``aim``, at most ``most`` groups."""
    # A group is closed once it has reached the aim, so total / aim bounds their number.
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
