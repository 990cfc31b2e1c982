"""The cost of states, starts and long runs.

    PYTHONPATH=include:benchmarks/formats python benchmarks/loader/peers/costs.py FOLDER

FOLDER as for ``run.py``, which writes what is read here.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from ours import schema_of

from trainfeed.loader import DataLoader, RecordFiles
from trainfeed.recordio import RecordIndex, RecordWriter
from trainfeed.samples import TypedCodec

NUM_SHARDS = 1000
ROUNDS = 9
MAX_BYTES = 64 << 20


def main() -> None:
    """Measure and print one line per question."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    path = parser.parse_args().folder / "trainfeed" / "a.none"
    state(path)
    restore(path)
    with tempfile.TemporaryDirectory() as folder:
        first_batch(Path(folder))
        memory(Path(folder))


def state(path: Path) -> None:
    """Taking a state, as JSON values, after a batch."""
    loader = loader_of(path, shuffle=True)
    batches = iter(loader)
    next(batches)
    times = []
    for _ in range(1000):
        start = time.perf_counter()
        value = loader.state_dict()
        times.append((time.perf_counter() - start) * 1e6)
    print(
        f"take a state: median {statistics.median(times):.1f} us, most {max(times):.0f} us;"
        f" {len(json.dumps(value))} bytes of JSON"
    )
    loader.close()


def restore(path: Path) -> None:
    """From a state in mid-epoch to its first batch, and how much of that loads its windows.

    Every time by a new loader, with nothing verified yet and no memory to be used again.
    """
    window_bytes = 16 << 20
    with loader_of(path, shuffle=True, window_bytes=window_bytes) as whole:
        batches = iter(whole)
        for _ in range(300):
            next(batches)
        saved = whole.state_dict()
    seconds, loads, windows = [], [], 0
    for _ in range(ROUNDS):
        with loader_of(path, shuffle=True, window_bytes=window_bytes) as again:
            start = time.perf_counter()
            again.load_state_dict(saved)
            next(iter(again))
            seconds.append(time.perf_counter() - start)
            loads.append(again.report().load_s)
            windows = again.report().windows
    print(
        f"restore, to the first batch: median {statistics.median(seconds) * 1e3:.1f} ms, of which"
        f" loading {windows} windows, one for each of {saved['lanes']} lanes:"
        f" {statistics.median(loads) * 1e3:.1f} ms"
    )


def first_batch(folder: Path) -> None:
    """First batch of 1,000 shards, shuffled, after imports."""
    codec = TypedCodec(schema_of("a"))
    for shard in range(NUM_SHARDS):
        images = np.full((30, 784), shard % 251, np.uint8)
        records = codec.encode_columns({"image": images, "label": np.arange(30) + 30 * shard})
        with RecordWriter(folder / f"shard-{shard:05d}") as writer:
            writer.write_array(records)
    paths = sorted(str(path) for path in folder.glob("shard-*"))
    indexes = [RecordIndex.load(path) for path in paths]
    ways: dict[str, Callable[[], RecordFiles]] = {
        "headers read": lambda: RecordFiles(str(folder / "shard-*"), schema_of("a")),
        "indexes at hand": lambda: RecordFiles(paths, schema_of("a"), indexes=indexes),
    }
    for name, files in ways.items():
        times = []
        for _ in range(ROUNDS):
            start = time.perf_counter()
            loader = DataLoader(files(), 128, shuffle=True)
            next(iter(loader))
            times.append(time.perf_counter() - start)
            loader.close()
        print(
            f"first batch of {NUM_SHARDS} shards, {name}: median"
            f" {statistics.median(times) * 1e3:.0f} ms, most {max(times) * 1e3:.0f} ms"
        )


def memory(folder: Path) -> None:
    """Resident memory over 3,000 epochs of 3,000 samples, and what worker processes share."""
    every: list[dict[str, Any]] = [{}, {"num_threads": 2}, {"num_workers": 1}]
    for options in every:
        paths = [str(folder / f"shard-{shard:05d}") for shard in range(100)]
        loader = DataLoader(
            RecordFiles(paths, schema_of("a")),
            128,
            shuffle=True,
            window_bytes=8 << 20,
            max_bytes=MAX_BYTES,
            **options,
        )
        points, shared = [], 0
        for epoch in range(3000):
            for _ in loader:
                pass
            if epoch >= 100 and not epoch % 50:
                points.append(status_kib("VmRSS"))
                shared = max(shared, status_kib("RssShmem"))
        last = points[-40:]
        slope = np.polyfit(np.arange(len(last)), last, 1)[0] * 20
        print(
            f"3,000 epochs, {options or 'in-process'}: {points[0] / 1024:.1f} MiB after 100,"
            f" {last[0] / 1024:.1f} after 1,000, {last[-1] / 1024:.1f} at the end, slope of the"
            f" last 2,000 {slope:+.0f} KiB per 1,000 epochs;"
            f" shared memory in use {shared / 1024:.1f} MiB of at most"
            f" {MAX_BYTES >> 20}"
        )
        loader.close()


def status_kib(name: str) -> int:
    """Return a figure of this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1])
    raise ValueError(name)


def loader_of(path: Path, **options: Any) -> DataLoader:
    """Return a loader over data set A."""
    return DataLoader(RecordFiles(str(path), schema_of("a")), 128, **options)


if __name__ == "__main__":
    main()
