"""Samples per second through decorators: on blocks, on samples, and the classic way.

A sample has 24 int32, 8 float32 and one int64 (136 bytes). "classic" are the decorators as they are
usually written, in plain Python with ``queue.Queue``. The ways alternate; the median of 7 runs. In
brackets the CPU time of a sample, that of child processes included: it says more than the rate
where the machine does other work too. At the end, how soon a pass that goes on at three quarters of
400,000 records gives its first block, skipped by the reader and read again.

    PYTHONPATH=include python benchmarks/readers/bench_decorators.py
"""

from __future__ import annotations

import itertools
import queue
import random
import resource
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from trainfeed.decorators import (
    batch,
    buffered,
    compose,
    map_blocks,
    map_readers,
    multiprocess_reader,
    resumable,
    shuffle,
    xmap_readers,
)
from trainfeed.readers import BlockSource, RowForm, recordio
from trainfeed.recordio import RecordWriter
from trainfeed.samples import Field, Schema, TypedCodec

NUM_BLOCKS = 100
ROWS = 4096
NUM_SAMPLES = 100_000
RUNS = 7

BLOCK = {
    "indices": np.arange(ROWS * 24, dtype=np.int32).reshape(ROWS, 24),
    "values": np.ones((ROWS, 8), np.float32),
    "label": np.arange(ROWS),
}
SAMPLE = tuple(column[0] for column in BLOCK.values())


def blocks() -> Iterator[dict[str, np.ndarray[Any, Any]]]:
    """Give one block again and again, so that only decorators take time."""
    for _ in range(NUM_BLOCKS):
        yield BLOCK


SOURCE = BlockSource(blocks, form=RowForm.TUPLE)


def samples() -> Iterator[Any]:
    """Give one sample again and again."""
    return itertools.repeat(SAMPLE, NUM_SAMPLES)


def work(sample: Any) -> Any:
    """Take some 15 µs of Python, as decoding a small record does."""
    return sum(range(1000)), sample


def long_work(sample: Any) -> Any:
    """Take some 400 µs of Python, as preparing a small image does."""
    return sum(range(30_000)), sample


def classic_shuffle(reader: Any, size: int) -> Any:
    """Fill a window, shuffle it, give it out."""

    def read() -> Iterator[Any]:
        window = []
        for item in reader():
            window.append(item)
            if len(window) >= size:
                random.shuffle(window)
                yield from window
                window = []
        random.shuffle(window)
        yield from window

    return read


def classic_batch(reader: Any, size: int) -> Any:
    """Append to a list until it is long enough."""

    def read() -> Iterator[Any]:
        items = []
        for item in reader():
            items.append(item)
            if len(items) == size:
                yield items
                items = []
        if items:
            yield items

    return read


def classic_buffered(reader: Any, size: int) -> Any:
    """Put into a queue from a thread, one by one."""
    end = object()

    def fill(into: queue.Queue[Any]) -> None:
        for item in reader():
            into.put(item)
        into.put(end)

    def read() -> Iterator[Any]:
        waiting: queue.Queue[Any] = queue.Queue(size)
        threading.Thread(target=fill, args=(waiting,), daemon=True).start()
        yield from iter(waiting.get, end)

    return read


def classic_xmap(mapper: Any, reader: Any, num_workers: int, size: int) -> Any:
    """Two queues, threads between them; no order."""
    end = object()

    def fill(into: queue.Queue[Any]) -> None:
        for item in reader():
            into.put(item)
        for _ in range(num_workers):
            into.put(end)

    def handle(taken: queue.Queue[Any], into: queue.Queue[Any]) -> None:
        for item in iter(taken.get, end):
            into.put(mapper(item))
        into.put(end)

    def read() -> Iterator[Any]:
        todo, done = queue.Queue(size), queue.Queue(size)
        threading.Thread(target=fill, args=(todo,), daemon=True).start()
        for _ in range(num_workers):
            threading.Thread(target=handle, args=(todo, done), daemon=True).start()
        for _ in range(num_workers):
            yield from iter(done.get, end)

    return read


def stacked(batches: Iterator[Any]) -> Iterator[Any]:
    """Make arrays of lists of samples, which is what training needs."""
    for items in batches:
        yield [np.stack(column) for column in zip(*items, strict=True)]


def scaled(block: Any) -> Any:
    """Change one column."""
    return {**block, "values": block["values"] * 2.0}


def scaled_sample(sample: Any) -> Any:
    """Change the same column of one sample."""
    return (sample[0], sample[1] * 2.0, sample[2])


def drain(iterator: Iterator[Any]) -> None:
    """Draw everything."""
    for _ in iterator:
        pass


N, B = NUM_SAMPLES, NUM_BLOCKS * ROWS
FEW = 10_000


def plain_map(reader: Any) -> Any:
    """Map one by one."""
    return lambda: map(scaled_sample, reader())


Case = tuple[int, Callable[[], Iterator[Any]]]


