"""``python -m benchmarks.boundaries``: records read per boundary, and the time that a plan takes.

Questions: how many records are looked at per boundary (plain logs, bursts stamped ahead, three
million records), and how long do both boundaries of a topic of 100 partitions, and the whole stage
``plan``, take on a broker?

Method: topics held in memory count the records that are looked at; six days, both boundaries of
every day from the first to the last. With ``--kafka HOST:PORT`` a topic of 100 partitions is made,
filled and planned; a run with empty boundary files is one figure. Stage ``plan`` is called as a
build does, with everything around the boundaries: states, losses, pieces, the plan file.
docs/authors/measured.md has the results.
"""

from __future__ import annotations

import tempfile
import time
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Final

import numpy as np
import typer
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from numpy.typing import NDArray

from trainfeed.core.config import Environment, KafkaSettings
from trainfeed.core.intervals import Interval
from trainfeed.pipeline.inputs.boundaries import resolve_boundary
from trainfeed.pipeline.plan import plan
from trainfeed.sources import (
    KafkaTopic,
    Known,
    PartitionState,
    Stamps,
    TopicIdentity,
    find_boundaries,
)
from trainfeed.specification import load_spec
from trainfeed.versions import DatasetFolder, init_root

_START: Final = datetime(2024, 1, 1, tzinfo=UTC)
_START_MS: Final = int(_START.timestamp() * 1000)
_DAY_MS: Final = 86_400_000
_DAYS: Final = 6
_YEAR_2099_MS: Final = 4_070_908_800_000
_PARTITIONS: Final = 100
_SPEC: Final = """
name: bench
schedule: "@daily"
start: 2024-01-01
source: {kafka: {topic: TOPIC}}
preprocess: {function: "preprocess:row"}
schema: {value: {dtype: int64}}
"""

_Array = NDArray[np.int64]


class _Counted:
    """One partition in memory, without holes, with the index of a broker."""

    def __init__(self, stamps: _Array) -> None:
        self.identity = TopicIdentity("counted", "id", "memory")
        self.stamps = stamps
        self.num_read = 0

    def states(self) -> dict[int, PartitionState]:
        return {0: PartitionState(0, len(self.stamps), len(self.stamps), None)}

    is_compacted = False

    def offsets_at(self, times_ms: Mapping[int, int]) -> dict[int, int | None]:
        hits = self.stamps >= times_ms[0]
        return {0: int(np.argmax(hits)) if hits.any() else None}

    def read_stamps(
        self, partition: int, start: int, end: int, *, max_records: int, max_bytes: int = 1 << 24
    ) -> Stamps:
        del partition
        stop = min(end, start + min(max_records, max(1, max_bytes // 100)))
        self.num_read += stop - start
        return Stamps(np.arange(start, stop), self.stamps[start:stop], 100 * (stop - start), stop)


def _days(records: int) -> list[_Array]:
    return [
        _START_MS + day * _DAY_MS + np.arange(records, dtype=np.int64) * _DAY_MS // records
        for day in range(_DAYS)
    ]


def _with_burst(records: int, length: int, stamp_ms: int) -> _Array:
    first, *others = _days(records)
    half = records // 2
    return np.concatenate([first[:half], np.full(length, stamp_ms), first[half:], *others])


def _cases() -> dict[str, _Array]:
    ahead = _START_MS + 4 * _DAY_MS + 3_600_000
    return {
        "300 records a day": np.concatenate(_days(300)),
        "50,000 records a day": np.concatenate(_days(50_000)),
        "500,000 records a day (3 M)": np.concatenate(_days(500_000)),
        "300 a day, burst of 5,000 by days": _with_burst(300, 5_000, ahead),
        "300 a day, burst of 5,000 of 2099": _with_burst(300, 5_000, _YEAR_2099_MS),
        "50,000 a day, burst of 5,000 by days": _with_burst(50_000, 5_000, ahead),
        "500,000 a day, burst of 200,000 by days": _with_burst(500_000, 200_000, ahead),
        "500,000 a day, burst of 200,000 of 2099": _with_burst(500_000, 200_000, _YEAR_2099_MS),
    }


def _measure(stamps: _Array) -> tuple[list[int], int]:
    """Return the records looked at per boundary, nightly order, and how many days are wrong."""
    reads, wrong, floor = [], 0, None
    for day in range(_DAYS + 1):
        topic = _Counted(stamps)
        at_ms = _START_MS + day * _DAY_MS
        known = {0: Known(floor=floor)}
        found = find_boundaries(
            topic,  # type: ignore[arg-type] - only what a search asks for
            at_ms,
            skew_ms=_DAY_MS,
            clock_ms=_START_MS + 30 * _DAY_MS,
            known=known,
        )
        floor = found[0].offset
        reads.append(topic.num_read)
        right = stamps[floor:][stamps[floor:] < at_ms]
        wrong += len(right) > 0
    return reads, wrong


def _fill(servers: str, name: str, records: int) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(name, _PARTITIONS, 1)])[name].result(60)
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 50})
    for day in _days(records)[:3]:
        for partition in range(_PARTITIONS):
            for stamp in day.tolist():
                while True:
                    try:
                        producer.produce(name, b"x" * 100, partition=partition, timestamp=stamp)
                        break
                    except BufferError:
                        producer.poll(0.1)
    producer.flush(120)


