"""How fast does the loader read from a CephFS, beside a naive reader and dd, cold and warm?

Question: what does a reader that knows network file systems gain there: large windows that are
requested ahead, in place of a request for each sample?
Method: a mount of its own for every case, by a client that has just begun, so neither the kernel
nor the client has a byte of the set (cold); then the same once more (warm). The naive readers are
what a short program does: in order, a buffered file from which record after record is read;
shuffled, one ``pread`` for each sample of a permutation, ``--naive`` of them. Cases take turns for
``--rounds`` rounds; the median counts, and the least and the most are printed. All daemons of the
cluster share the cores, and its objects are in memory.

    PYTHONPATH=.:include python -m services run cephfs -- python benchmarks/loader/cephfs.py
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any, Final

import numpy as np
from cold import CASES, files_of, read

from services.cephfs import CephFS

BATCH: Final = 128
ROW_BYTES: Final = 3080
DD: Final = "dd"
NATURAL: Final = ("fixed natural", "fixed natural, 2 threads")
RANDOM: Final = ("fixed shuffled", "fixed shuffled, 2 threads")
IN_ORDER: Final = "naive in order"
SHUFFLED: Final = "naive shuffled"
NAMES: Final = (DD, IN_ORDER, *NATURAL, SHUFFLED, *RANDOM)


def rows_file(folder: Path, num_bytes: int) -> Path:
    """Return the file of the naive readers: rows of an image and a label, one after the other."""
    path = folder / f"rows-{num_bytes >> 20}"
    if not path.exists():
        random = np.random.default_rng(0)
        with path.with_suffix(".new").open("wb") as file:
            for _ in range(num_bytes // ROW_BYTES // 4096):
                file.write(random.integers(0, 256, (4096, ROW_BYTES), np.uint8))
        path.with_suffix(".new").rename(path)
    return path


def read_naively(path: Path, most: int, *, shuffle: bool) -> dict[str, float]:
    """Read rows, and stack them to batches; in order all of them, shuffled ``most``."""
    start_s = time.perf_counter()
    count = path.stat().st_size // ROW_BYTES
    samples = 0
    with path.open("rb") as file:
        numbers = np.random.default_rng(1).permutation(count)[:most] if shuffle else range(count)
        rows = []
        for number in numbers:
            if shuffle:
                row = os.pread(file.fileno(), ROW_BYTES, int(number) * ROW_BYTES)
            else:
                row = file.read(ROW_BYTES)
            rows.append(np.frombuffer(row, np.uint8))
            if len(rows) == BATCH:
                batch = np.stack(rows)
                samples += len({"image": batch[:, :3072], "label": batch[:, 3072:]}["image"])
                rows.clear()
    return {"s": time.perf_counter() - start_s, "samples": samples, "row_bytes": ROW_BYTES}


def one(folder: Path, name: str, num_bytes: int, most: int) -> dict[str, float]:
    """Read a set once, in this process; return seconds, samples and the bytes of one."""
    if name in {IN_ORDER, SHUFFLED}:
        return read_naively(rows_file(folder, num_bytes), most, shuffle=name == SHUFFLED)
    if name == DD:
        path = rows_file(folder, num_bytes)
        start_s = time.perf_counter()
        command = ["dd", f"if={path}", "of=/dev/null", "bs=1M", "status=none"]
        subprocess.run(command, check=True)
        samples = path.stat().st_size // ROW_BYTES
        return {"s": time.perf_counter() - start_s, "samples": samples, "row_bytes": ROW_BYTES}
    found = read(CASES[name], files_of(folder, "fixed", num_bytes))
    # Files without an index are looked through when they are opened; a published set has one.
    return {**found, "s": found["s"] - found["open_s"], "row_bytes": ROW_BYTES}


def measured(service: CephFS, name: str, given: argparse.Namespace) -> list[float]:
    """Read cold and warm through a mount of its own; return MB/s of both."""
    mount = service.home / "cold"
    service.mount(mount)
    try:
        command = [sys.executable, __file__, "--mebibytes", str(given.mebibytes), "--one", name]
        command += ["--naive", str(given.naive), "--folder", str(mount / given.name)]
        rates = []
        for _ in range(2):
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            told: dict[str, Any] = json.loads(done.stdout)
            rates.append(told["samples"] * told["row_bytes"] / told["s"] / 1e6)
        return rates
    finally:
        service.unmount(mount)


def main() -> None:
    """Run the cases, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mebibytes", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--naive", type=int, default=20_000, help="samples of the shuffled one")
    parser.add_argument("--only", default="", help="cases whose name matches this")
    parser.add_argument("--name", default="loader-bench", help="folder on the CephFS")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    num_bytes = given.mebibytes << 20
    if given.one:
        print(json.dumps(one(given.folder, given.one, num_bytes, given.naive)))
        return
    service = CephFS()
    home = service.path / given.name
    home.mkdir(exist_ok=True)
    files_of(home, "fixed", num_bytes)
    rows_file(home, num_bytes)
    found: dict[str, list[list[float]]] = defaultdict(list)
    for _ in range(given.rounds):
        for name in filter(re.compile(given.only).search, NAMES):
            found[name].append(measured(service, name, given))
            cold, warm = found[name][-1]
            load = os.getloadavg()[0]
            print(f"{name:28} cold {cold:7.1f}, warm {warm:7.1f} MB/s; load {load:.1f}", flush=True)
    for name, rates in found.items():
        for what, values in zip(("cold", "warm"), zip(*rates, strict=True), strict=True):
            spread = f"{min(values):.1f}-{max(values):.1f}"
            print(f"{name:28} {what}: {statistics.median(values):7.1f} MB/s ({spread})")


if __name__ == "__main__":
    main()
