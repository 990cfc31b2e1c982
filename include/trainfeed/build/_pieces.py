"""Cuts the work of an interval into tasks: neither too many nor too large.

Airflow maps one task over each group, so there are at most ``MAX_TASKS`` of a stage; every shard
group reads every spill file, so their product is bounded as well. Nothing here changes what is
built.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from trainfeed.build._plan_file import PlannedInput, PlannedRange, PlannedShard

__all__ = ["MAX_RANGE_READS", "MAX_TASKS", "cut", "group_ranges", "group_shards"]

MAX_TASKS: Final = 512
MAX_RANGE_READS: Final = 16_384


def cut(inputs: Mapping[str, PlannedInput], records_per_task: int) -> list[PlannedRange]:
    """Cut inputs into landing files of at most ``records_per_task`` offsets.

    Inputs without a record in the interval give no range.
    """
    return [
        PlannedRange(source=source, start=start, end=min(start + records_per_task, planned.end))
        for source, planned in sorted(inputs.items(), key=lambda item: item[0].encode())
        for start in range(planned.start, planned.end, records_per_task)
    ]


def group_ranges(ranges: Sequence[PlannedRange], records_per_task: int) -> list[list[int]]:
    """Group neighbouring ranges so that a task has about ``records_per_task`` offsets.

    Returns:
        Indices into ``ranges``; one empty group when there is no range, so that a stage always
        has a task.
    """
    return _group([r.end - r.start for r in ranges], records_per_task, MAX_TASKS)


def group_shards(
    shards: Mapping[str, int],
    ranges: Sequence[PlannedRange],
    groups: Sequence[Sequence[int]],
    records_per_task: int,
) -> list[list[PlannedShard]]:
    """Group shards, in split and shard order, so that a task writes ``records_per_task`` samples.

    Args:
        shards: Number of shards per split.
        ranges: The ranges to read.
        groups: The split groups.
        records_per_task: Aim for the samples of a task.
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
        for group in _group([weight] * len(every), records_per_task, most)
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
