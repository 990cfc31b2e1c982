"""The tasks that two commits run in turns: this file, run with one commit or the other on the path.

``python _tasks.py PLACE TASK``. Only names that both commits have are used.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
import _days as days

from trainfeed.conversion import convert_arrays
from trainfeed.loader import DataLoader, RecordFiles
from trainfeed.recordio import RecordScanner, RecordWriter
from trainfeed.samples import Field, Schema
from trainfeed.tfrecord import TFRecordReader, TFRecordWriter

RECORDS = 400_000


def prepare(place: Path, tasks: list[str]) -> None:
    """Write what the tasks read, unless it is there."""
    if "build" in tasks and not (place / "flights").exists():
        module = f"benchmarks.{benchmark()}.prepare"
        command = [sys.executable, "-m", module, str(place / "flights"), "--copies", "1"]
        subprocess.run(command, check=True)
    if "day" in tasks and not (place / "day").exists():
        days.prepare(place / "day")
    if "versions" in tasks and not (place / "versions").exists():
        days.prepare_versions(place / "versions")
    if not (place / "set").exists() and {"loader", "workers"} & {*tasks}:
        convert(place / "set")


def benchmark() -> str:
    """Return the name of the folder with the benchmark of builds, which has moved."""
    return "pipeline" if importlib.util.find_spec("benchmarks.pipeline") else "build"


def build(place: Path) -> None:
    """Build the flights of a year from a recorded topic."""
    module = f"benchmarks.{benchmark()}.ours"
    source, out = place / "flights" / "x1", place / "out" / "build"
    out.mkdir()
    subprocess.run([sys.executable, "-m", module, str(source), "batch", str(out)], check=True)


def convert(folder: Path) -> None:
    """Shuffle images and labels into ten shards."""
    convert_arrays(folder, blocks, 10, "images", schema=schema(), seed=1)


def blocks() -> Iterator[dict[str, Any]]:
    """Yield blocks of random images, and labels."""
    rng = np.random.default_rng(0)
    image = rng.integers(0, 256, (20_000, 784), dtype=np.uint8)
    label = rng.integers(0, 10, 20_000, dtype=np.int64)
    for _ in range(RECORDS // 20_000):
        yield {"image": image, "label": label}


def schema() -> Schema:
    """Return the schema of the images."""
    return Schema((Field("image", "uint8", (784,)), Field("label", "int64")))


def formats(place: Path) -> None:
    """Write and read records of both formats, one by one."""
    record = bytes(range(200)) * 4
    for write, read in ((RecordWriter, RecordScanner), (TFRecordWriter, TFRecordReader)):
        path = place / "out" / write.__name__
        with write(path) as writer:
            for _ in range(RECORDS):
                writer.write(record)
        for _ in range(3):
            check(sum(1 for _ in read(path)))


def load(place: Path, num_workers: int) -> None:
    """Read ten shuffled epochs."""
    paths = sorted((place / "set").glob("images-*-of-*"))
    records = RecordFiles(paths, schema())
    loader = DataLoader(
        records, batch_size=256, shuffle=True, seed=1, rank=0, world_size=1, num_workers=num_workers
    )
    for _ in range(10):
        check(sum(len(batch["label"]) for batch in loader))


def check(num_records: int) -> None:
    """Fail unless all records were read."""
    if num_records != RECORDS:
        sys.exit(f"expected {RECORDS} records, got {num_records}")


def start(*arguments: str) -> None:
    """Start python five times."""
    for _ in range(5):
        subprocess.run([sys.executable, *arguments], check=True)


def main() -> None:
    """Run the task that is named."""
    place, task, *rest = Path(sys.argv[1]), *sys.argv[2:]
    tasks: dict[str, Callable[[], object]] = {
        "prepare": lambda: prepare(place, rest),
        "build": lambda: build(place),
        "convert": lambda: convert(place / "out" / "set"),
        "day": lambda: days.build(place / "day", place / "out" / "day"),
        "versions": lambda: days.open_all(place / "versions"),
        "formats": lambda: formats(place),
        "loader": lambda: load(place, 0),
        "workers": lambda: load(place, 2),
        "import": lambda: start(
            "-c", "import trainfeed; trainfeed.DataLoader, trainfeed.open_dataset"
        ),
        "command": lambda: start("-m", "trainfeed", "--help"),
    }
    tasks[task]()


if __name__ == "__main__":
    main()
