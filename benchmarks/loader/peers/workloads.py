"""Thread against process in ``GeneratorLoader.from_generator``: five kinds of input, on a CPU.

Question: what does ``use_multiprocess=True`` gain where samples are made by Python code?
Method: a training step follows every batch: products of matrices, which leave the interpreter lock
as a training does, for half the CPU time that loading the batch takes; both are measured as CPU
time, so that other work on the machine does not change the ratio. The two loaders of a workload
take turns, epoch by epoch, and the one that begins changes from round to round. The first round
does not count: in it the batches of both are compared, byte by byte. t1 and t2 are the medians of
the time per batch, with everything that an epoch takes, its thread or process included. The gain is
the median of t1 / t2 - 1 over the rounds, each of which compares two epochs that follow each other;
the least and the most say whether it has a sign at all. The CPU time of the consuming process says
what the child takes off it, also on a machine that does other work. At the end no child and nothing
in /dev/shm may be left.

    PYTHONPATH=include python benchmarks/loader/peers/workloads.py [--rounds 7] [--only text]

The benchmark needs Pillow beside trainfeed's own packages, and two idle cores.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import itertools
import multiprocessing
import os
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

# The step takes one core, as the loading does.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from PIL import Image, ImageEnhance

from trainfeed.compat.paddle.loading import GeneratorLoader
from trainfeed.decorators import batch, collate

CAPACITY = 8
Samples = Callable[[], Iterator[tuple[Any, ...]]]


class Workload(NamedTuple):
    """Samples per epoch and batch, and who makes them."""

    batch_size: int
    num_samples: int
    samples: Samples


def digits(count: int) -> Samples:
    """MNIST-like: bytes to floats, normalised in numpy."""
    raw = np.random.default_rng(0).integers(0, 255, (256, 784), np.uint8)
    rows = [row.tobytes() for row in raw]

    def samples() -> Iterator[tuple[Any, ...]]:
        for i in range(count):
            pixels = np.frombuffer(rows[i % 256], np.uint8).astype(np.float32)
            yield pixels / 127.5 - 1.0, np.int64(i % 10)

    return samples


def images(count: int, side: int, *, heavy: bool) -> Samples:
    """JPEG: decoded and shrunk; heavy ones also turned, cropped and their colours changed."""
    rng = np.random.default_rng(1)
    files = []
    for _ in range(16):
        coarse = rng.integers(0, 255, (side // 16, side // 16, 3), np.uint8)
        picture = Image.fromarray(coarse).resize((side, side), Image.Resampling.BICUBIC)
        picture.save(file := io.BytesIO(), "JPEG", quality=90)
        files.append(file.getvalue())

    def samples() -> Iterator[tuple[Any, ...]]:
        for i in range(count):
            picture = Image.open(io.BytesIO(files[i % 16])).convert("RGB")
            if heavy:
                turned = picture.rotate(i % 10, Image.Resampling.BILINEAR)
                picture = turned.crop((8, 8, side - 8, side - 8)).resize((224, 224))
                picture = ImageEnhance.Color(picture).enhance(0.5 + i % 10 / 10)
                picture = ImageEnhance.Brightness(picture).enhance(0.8 + i % 5 / 10)
            else:
                picture = picture.resize((64, 64))
            pixels = np.asarray(picture, np.float32).transpose(2, 0, 1) / 255
            yield (pixels - 0.45) / 0.225, np.int64(i % 1000)

    return samples


def text(count: int) -> Samples:
    """Ptb-like: slices of one array of words, next to nothing to do."""
    words = np.random.default_rng(2).integers(0, 10_000, count + 21)

    def samples() -> Iterator[tuple[Any, ...]]:
        for i in range(count):
            yield words[i : i + 20], words[i + 1 : i + 21]

    return samples


def many_small(count: int) -> Samples:
    """Lines of text split into three numbers each: all of it under the interpreter lock."""
    lines = [f"{i},{i * 0.5},{i % 7}" for i in range(1000)]

    def samples() -> Iterator[tuple[Any, ...]]:
        for i in range(count):
            first, second, third = lines[i % 1000].split(",")
            yield np.float32(float(first)), np.float32(float(second)), np.int64(int(third))

    return samples


# Epochs of a second or more: a process costs some ten milliseconds to start.
WORKLOADS = {
    "MNIST-like (64)": Workload(64, 60_032, digits(60_032)),
    "images, light: decode, shrink (64)": Workload(64, 2_560, images(2_560, 128, heavy=False)),
    "images, heavy: decode, turn, crop, colours (32)": Workload(
        32, 512, images(512, 256, heavy=True)
    ),
    "text (20)": Workload(20, 40_000, text(40_000)),
    "many small: parsed lines (256)": Workload(256, 128_000, many_small(128_000)),
}
KINDS = {"thread": False, "process": True}
PROBE_S = 0.5


class Step:
    """A training step that takes as much CPU time as it is told, with the interpreter lock free."""

    def __init__(self, seconds: float) -> None:
        self._matrix = np.ones((96, 96), np.float32)
        self._products = 100
        self._products = max(1, round(100 * seconds / cpu_of(self)))

    def __call__(self) -> None:
        """Work."""
        for _ in range(self._products):
            self._matrix @ self._matrix


def cpu_of(work: Callable[[], None]) -> float:
    """Return the CPU seconds of one call, the mean over half a second of calls."""
    work()
    count, start = 0, time.thread_time()
    while time.thread_time() - start < PROBE_S:
        work()
        count += 1
    return (time.thread_time() - start) / count


def loading_of(workload: Workload) -> float:
    """Return the CPU seconds that it takes to make one batch, without a loader."""
    endless = itertools.chain.from_iterable(workload.samples() for _ in itertools.count())
    batches = batch(lambda: endless, workload.batch_size)()

    def load() -> None:
        collate(next(batches))

    return cpu_of(load)


class Figures(NamedTuple):
    """Milliseconds per batch of one epoch.

    Attributes:
        wall: On the clock.
        own: CPU time of this process: the step, the hand-over, and loading if a thread does it.
        child: CPU time of the child.
    """

    wall: float
    own: float
    child: float


def epoch(workload: Workload, loader: Any, step: Callable[[], None]) -> Figures:
    """Run one epoch."""
    before, count = clocks(), 0
    for _ in loader:
        step()
        count += 1
    if count != workload.num_samples // workload.batch_size:
        raise RuntimeError(f"{count} batches")
    spent = zip(before, clocks(), strict=True)
    return Figures(*((after - at) / count * 1e3 for at, after in spent))


def clocks() -> tuple[float, float, float]:
    """Return seconds on the clock, of CPU time here, and of CPU time of children that ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.perf_counter(), time.process_time(), children.ru_utime + children.ru_stime


