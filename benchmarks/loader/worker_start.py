"""How long does a loader take to its first batch from a new worker process, and how much memory?

Question: what does a worker import before it can load a window, in time and memory? Method:
--rounds loaders after each other, one worker each, over Python objects and over a record file; the
files are small, so that starting is all there is. Other work on the machine changes wall times, and
hardly the processor time. PYTHONPATH says which version is measured.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trainfeed.loader import DataLoader, RecordFiles
from trainfeed.recordio import RecordWriter
from trainfeed.samples import Field, Schema, TypedCodec

NUM_SAMPLES, BATCH = 100, 10
SCHEMA = Schema((Field("label", "int64"),))


def record_file(folder: Path) -> RecordFiles:
    """Write a small file, and return it."""
    path, codec = folder / "labels", TypedCodec(SCHEMA)
    with RecordWriter(path) as writer:
        for label in range(NUM_SAMPLES):
            writer.write(codec.encode({"label": label}))
    return RecordFiles(path, SCHEMA)


def children() -> set[int]:
    """Return the processes that the main thread has started."""
    pid = os.getpid()
    return set(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))


def processor_s(pid: int) -> float:
    """Return the seconds of processor time that a process has taken."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def first_batch(dataset: Any) -> tuple[float, float, int]:
    """Return the seconds to the first batch, and what its worker has taken: seconds, and KiB."""
    before = children()
    with DataLoader(dataset, BATCH, num_workers=1) as loader:
        start_s = time.perf_counter()
        batches = iter(loader)
        next(batches)
        seconds = time.perf_counter() - start_s
        (worker,) = children() - before
        lines = Path(f"/proc/{worker}/status").read_text().splitlines()
        resident = next(line for line in lines if line.startswith("VmRSS"))
        return seconds, processor_s(worker), int(resident.split()[1])


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a line per kind of data set."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args(arguments).rounds
    with tempfile.TemporaryDirectory() as folder:
        objects = [{"label": label} for label in range(NUM_SAMPLES)]
        for name, dataset in (("objects", objects), ("record file", record_file(Path(folder)))):
            found = [first_batch(dataset) for _ in range(rounds)]
            seconds, processor, kib = (sorted(each) for each in zip(*found, strict=True))
            print(
                f"{name}: first batch after {1000 * seconds[0]:.0f} ms at least,"
                f" {1000 * statistics.median(seconds):.0f} ms at the median; worker:"
                f" {1000 * statistics.median(processor):.0f} ms of processor,"
                f" {kib[-1] / 1024:.0f} MiB"
            )


if __name__ == "__main__":
    main()
