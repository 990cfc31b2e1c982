"""How fast is the loader, by itself and against the layers below it?

Question: what does each step from the file to the batch cost: computed order, windows, threads,
processes, codecs; what do a state and a first batch cost; does memory grow?
Method: every case reads whole epochs and touches every batch; the cases take turns for --rounds
rounds, the median of the rounds counts; the page cache is warm. Ratios within one run are what
counts. "bare" is the loop that a loader cannot beat: read, verify and view every chunk.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from data import NUM_A, A, many_shards, set_a, set_b
from trainfeed.loader import DataLoader, RecordFiles
from trainfeed.recordio import ChunkBuffers, Codec, RecordIndex, read_chunk

BATCH = 128
Case = Callable[[], float]


def rate(batches: Iterable[dict[str, Any]], field: str = "image") -> float:
    """Return samples per second; touches the first and last value of every batch."""
    start_s, num_samples, total = time.perf_counter(), 0, 0
    for batch in batches:
        values = batch[field]
        num_samples += len(values)
        total += len(values[0]) + int(batch["label"][-1])
    return num_samples / (time.perf_counter() - start_s)


def bare(files: RecordFiles) -> Iterator[dict[str, np.ndarray]]:
    """Read every chunk into one buffer, verify it, and view it as batches."""
    framed = np.dtype([("length", "<u4"), ("record", A.record_dtype)])
    buffers = ChunkBuffers()
    for path in files.paths:
        for info in RecordIndex.load(path).chunks:
            rows = np.frombuffer(read_chunk(path, info, buffers=buffers), framed)["record"]
            for start in range(0, len(rows), BATCH):
                part = rows[start : start + BATCH]
                yield {"image": part["image"], "label": part["label"]}


def _send_chunks(paths: list[str], epochs: int, queue: Any) -> None:
    for _ in range(epochs):
        for path in paths:
            for info in RecordIndex.load(path).chunks:
                framed = np.dtype([("length", "<u4"), ("record", A.record_dtype)])
                rows = np.frombuffer(read_chunk(path, info), framed)["record"]
                queue.put({"image": rows["image"].copy(), "label": rows["label"].copy()})
    queue.put(None)


def pickling_queue(files: RecordFiles, epochs: int) -> Iterator[dict[str, np.ndarray]]:
    """Send the same chunks through a queue of the standard library."""
    context = multiprocessing.get_context("fork")
    queue = context.Queue(8)
    child = context.Process(target=_send_chunks, args=(files.paths, epochs, queue), daemon=True)
    child.start()
    while (chunk := queue.get()) is not None:
        for start in range(0, len(chunk["label"]), BATCH):
            yield {name: column[start : start + BATCH] for name, column in chunk.items()}
    child.join()


class Cases:
    """The cases that are rates, by name; loaders are opened once and read again and again."""

    def __init__(self, folder: Path, worker_epochs: int) -> None:
        self._sets = {codec: set_a(folder, codec) for codec in (Codec.NONE, Codec.LZ4, Codec.ZSTD)}
        self._b = set_b(folder)
        self._epochs = worker_epochs
        self.loaders: dict[str, DataLoader] = {}

    def all(self) -> dict[str, Case]:
        """Return every case."""
        raw = self._sets[Codec.NONE]
        mapped = RecordFiles(raw.paths, raw.schema, immutable=True)
        cases: dict[str, Case] = {
            "A bare loop": lambda: rate(bare(raw)),
            "A natural": self._epoch("n", raw),
            "A natural, always verified": self._epoch("v", raw, verify="always"),
            "A natural, copies": self._epoch("c", raw, copy=True),
            "A natural, prefetch thread": self._epoch("p", raw, num_threads=1),
            "A natural, prefetch thread, always verified": self._epoch(
                "pv", raw, num_threads=1, verify="always"
            ),
            "A shuffled": self._epoch("s", raw, shuffle=True),
            "A shuffled, mapped": self._epoch("sm", mapped, shuffle=True),
            "A shuffled, prefetch thread": self._epoch("sp", raw, shuffle=True, num_threads=1),
            "A natural, 1 process": self._epochs_of("w1", raw, num_workers=1),
            "A natural, 2 processes": self._epochs_of("w2", raw, num_workers=2),
            "A natural, pickling queue": lambda: rate(pickling_queue(raw, 2)),
            "B natural": self._epoch("bn", self._b, field="blob"),
            "B shuffled": self._epoch("b", self._b, field="blob", shuffle=True),
        }
        for codec in (Codec.LZ4, Codec.ZSTD):
            name, files = codec.name.lower(), self._sets[codec]
            cases[f"A {name} natural"] = self._epoch(name, files)
            cases[f"A {name} natural, 2 threads"] = self._epoch(f"{name}n2", files, num_threads=2)
            cases[f"A {name} shuffled"] = self._epoch(f"{name}s", files, shuffle=True)
            cases[f"A {name} shuffled, 2 threads"] = self._epoch(
                f"{name}s2", files, shuffle=True, num_threads=2
            )
        return cases

    def close(self) -> None:
        """Close all loaders."""
        for loader in self.loaders.values():
            loader.close()

    def _epoch(self, key: str, files: RecordFiles, field: str = "image", **options: Any) -> Case:
        return lambda: rate(self._loader(key, files, options), field)

    def _epochs_of(self, key: str, files: RecordFiles, **options: Any) -> Case:
        def run() -> float:
            loader = self._loader(key, files, options)
            return rate(batch for _ in range(self._epochs) for batch in loader)

        return run

    def _loader(self, key: str, files: RecordFiles, options: dict[str, Any]) -> DataLoader:
        if key not in self.loaders:
            self.loaders[key] = DataLoader(files, BATCH, seed=1, **options)
        return self.loaders[key]


def state_costs(files: RecordFiles) -> dict[str, float]:
    """Return what taking a state, and the first batch after restoring one, cost in seconds."""
    with DataLoader(files, BATCH, shuffle=True, seed=1) as loader:
        batches = iter(loader)
        for _ in range(NUM_A // BATCH // 2):
            next(batches)
        state = loader.state_dict()
        start_s = time.perf_counter()
        for _ in range(10_000):
            loader.state_dict()
        take_s = (time.perf_counter() - start_s) / 10_000
        restored = []
        for _ in range(20):
            start_s = time.perf_counter()
            loader.load_state_dict(state)
            next(iter(loader))
            restored.append(time.perf_counter() - start_s)
    return {
        "state bytes": len(json.dumps(state)),
        "take a state": take_s,
        "restore and first batch": statistics.median(restored),
    }


def first_batch(folder: Path) -> dict[str, float]:
    """Return the seconds from opening 1,000 shards to the first shuffled batch."""
    files = many_shards(folder, 1000)
    times = []
    for _ in range(5):
        start_s = time.perf_counter()
        with DataLoader(RecordFiles(files.paths, A), BATCH, shuffle=True) as loader:
            next(iter(loader))
            times.append(time.perf_counter() - start_s)
    indexes = [RecordIndex.load(path) for path in files.paths]
    start_s = time.perf_counter()
    with DataLoader(RecordFiles(files.paths, A, indexes=indexes), BATCH, shuffle=True) as loader:
        next(iter(loader))
    indexed_s = time.perf_counter() - start_s
    return {"first batch of 1,000 shards": statistics.median(times), "with indexes": indexed_s}


def rss_slope(folder: Path, epochs: int) -> dict[str, float]:
    """Return the resident memory after a tenth of the epochs, and at their end, in MB."""
    files = set_a(folder, Codec.ZSTD)
    small = RecordFiles(files.paths[:1], A)
    found = {}
    for name, options in (("inline", {}), ("thread", {"num_threads": 1})):
        with DataLoader(small, BATCH, shuffle=True, **options) as loader:
            for epoch in range(epochs):
                for _ in loader:
                    pass
                if epoch == epochs // 10:
                    found[f"{name}, after {epochs // 10} epochs"] = _rss_mb()
            found[f"{name}, after {epochs} epochs"] = _rss_mb()
    return found


def _rss_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def main() -> None:
    """Run the cases and print them as JSON, one per line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where the sets are, or are written to")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--worker-epochs", type=int, default=20)
    parser.add_argument("--rss-epochs", type=int, default=1000)
    parser.add_argument("--only", default="", help="cases whose name holds this")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    print(json.dumps({"python": platform.python_version(), "cpus": os.cpu_count()}), flush=True)
    cases = Cases(arguments.folder, arguments.worker_epochs)
    chosen = {name: run for name, run in cases.all().items() if arguments.only in name}
    rates: dict[str, list[float]] = {name: [] for name in chosen}
    for run in chosen.values():
        run()
    for _ in range(arguments.rounds):
        for name, run in chosen.items():
            rates[name].append(run())
    cases.close()
    for name, found in rates.items():
        median = round(statistics.median(found))
        print(
            json.dumps(
                {
                    "case": name,
                    "samples_per_s": median,
                    "lowest": round(min(found)),
                    "highest": round(max(found)),
                }
            ),
            flush=True,
        )
    if not arguments.only:
        print(json.dumps(state_costs(set_a(arguments.folder, Codec.NONE))), flush=True)
        print(json.dumps(first_batch(arguments.folder)), flush=True)
        print(json.dumps(rss_slope(arguments.folder, arguments.rss_epochs)), flush=True)
    print(json.dumps({"load": os.getloadavg()[0]}))


if __name__ == "__main__":
    main()