def digest(loader: Any) -> str:
    """Return a digest of the batches of one epoch."""
    found = hashlib.sha256()
    for columns in loader:
        for column in columns:
            found.update(f"{column.dtype}{column.shape}".encode() + column.tobytes())
    return found.hexdigest()


def row(name: str, workload: Workload, rounds: int) -> str:
    """Measure one workload; return its row of the table."""
    loaders = {}
    for kind, multiprocess in KINDS.items():
        loader = GeneratorLoader.from_generator(capacity=CAPACITY, use_multiprocess=multiprocess)
        loaders[kind] = loader.set_sample_generator(workload.samples, workload.batch_size)
    if len({digest(loader) for loader in loaders.values()}) > 1:
        raise RuntimeError(f"{name}: thread and process give different batches")
    loading = loading_of(workload)
    step = Step(loading / 2)
    found: dict[str, list[Figures]] = {kind: [] for kind in KINDS}
    for number in range(rounds):
        for kind in list(KINDS)[:: 1 if number % 2 else -1]:
            found[kind].append(epoch(workload, loaders[kind], step))
    pairs = zip(found["thread"], found["process"], strict=True)
    gains = [thread.wall / process.wall - 1 for thread, process in pairs]
    thread, process = (
        Figures(*map(statistics.median, zip(*figures, strict=True))) for figures in found.values()
    )
    cells = [
        name,
        *(f"{seconds * 1e3:.2f}" for seconds in (loading, cpu_of(step))),
        *(f"{ms:.2f}" for ms in (thread.wall, process.wall)),
        f"{statistics.median(gains):+.0%} ({min(gains):+.0%} to {max(gains):+.0%})",
        *(f"{ms:.2f}" for ms in (thread.own, process.own, process.child)),
    ]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Measure and print a Markdown table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="", help="workloads whose name has this in it")
    options = parser.parse_args()
    shared = set(Path("/dev/shm").iterdir())  # noqa: S108 (looked at, not written to)
    print(f"{len(os.sched_getaffinity(0))} cores, load {os.getloadavg()[0]:.1f} at the start\n")
    print("ms per batch; CPU: of the consumer with a thread, with a process, and of that process\n")
    print("| workload (batch) | load | step | t1 | t2 | gain | thread | process | child |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name, workload in WORKLOADS.items():
        if options.only in name:
            print(row(name, workload, options.rounds))
            sys.stdout.flush()
    print(f"\nload {os.getloadavg()[0]:.1f} at the end")
    left = set(Path("/dev/shm").iterdir()) - shared  # noqa: S108
    if multiprocessing.active_children() or left:
        raise RuntimeError(f"left: {multiprocessing.active_children()}, {left}")


if __name__ == "__main__":
    main()