def _xmap(mapper: Callable[[Any], Any], count: int) -> dict[str, Case]:
    def few() -> Iterator[Any]:
        return itertools.repeat(SAMPLE, count)

    return {
        "threads": (count, xmap_readers(mapper, few, 2, 256, True)),
        "processes": (count, xmap_readers(mapper, few, 2, 256, True, use_processes=True)),
        "classic": (count, classic_xmap(mapper, few, 2, 256)),
        "no xmap": (count, lambda: map(mapper, few())),
    }


CASES: dict[str, dict[str, Case]] = {
    "map, one column doubled": {
        "blocks": (B, lambda: map_blocks(scaled, SOURCE).blocks()),
        "samples": (N, map_readers(scaled_sample, samples)),
        "classic": (N, plain_map(samples)),
    },
    "shuffle(8192)": {
        "blocks": (B, lambda: shuffle(SOURCE, 8192).blocks()),
        "samples": (N, shuffle(samples, 8192)),
        "classic": (N, classic_shuffle(samples, 8192)),
    },
    "compose": {
        "blocks": (B, lambda: compose(SOURCE, SOURCE).blocks()),
        "samples": (N, compose(samples, samples)),
        "classic": (N, lambda: (a + b for a, b in zip(samples(), samples(), strict=True))),
    },
    "batch(128) to arrays": {
        "blocks": (B, lambda: batch(SOURCE, 128).blocks()),
        "samples": (N, lambda: stacked(batch(samples, 128)())),
        "classic": (N, lambda: stacked(classic_batch(samples, 128)())),
    },
    "batch(100) to arrays": {
        "blocks": (B, lambda: batch(SOURCE, 100).blocks()),
        "samples": (N, lambda: stacked(batch(samples, 100)())),
        "classic": (N, lambda: stacked(classic_batch(samples, 100)())),
    },
    "shuffle, batch(128) to arrays": {
        "blocks": (B, lambda: batch(shuffle(SOURCE, 8192), 128).blocks()),
        "samples": (N, lambda: stacked(batch(shuffle(samples, 8192), 128)())),
        "classic": (N, lambda: stacked(classic_batch(classic_shuffle(samples, 8192), 128)())),
    },
    "buffered(1000)": {
        "blocks": (B, lambda: buffered(SOURCE, 1000).blocks()),
        "samples": (N, buffered(samples, 1000)),
        "classic": (N, classic_buffered(samples, 1000)),
    },
    "multiprocess_reader, 2 processes": {
        "blocks": (2 * B, lambda: multiprocess_reader([SOURCE, SOURCE]).blocks()),
        "samples": (2 * N, multiprocess_reader([samples, samples])),
    },
    "xmap, mapper of 15 µs": _xmap(work, FEW),
    "xmap, mapper of 400 µs": _xmap(long_work, 1000),
}


def cpu_seconds() -> float:
    """Return the CPU time of this process and of its children that have ended."""
    own, children = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def main() -> None:
    """Print a table."""
    for name, ways in CASES.items():
        rates: dict[str, list[float]] = {way: [] for way in ways}
        costs: dict[str, list[float]] = {way: [] for way in ways}
        for _ in range(RUNS):
            for way, (count, start) in ways.items():
                started_at, cpu_at = time.perf_counter(), cpu_seconds()
                drain(start())
                rates[way].append(count / (time.perf_counter() - started_at))
                costs[way].append((cpu_seconds() - cpu_at) / count)
        cells = "  ".join(
            f"{way} {statistics.median(rates[way]) / 1e6:8.3f}"
            f" ({statistics.median(costs[way]) * 1e6:6.3f} us)"
            for way in ways
        )
        print(f"{name:36}{cells}  M samples/s", flush=True)
    going_on()


def going_on() -> None:
    """Print how long a pass needs that goes on at three quarters."""
    schema = Schema((Field("x", "int32", (32,)), Field("label", "int64")))
    count = 400_000
    columns = {"x": np.zeros((count, 32), np.int32), "label": np.arange(count)}
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/records"
        with RecordWriter(path) as writer:
            writer.write_array(TypedCodec(schema).encode_columns(columns))
        source = recordio(path, schema)
        readers = {
            "skipped by the reader": (resumable(source), count * 3 // 4),
            "read again": (resumable(batch(shuffle(source, 8192), 128)), count * 3 // 4 // 128),
        }
        times: dict[str, list[float]] = {way: [] for way in readers}
        for _ in range(RUNS):
            for way, (train, position) in readers.items():
                train.load_state_dict({"epoch": 3, "position": position})
                started_at = time.perf_counter()
                next(train.blocks())
                times[way].append((time.perf_counter() - started_at) * 1e3)
    cells = "  ".join(f"{way} {statistics.median(found):.1f} ms" for way, found in times.items())
    print(f"{'going on at 3/4':36}{cells}")


if __name__ == "__main__":
    main()
