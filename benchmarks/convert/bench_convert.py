"""How fast is a conversion with a global shuffle, and does it stay in its memory?

Question: ``convert_arrays`` of N times 60,000 records of (uint8[784], int64), 792 bytes each, into
10 shards, against ``RecordWriter.write_array`` of the same blocks into one file. Both sync what
they write. Method: every run is a process of its own; runs of the two alternate; medians. Memory is
the peak of the process as the kernel counts it, the block of the data included (47 MiB). Processor
time is given for our code (user) and for the kernel (system) apart: writing into the page cache of
a shared machine costs the kernel between 0.3 and 3 s per GB, for every program.

    PYTHONPATH=include python benchmarks/convert/bench_convert.py --folder /tmp --times 80 --runs 7
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from trainfeed.conversion import convert_arrays
from trainfeed.recordio import RecordWriter
from trainfeed.samples import Field, Schema

RECORDS = 60_000
SHARDS = 10


def block() -> Any:
    """Data set A: random images, and labels."""
    schema = Schema((Field("image", "uint8", (784,)), Field("label", "int64")))
    rng = np.random.default_rng(0)
    records = np.empty(RECORDS, schema.record_dtype)
    records["image"] = rng.integers(0, 256, (RECORDS, 784), np.uint8)
    records["label"] = np.arange(RECORDS)
    return schema, records


def run(what: str, folder: Path, times: int) -> dict[str, float]:
    """Do one run in this process and measure it."""
    schema, records = block()
    before = resource.getrusage(resource.RUSAGE_SELF)
    started = time.perf_counter()
    if what == "write":
        with RecordWriter(folder / "file") as writer:
            for _ in range(times):
                writer.write_array(records)
    else:
        convert_arrays(
            folder / "set", lambda: (records for _ in range(times)), SHARDS, "a", schema=schema
        )
    seconds = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "seconds": seconds,
        "user": after.ru_utime - before.ru_utime,
        "system": after.ru_stime - before.ru_stime,
        "rss_mib": after.ru_maxrss / 1024,
        "bytes": times * records.nbytes,
    }


def measure(what: str, parent: Path, times: int) -> dict[str, float]:
    """Do one run in a process of its own, in a folder of its own."""
    folder = Path(tempfile.mkdtemp(prefix="bench-convert-", dir=parent))
    try:
        command = [sys.executable, __file__, "--one", what, "--folder", str(folder)]
        done = subprocess.run(
            [*command, "--times", str(times)], check=True, capture_output=True, text=True
        )
        return dict(json.loads(done.stdout))
    finally:
        shutil.rmtree(folder)


def summary(runs: list[dict[str, float]]) -> dict[str, float]:
    """Medians, and the highest peak of memory."""
    return {
        "runs": len(runs),
        "gb_per_s": statistics.median(each["bytes"] / 1e9 / each["seconds"] for each in runs),
        "seconds": statistics.median(each["seconds"] for each in runs),
        "user_seconds": statistics.median(each["user"] for each in runs),
        "system_seconds": statistics.median(each["system"] for each in runs),
        "cpu_seconds": statistics.median(each["user"] + each["system"] for each in runs),
        "rss_mib": max(each["rss_mib"] for each in runs),
    }


def main() -> None:
    """Measure, and print JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--times", type=int, default=80)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--one", choices=["write", "convert"])
    options = parser.parse_args()
    if options.one:
        print(json.dumps(run(options.one, options.folder, options.times)))
        return
    if options.times < 10 or options.times % 10:
        parser.error(f"expected --times to be a multiple of 10, got {options.times}")
    found: dict[str, list[dict[str, float]]] = {"write": [], "convert": [], "convert tenth": []}
    for _ in range(options.runs):
        for what in ("write", "convert"):
            found[what].append(measure(what, options.folder, options.times))
        found["convert tenth"].append(measure("convert", options.folder, options.times // 10))
    result: dict[str, Any] = {what: summary(runs) for what, runs in found.items()}
    whole, tenth = result["convert"], result["convert tenth"]
    result["rate against write_array"] = whole["gb_per_s"] / result["write"]["gb_per_s"]
    for name in ("user", "system", "cpu"):
        key = f"{name}_seconds"
        result[f"{name} time of ten times the input"] = whole[key] / tenth[key]
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
