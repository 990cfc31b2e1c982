"""Thread against process in ``DataLoader.from_generator``: five kinds of input, made anew on a CPU.

Question: what does ``use_multiprocess=True`` gain where samples are made by Python code?
Method: both loaders of a workload take turns, epoch by epoch; a figure is the median time per
batch. The training step is a product of matrices that takes about as long as half the loading, so
that there is something to overlap with; it leaves the interpreter lock, as a training does.

    PYTHONPATH=include python benchmarks/loader/peers/workloads.py [--rounds 7]

Needs Pillow beside trainfeed's own packages.
"""

from __future__ import annotations

import argparse
import io
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from PIL import Image, ImageEnhance

from trainfeed.loader import DataLoader

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


WORKLOADS = {
    "MNIST-like (64)": Workload(64, 12_800, digits(12_800)),
    "images, light: decode, shrink (64)": Workload(64, 640, images(640, 128, heavy=False)),
    "images, heavy: decode, turn, crop, colours (32)": Workload(
        32, 128, images(128, 256, heavy=True)
    ),
    "text (20)": Workload(20, 8_000, text(8_000)),
    "many small: parsed lines (256)": Workload(256, 51_200, many_small(51_200)),
}


class Step:
    """A training step that takes about as long as it is told, with the interpreter lock free."""

    def __init__(self, seconds: float) -> None:
        self._matrix = np.ones((192, 192), np.float32)
        self._products = 1
        self._products = max(1, round(seconds / self._time()))

    def __call__(self) -> None:
        """Work."""
        for _ in range(self._products):
            self._matrix @ self._matrix

    def _time(self) -> float:
        times = []
        for _ in range(200):
            start = time.perf_counter()
            self()
            times.append(time.perf_counter() - start)
        return statistics.median(times)


def per_batch(workload: Workload, loader: Any, step: Callable[[], None]) -> float:
    """Return milliseconds per batch of one epoch."""
    start, count = time.perf_counter(), 0
    for _ in loader:
        step()
        count += 1
    if count != workload.num_samples // workload.batch_size:
        raise RuntimeError(f"{count} batches")
    return (time.perf_counter() - start) / count * 1e3


def main() -> None:
    """Measure and print a Markdown table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    print("| workload (batch) | loading | step | t1: thread | t2: process | t1/t2 - 1 |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for name, workload in WORKLOADS.items():
        loaders = {}
        for multiprocess in (False, True):
            loader = DataLoader.from_generator(capacity=CAPACITY, use_multiprocess=multiprocess)
            loader.set_sample_generator(workload.samples, batch_size=workload.batch_size)
            loaders[multiprocess] = loader
        loading = per_batch(workload, loaders[False], lambda: None)
        step = Step(loading / 2e3)
        start = time.perf_counter()
        for _ in range(20):
            step()
        step_ms = (time.perf_counter() - start) / 20 * 1e3
        times: dict[bool, list[float]] = {False: [], True: []}
        for number in range(rounds + 1):
            for multiprocess, loader in loaders.items():
                figure = per_batch(workload, loader, step)
                if number:
                    times[multiprocess].append(figure)
        thread, process = (statistics.median(times[kind]) for kind in (False, True))
        print(
            f"| {name} | {loading:.2f} ms | {step_ms:.2f} ms | {thread:.2f} ms | {process:.2f} ms |"
            f" {thread / process - 1:+.1%} |"
        )
        sys.stdout.flush()


if __name__ == "__main__":
    main()
