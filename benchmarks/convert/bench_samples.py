"""How many samples per second of processor time does a conversion take, for each kind of input?

Question: 60,000 samples of (uint8[784], int64) into 10 shards, one by one and as arrays, as typed
records, values and Examples; and from files. Method: processor time of this process, our code and
the kernel's, the best of three runs of each. One thread.

    PYTHONPATH=include python benchmarks/convert/bench_samples.py --folder /tmp
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from trainfeed.conversion import (
    ConvertOptions,
    FileFormat,
    convert,
    convert_arrays,
    convert_files,
)
from trainfeed.samples import Field, Schema

SAMPLES = 60_000
SHARDS = 10
RUNS = 3
SCHEMA = Schema((Field("image", "uint8", (784,)), Field("label", "int64")))
EXAMPLES = ConvertOptions(file_format=FileFormat.TFRECORD)


def measure(what: str, run: Callable[[Path], object], folder: Path) -> None:
    """Print a row: samples per second of processor time."""
    best = float("inf")
    for number in range(RUNS):
        started = time.process_time()
        run(folder / f"{what} {number}")
        best = min(best, time.process_time() - started)
    print(f"| {what} | {SAMPLES / best:,.0f} |", flush=True)


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, required=True)
    images = np.random.default_rng(0).integers(0, 256, (SAMPLES, 784), np.uint8)
    labels = np.arange(SAMPLES) % 10

    def reader() -> Iterator[Any]:
        return zip(images, labels.tolist(), strict=True)

    def blocks() -> Iterator[Any]:
        return iter([{"image": images, "label": labels}])

    with tempfile.TemporaryDirectory(dir=parser.parse_args().folder) as name:
        folder = Path(name)
        source = folder / "source"
        convert_arrays(source, blocks, SHARDS, "p", schema=SCHEMA)
        cases: dict[str, Callable[[Path], object]] = {
            "typed": lambda out: convert(out, reader, SHARDS, "p", schema=SCHEMA),
            "values": lambda out: convert(out, reader, SHARDS, "p"),
            "Examples": lambda out: convert(
                out, reader, SHARDS, "p", schema=SCHEMA, options=EXAMPLES
            ),
            "arrays to Examples": lambda out: convert_arrays(
                out, blocks, SHARDS, "p", schema=SCHEMA, options=EXAMPLES
            ),
            "RecordIO files": lambda out: convert_files([source], out, SHARDS, "p"),
            "RecordIO files to Examples": lambda out: convert_files(
                [source], out, SHARDS, "p", options=EXAMPLES
            ),
        }
        for what, run in cases.items():
            measure(what, run, folder)


if __name__ == "__main__":
    main()
