"""Where does the time of the shuffled cases go, and how small could it be?

Question: what do loading windows, putting batches together and handing them over cost per sample,
beside the copies that cannot be avoided?
Method: one thread, warm page cache. Every case reads --epochs epochs after one that does not count;
its parts are what the loader reports, the least of all epochs. A floor does one thing alone to the
same bytes: read every chunk, pick every image in random order, copy every blob out of the map.
"""

from __future__ import annotations

import argparse
import mmap
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from data import NUM_A, NUM_B, set_a, set_b
from trainfeed.loader import DataLoader, RecordFiles, measure_read
from trainfeed.recordio import Codec, RecordIndex, read_chunk, split_records

BATCH = 128
IMAGE_BYTES, BLOCK = 784, 2560


def cases(folder: Path) -> dict[str, RecordFiles]:
    """Return what is read, by name."""
    raw = set_a(folder, Codec.NONE)
    return {
        "A, read": raw,
        "A, mapped": RecordFiles(raw.paths, raw.schema, immutable=True),
        "A lz4": set_a(folder, Codec.LZ4),
        "A zstd": set_a(folder, Codec.ZSTD),
        "B, mapped": set_b(folder),
    }


def parts(files: RecordFiles, epochs: int) -> dict[str, float]:
    """Return microseconds per sample: loading, putting together, handing over."""
    found: list[dict[str, float]] = []
    with DataLoader(files, BATCH, shuffle=True, seed=1) as loader:
        measure_read(loader, epochs=1)
        for _ in range(epochs):
            before, start_s = loader.report(), time.perf_counter()
            samples = sum(batch.num_rows for batch in loader)
            seconds, after = time.perf_counter() - start_s, loader.report()
            load_s = after.load_s - before.load_s
            together_s = after.assemble_s - before.assemble_s
            rest_s = seconds - load_s - together_s
            steps = {"load": load_s, "put together": together_s, "hand over": rest_s}
            found.append({name: step_s / samples * 1e6 for name, step_s in steps.items()})
    return min(found, key=lambda each: sum(each.values()))


def least(run: Callable[[], None], num_samples: int, epochs: int) -> float:
    """Return microseconds per sample of the fastest of some runs."""
    times = []
    for _ in range(epochs + 1):
        start_s = time.perf_counter()
        run()
        times.append(time.perf_counter() - start_s)
    return min(times) / num_samples * 1e6


def reading(files: RecordFiles) -> Callable[[], None]:
    """Read chunk after chunk into as many buffers as there are lanes."""
    chunks = [(path, info) for path in files.paths for info in RecordIndex.load(path).chunks]
    fds = {path: os.open(path, os.O_RDONLY) for path in files.paths}
    buffers = [np.empty(1 << 21, np.uint8) for _ in range(16)]

    def run() -> None:
        for number, (path, info) in enumerate(chunks):
            out = buffers[number % 16][: info.stored_bytes]
            os.preadv(fds[path], [out], info.offset_bytes + 20)

    return run


def picking() -> Callable[[], None]:
    """Pick images in random order, block after block."""
    images = np.random.default_rng(0).integers(0, 256, (NUM_A, IMAGE_BYTES), np.uint8)
    items = images.view(f"V{IMAGE_BYTES}")[:, 0]
    order, out = np.random.default_rng(1).permutation(NUM_A), np.empty(BLOCK, items.dtype)

    def run() -> None:
        for start in range(0, NUM_A - BLOCK, BLOCK):
            np.take(items, order[start : start + BLOCK], out=out, mode="clip")

    return run


def copying(files: RecordFiles) -> Callable[[], None]:
    """Copy blobs out of mapped files in random order."""
    runs = list(_blobs(files))
    order = np.random.default_rng(0).permutation(len(runs)).tolist()

    def run() -> None:
        for start in range(0, len(runs), BATCH):
            _ = [runs[i].tobytes() for i in order[start : start + BATCH]]

    return run


def _blobs(files: RecordFiles) -> Iterator[memoryview]:
    for path in files.paths:
        with Path(path).open("rb") as file:
            whole = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        for info in RecordIndex.load(path).chunks:
            start = info.offset_bytes + 20
            framing = whole[start : start + info.stored_bytes]
            read_chunk(path, info)
            yield from split_records(framing, info.num_records)


def main() -> None:
    """Print the parts and the floors."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where the sets are, or are written to")
    parser.add_argument("--epochs", type=int, default=5)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    print("us per sample".ljust(24), "load", "put together", "hand over", "all", sep="  ")
    for name, files in cases(arguments.folder).items():
        found = parts(files, arguments.epochs)
        shown = [f"{value:.2f}" for value in [*found.values(), sum(found.values())]]
        print(name.ljust(24), *shown, sep="  ")
    floors = {
        "A, read every chunk": (reading(set_a(arguments.folder, Codec.NONE)), NUM_A),
        "A, pick every image": (picking(), NUM_A),
        "B, copy every blob": (copying(set_b(arguments.folder)), NUM_B),
    }
    for name, (run, num_samples) in floors.items():
        print(f"{name.ljust(24)}  {least(run, num_samples, arguments.epochs):.2f}")


if __name__ == "__main__":
    main()
