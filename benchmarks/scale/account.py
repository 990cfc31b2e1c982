"""What an interval of very many records would ask of Airflow, HDFS, CephFS and memory.

``python -m benchmarks.scale.account [--records 1e9] [--partitions 64] [--per-task 100000]
[--per-shard 100000]`` plans a topic of so many records with the planner's own functions, reads
nothing, and prints tasks, files, operations on them, bytes of plan and manifest, and hours of
processor time. More than one ``--records`` gives a column each; a column ends where a bound gives.

Times and sizes of a record are those of ``docs/authors/measured-build.md``: options change them.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from trainfeed.core import canonical_json
from trainfeed.errors import TrainFeedError
from trainfeed.pipeline.plans import (
    Planned,
    PlannedInput,
    PlannedRange,
    PlannedShard,
    cut,
)
from trainfeed.pipeline.tasks import Sizes, group_ranges, group_shards
from trainfeed.versions.order import check_shards, num_shards

SPLITS: Final = {"eval": 100_000, "train": 900_000}
TOPIC: Final = {
    "connection": "kafka_default",
    "topic": "events",
    "topic_uuid": "0" * 22,
    "cluster": "0" * 22,
}
HOUR_S: Final = 3600
# Where a file is made: create, add a block, complete, rename. A reader: open, or look at it.
MADE: Final = 4


@dataclass(frozen=True)
class Costs:
    """What a record costs.

    Attributes:
        ingest: Microseconds of one processor from the source to the landing file.
        preprocess: The same from there to the spill file.
        convert: The same from there to the shard.
        last: The same of `check` and `publish`, each of which is one task.
        landed: Bytes in landing files.
        spilled: Bytes in spill files.
        published: Bytes in shards.
    """

    ingest: float
    preprocess: float
    convert: float
    last: float
    landed: float
    spilled: float
    published: float


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=float, nargs="+", default=[1e8, 1e9, 1e10])
    parser.add_argument("--partitions", type=int, default=64)
    parser.add_argument("--per-task", type=int, default=100_000)
    parser.add_argument("--per-shard", type=int, default=100_000)
    for name, value in (("ingest", 2.2), ("preprocess", 3.9), ("convert", 1.6), ("last", 0.4)):
        parser.add_argument(f"--{name}", type=float, default=value, help="µs a record")
    for name, value in (("landed", 75), ("spilled", 80), ("published", 60)):
        parser.add_argument(f"--{name}", type=float, default=value, help="bytes a record")
    args = parser.parse_args()
    costs = Costs(
        args.ingest,
        args.preprocess,
        args.convert,
        args.last,
        args.landed,
        args.spilled,
        args.published,
    )
    columns = [
        dict(account(int(records), args.partitions, args.per_task, args.per_shard, costs))
        for records in args.records
    ]
    sys.stdout.writelines(f"{line}\n" for line in table(columns))


def account(
    records: int, partitions: int, per_task: int, per_shard: int, costs: Costs
) -> Iterator[tuple[str, str]]:
    """Yield name → value of the rows of one column; the last one says which bound gave, if any."""
    yield "records", f"{records:.0e}"
    inputs = topic(records, partitions)
    sizes = Sizes(range_span=per_task, task_span=per_task, span_per_record=1)
    ranges = cut(inputs, sizes.range_span)
    groups = group_ranges(ranges, sizes.task_span)
    try:
        shards = {split: num_shards(records, part, per_shard) for split, part in SPLITS.items()}
        check_shards("events", shards)
    except TrainFeedError as error:
        yield "bound", str(error)
        return
    convert = group_shards(
        shards, sum(each.end - each.start for each in ranges), len(groups), sizes.task_span
    )
    yield from tasks(records, groups, convert, costs)
    yield from files(records, len(ranges), len(groups), len(convert), sum(shards.values()), costs)
    yield "plan, MB", f"{plan_bytes(inputs, ranges, groups, convert) / 1e6:.1f} of 67"


def topic(records: int, partitions: int) -> dict[str, Planned]:
    """Return the planned inputs of a topic whose partitions have about equally many records."""
    share = -(-records // partitions)
    return {
        f"kafka:events/{number}": PlannedInput(**TOPIC, partition=number, start=0, end=share)
        for number in range(partitions)
    }


def tasks(
    records: int,
    groups: Sequence[Sequence[int]],
    convert: Sequence[Sequence[PlannedShard]],
    costs: Costs,
) -> Iterator[tuple[str, str]]:
    """Yield numbers and times of the tasks of Airflow."""
    # The stages plan, check, publish and those behind it are one task each.
    yield "tasks of Airflow", f"{2 * len(groups) + len(convert) + 5:,}"
    for name, number, cost in (
        ("ingest", len(groups), costs.ingest),
        ("preprocess", len(groups), costs.preprocess),
        ("convert", len(convert), costs.convert),
    ):
        whole = records * cost / 1e6
        yield f"{name}: tasks, s each", f"{number}, {whole / number:.0f}"
        yield f"{name}: processor hours", f"{whole / HOUR_S:.2f}"
    yield "check and publish, s", f"{records * costs.last / 1e6:.0f}"
    yield "records of a task of convert", f"{records // len(convert):,}"


def files(
    records: int, ranges: int, groups: int, converts: int, shards: int, costs: Costs
) -> Iterator[tuple[str, str]]:
    """Yield files, bytes, and operations on files."""
    yield "landing files, MB each", f"{ranges:,}, {records * costs.landed / ranges / 1e6:.1f}"
    yield "spill files, MB each", f"{groups}, {records * costs.spilled / groups / 1e6:.0f}"
    yield "opened by all tasks of convert", f"{groups * converts:,}"
    yield "shards, MB each", f"{shards:,}, {records * costs.published / shards / 1e6:.1f}"
    yield "HDFS: operations of the NameNode", f"{ranges * (MADE + 2):,}"
    made = (groups + shards) * MADE + groups * converts + 2 * shards
    yield "CephFS: operations of the MDS", f"{made:,}"
    yield "HDFS, GB", f"{records * costs.landed / 1e9:.0f}"
    written = records * (costs.spilled + costs.published)
    yield "CephFS: written and read, GB", f"{written / 1e9:.0f}, {written / 1e9:.0f}"


def plan_bytes(
    inputs: Mapping[str, Planned],
    ranges: Iterable[PlannedRange],
    groups: Sequence[Sequence[int]],
    convert: Iterable[Iterable[PlannedShard]],
) -> int:
    """Return the bytes of the parts of a plan that grow with its records."""
    parts = {
        "inputs": {name: each.model_dump() for name, each in inputs.items()},
        "ranges": [each.model_dump() for each in ranges],
        "ingest": list(groups),
        "preprocess": list(groups),
        "convert": [[each.model_dump() for each in group] for group in convert],
    }
    return len(canonical_json.dumps(parts))


def table(columns: Sequence[Mapping[str, str]]) -> Iterator[str]:
    """Yield the lines of a table in Markdown."""
    names = list(dict.fromkeys(name for column in columns for name in column))
    for number, name in enumerate(names):
        yield f"| {' | '.join([name, *(column.get(name, '') for column in columns)])} |"
        if number == 0:
            yield f"| --- |{' ---: |' * len(columns)}"


if __name__ == "__main__":
    main()