def _find(servers: str, name: str) -> tuple[float, float]:
    """Return seconds of both boundaries of a day, and of the next day's one new boundary."""
    skew_ms = _DAY_MS
    with (
        tempfile.TemporaryDirectory() as root,
        KafkaTopic({"bootstrap.servers": servers}, name) as topic,
    ):
        folder = DatasetFolder(Path(root), "bench")
        times = [time.perf_counter()]
        for day in (0, 1, 2):
            resolve_boundary(folder, topic, _START + timedelta(days=day), skew_ms=skew_ms)
            times.append(time.perf_counter())
    return times[2] - times[0], times[3] - times[2]


def _plan(servers: str, name: str) -> list[float]:
    """Return the seconds of stage ``plan`` for the first day of a data set, and for the next."""
    with tempfile.TemporaryDirectory() as root:
        path = Path(root)
        (path / "bench").mkdir()
        (path / "bench" / "dataset.yaml").write_text(_SPEC.replace("TOPIC", name))
        (path / "bench" / "preprocess.py").write_text("def row(record, lookups): ...\n")
        init_root(path / "root")
        env = Environment(
            root=str(path / "root"),
            landing=str(path / "landing"),
            work=str(path / "work"),
            kafka={"kafka_default": KafkaSettings(client={"bootstrap.servers": servers})},
            datasets=path,
        )
        spec = load_spec(path / "bench")
        days = [_START + timedelta(days=number) for number in range(3)]
        intervals = [Interval(a, b, f"{a:%Y-%m-%d}") for a, b in pairwise(days)]
        return [plan(spec, interval, env).seconds for interval in intervals]


def main(
    *,
    kafka: Annotated[str | None, typer.Option(help="Brokers: measure 100 partitions.")] = None,
    records: Annotated[int, typer.Option(help="Per partition and day, on the broker.")] = 2_000,
    rounds: Annotated[int, typer.Option(help="Plans to measure.")] = 3,
) -> None:
    """Print one line per case."""
    if kafka is None:
        for name, stamps in _cases().items():
            reads, wrong = _measure(stamps)
            mean, most = sum(reads) / len(reads), max(reads)
            typer.echo(f"{name}: mean {mean:.0f}, most {most}, boundaries before a late {wrong}")
        return
    name = f"bench-{uuid.uuid4().hex[:8]}"
    _fill(kafka, name, records)
    for _ in range(rounds):
        both, one = _find(kafka, name)
        typer.echo(f"{_PARTITIONS} partitions: first two boundaries {both:.2f} s, next {one:.2f} s")
        first, following = _plan(kafka, name)
        typer.echo(f"{_PARTITIONS} partitions: first plan {first:.2f} s, next {following:.2f} s")


if __name__ == "__main__":
    typer.run(main)
