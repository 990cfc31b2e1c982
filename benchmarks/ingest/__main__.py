"""``python -m benchmarks.ingest``: a Kafka topic landed, beside a loop that only consumes it.

Question: how much of the rate of librdkafka is left when its records are landed and proved?

Method: a broker with the records of ``benchmarks.pipeline.prepare`` in four partitions, compressed
with lz4. All ways take turns, each in a new process that imports everything before it is timed.
``bare`` asks for 10,000 records at a time and drops them: it checks nothing, opens no record, and
writes nothing. ``landed`` writes landing files, as ``ingest`` does for the ranges of a plan. With
2, ``bare`` is two processes of two partitions each, ``landed`` two tasks at once in the process of
a build, which keeps the broker's credentials to itself, and ``tasks`` two tasks in processes of
their own, as Airflow runs them. Seconds of the processor are those of the readers, without the
broker, which shares the machine.

    python -m services run kafka -- python -m benchmarks.ingest compare FOLDER/x10
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Final

import typer
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from trainfeed.files.stores import Location
from trainfeed.pipeline.landed_ranges import write_landing
from trainfeed.sources import KafkaTopic, LandingFile

_BATCH: Final = 10_000
_SILENCE_S: Final = 30.0
_SERVERS: Final = "TEST_KAFKA_BOOTSTRAP_SERVERS"
_WAYS: Final = (("bare", 1), ("landed", 1), ("bare", 2), ("landed", 2), ("tasks", 2))
# What makes the loop fast; the rest are the defaults of librdkafka.
_READING: Final = {
    "group.id": "bare",
    "auto.offset.reset": "error",
    "enable.auto.commit": False,
    "fetch.queue.backoff.ms": 5,
    "fetch.message.max.bytes": 4 << 20,
}

app = typer.Typer()


@app.command()
def compare(
    folder: Annotated[Path, typer.Argument(help="FOLDER/x10 of benchmarks.pipeline.prepare.")],
    *,
    rounds: Annotated[int, typer.Option(help="Turns.")] = 5,
) -> None:
    """Fill a topic, and print the medians of all ways."""
    topic = f"ingest-{uuid.uuid4().hex[:8]}"
    _fill(topic, folder / "recorded" / "flights")
    found: dict[tuple[str, int], list[dict[str, float]]] = {}
    for _ in range(rounds):
        for way, count in _WAYS:
            found.setdefault((way, count), []).append(_in_process(way, topic, count))
    for (way, count), results in found.items():
        rates = sorted(each["records"] / each["seconds"] / 1000 for each in results)
        used = statistics.median(each["cpu"] / each["records"] * 1e6 for each in results)
        bare = [each["records"] / each["seconds"] / 1000 for each in found["bare", count]]
        rate = statistics.median(rates)
        typer.echo(
            f"{way} {count}: {rate:.0f} thousand records/s ({rates[0]:.0f} to {rates[-1]:.0f}),"
            f" {rate / statistics.median(bare):.2f} of bare, CPU {used:.2f} us a record"
        )


@app.command()
def one(way: str, topic: str, count: int) -> None:
    """Read the whole topic one way, and print records, seconds, and seconds of the processor."""
    with KafkaTopic(_settings(), topic) as opened:
        ends = {number: opened.log_range(number)[1] for number in opened.partitions()}
    parts = [dict(list(ends.items())[first::count]) for first in range(count)]
    start, used = time.perf_counter(), _used()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(count) as pool:
        if way == "landed":
            records = sum(pool.map(lambda part: _land(topic, part, Path(folder)), parts))
        elif way == "tasks":
            records = sum(_in_children(lambda part: _land(topic, part, Path(folder)), parts))
        else:
            records = sum(_in_children(lambda part: _bare(topic, part), parts))
    seconds = time.perf_counter() - start
    typer.echo(json.dumps({"records": records, "seconds": seconds, "cpu": _used() - used}))


def _in_process(way: str, topic: str, count: int) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.ingest", "one", way, topic, str(count)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return dict(json.loads(done.stdout))


def _in_children(
    read: Callable[[dict[int, int]], int], parts: list[dict[int, int]]
) -> Iterator[int]:
    """Read one part here, and several in children that are forked."""
    if len(parts) == 1:
        yield read(parts[0])
        return
    children = []
    for part in parts:
        if not (child := os.fork()):
            read(part)
            os._exit(0)
        children.append(child)
    for child, part in zip(children, parts, strict=True):
        if os.waitpid(child, 0)[1]:
            raise ChildProcessError(f"the reader of the partitions {sorted(part)} failed")
        yield sum(part.values())


def _bare(topic: str, ends: dict[int, int]) -> int:
    consumer = Consumer({**_settings(), **_READING})
    consumer.assign([TopicPartition(topic, number, 0) for number in ends])
    records, wanted, heard_at = 0, sum(ends.values()), time.monotonic()
    while records < wanted:
        # The list lives until the next one is there: dropping it before makes the loop slower.
        messages = consumer.consume(_BATCH, 0.05)
        records += len(messages)
        if messages:
            heard_at = time.monotonic()
            if (error := messages[-1].error()) is not None:
                raise KafkaException(error)
        elif time.monotonic() - heard_at > _SILENCE_S:
            raise TimeoutError(f"{records} of {wanted} records, then none for {_SILENCE_S:.0f} s")
    consumer.close()
    return records


def _land(topic: str, ends: dict[int, int], folder: Path) -> int:
    records = 0
    for number, end in ends.items():
        with KafkaTopic(_settings(), topic) as opened:
            batches = opened.iter_batches(number, 0, end)
            with (folder / f"{number}.arrow").open("wb") as file:
                records += write_landing(file, batches, f"kafka:{topic}/{number}").records
    return records


def _fill(name: str, recorded: Path) -> None:
    admin = AdminClient(_settings())
    partitions = sorted(recorded.glob("p=*"))
    admin.create_topics([NewTopic(name, len(partitions), 1)])[name].result(60)
    producer = Producer({**_settings(), "compression.type": "lz4", "linger.ms": 50})
    for number, partition in enumerate(partitions):
        for path in sorted(partition.glob("*.arrow")):
            with LandingFile.open(Location.parse(str(path.absolute()))) as file:
                for batch in file.iter_batches():
                    for key, value in zip(batch.column("key"), batch.column("value"), strict=True):
                        _send(producer, name, number, key.as_py(), value.as_py())
    producer.flush(120)


def _send(
    producer: Producer, name: str, partition: int, key: bytes | None, value: bytes | None
) -> None:
    while True:
        try:
            producer.produce(name, value, key, partition=partition)
        except BufferError:
            producer.poll(0.1)
        else:
            return


def _settings() -> dict[str, str]:
    return {"bootstrap.servers": os.environ[_SERVERS]}


def _used() -> float:
    return sum(os.times()[:4])


if __name__ == "__main__":
    app()
