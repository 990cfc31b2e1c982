"""What does the loader read from the disk when the set does not fit into memory, and how fast?

Question: how many bytes come from the disk per byte of the set, in every order and layout, and how
near is the rate to that of dd?
Method: the sets have --times the memory of a control group, in which every case runs as a process
of its own after the files have been dropped from the page cache. The cases take turns with dd for
--rounds rounds; medians count. Bytes from the disk are those that the kernel accounts to the
process and its children. Needs root, and control groups of version 1 or 2.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from trainfeed.loader import DataLoader, RecordFiles, TFRecordFiles
from trainfeed.recordio import Codec, RandomAccess, RecordWriter
from trainfeed.samples import Field, Schema, TypedCodec
from trainfeed.tfrecord import TFRecordWriter

FIXED = Schema((Field("image", "uint8", (3072,)), Field("label", "int64")))
VARIED = Schema((Field("label", "int64"), Field("blob", "bytes")))
BLOCK_BYTES = 512
GROUPS = Path("/sys/fs/cgroup")
SETS = ("fixed", "varied", "zstd", "tfrecord")
CASES: dict[str, dict[str, Any]] = {
    "fixed natural": {"set": "fixed"},
    "fixed natural, 2 threads": {"set": "fixed", "num_threads": 2},
    "fixed shuffled": {"set": "fixed", "shuffle": True},
    "fixed shuffled, 1 thread": {"set": "fixed", "shuffle": True, "num_threads": 1},
    "fixed shuffled, 2 threads": {"set": "fixed", "shuffle": True, "num_threads": 2},
    "fixed shuffled, 2 processes": {"set": "fixed", "shuffle": True, "num_workers": 2},
    "fixed shuffled, read": {"set": "fixed", "shuffle": True, "immutable": False},
    "varied natural": {"set": "varied"},
    "varied natural, 2 threads": {"set": "varied", "num_threads": 2},
    "varied shuffled": {"set": "varied", "shuffle": True},
    "varied shuffled, read": {"set": "varied", "shuffle": True, "immutable": False},
    "varied shuffled, 2 processes": {"set": "varied", "shuffle": True, "num_workers": 2},
    "zstd natural": {"set": "zstd"},
    "zstd shuffled": {"set": "zstd", "shuffle": True},
    "zstd shuffled, 2 threads": {"set": "zstd", "shuffle": True, "num_threads": 2},
    "tfrecord natural": {"set": "tfrecord"},
    "tfrecord shuffled": {"set": "tfrecord", "shuffle": True},
    "tfrecord shuffled, index kept": {"set": "tfrecord", "shuffle": True, "index": True},
    "tfrecord shuffled, index kept, 2 threads": {
        "set": "tfrecord",
        "shuffle": True,
        "index": True,
        "num_threads": 2,
    },
    "records by number, read": {"set": "varied", "access": False},
    "records by number, mapped": {"set": "varied", "access": True},
}


def files_of(folder: Path, name: str, num_bytes: int) -> list[Path]:
    """Return the files of a set, written when they are missing, in shards of 256 MiB."""
    shards = max(1, num_bytes >> 28)
    paths = [folder / f"{name}-{num_bytes >> 20}-{i}" for i in range(shards)]
    for number, path in enumerate(paths):
        if not path.exists():
            _write(path.with_suffix(".new"), name, number, num_bytes // shards)
            path.with_suffix(".new").rename(path)
    return paths


def _write(path: Path, name: str, number: int, num_bytes: int) -> None:
    random = np.random.default_rng(number)
    if name in {"fixed", "zstd"}:
        codec, high = (Codec.ZSTD, 16) if name == "zstd" else (Codec.NONE, 256)
        with RecordWriter(path, codec=codec) as records:
            # Numbers below 16 compress to about half.
            for _ in range(num_bytes * (1 + (high == 16)) // 3080 // 2048 + 1):
                images = random.integers(0, high, (2048, 3072), np.uint8)
                columns = {"image": images, "label": np.arange(2048, dtype=np.int64)}
                records.write_array(TypedCodec(FIXED).encode_columns(columns))
    elif name == "varied":
        typed = TypedCodec(VARIED)
        with RecordWriter(path) as records:
            for _ in range(num_bytes // 25_000):
                blob = random.bytes(int(random.integers(10_000, 40_000)))
                records.write(typed.encode({"label": np.int64(number), "blob": blob}))
    else:
        with TFRecordWriter(path) as examples:
            for _ in range(num_bytes // 25_000):
                examples.write(random.bytes(int(random.integers(10_000, 40_000))))


def read(case: dict[str, Any], paths: list[Path]) -> dict[str, float]:
    """Read one epoch, or records by number; return what it took."""
    case = dict(case)
    name = case.pop("set")
    if "access" in case:
        return _by_number(paths, mapped=case["access"])
    start_s = time.perf_counter()
    dataset: Any
    if name == "tfrecord":
        folder = paths[0].parent / "index" if case.pop("index", False) else None
        dataset = TFRecordFiles(paths, index_folder=folder)
    else:
        schema = VARIED if name == "varied" else FIXED
        dataset = RecordFiles(paths, schema, immutable=case.pop("immutable", True))
    samples = 0
    with DataLoader(dataset, 128, seed=1, **case) as loader:
        open_s = time.perf_counter() - start_s
        for batch in loader:
            samples += batch.num_rows
    return {"s": time.perf_counter() - start_s, "open_s": open_s, "samples": samples}


def _by_number(paths: list[Path], *, mapped: bool) -> dict[str, float]:
    """Verify all chunks, then get every record of all files once, in random order."""
    with ExitStack() as stack:
        files = [stack.enter_context(RandomAccess(path, mapped=mapped)) for path in paths]
        places = [(file, i) for file in files for i in range(len(file))]
        for file, i in places:
            file.get(i)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_inblock
        start_s = time.perf_counter()
        order = np.random.default_rng(0).permutation(len(places))[: len(places) // 10]
        num_bytes = sum(len(places[i][0].get(places[i][1])) for i in order.tolist())
        seconds = time.perf_counter() - start_s
    blocks = resource.getrusage(resource.RUSAGE_SELF).ru_inblock - before
    return {"s": seconds, "bytes": num_bytes, "disk_bytes": blocks * BLOCK_BYTES}


@contextmanager
def memory_group(limit_bytes: int) -> Iterator[Path]:
    """Make a memory control group; yield the file that takes the numbers of its processes."""
    version_1 = GROUPS / "memory"
    base, setting = (
        (version_1, "memory.limit_in_bytes") if version_1.is_dir() else (GROUPS, "memory.max")
    )
    group = base / f"trainfeed-cold-{os.getpid()}"
    group.mkdir()
    try:
        (group / setting).write_text(str(limit_bytes))
        yield group / "cgroup.procs"
    finally:
        group.rmdir()


def dropped(paths: list[Path]) -> None:
    """Drop files from the page cache."""
    for path in paths:
        fd = os.open(path, os.O_RDONLY)
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


class Ran(NamedTuple):
    """What became of a program: its seconds, those of the CPU, bytes from the disk, its output."""

    seconds: float
    cpu_s: float
    disk_bytes: int
    text: str


def run_in(procs: Path, command: list[str]) -> Ran:
    """Run a program in a group, and its children."""

    def join() -> None:
        procs.write_text("0")

    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start_s = time.perf_counter()
    done = subprocess.run(command, check=True, capture_output=True, text=True, preexec_fn=join)
    seconds = time.perf_counter() - start_s
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Ran(seconds, cpu_s, (after.ru_inblock - before.ru_inblock) * BLOCK_BYTES, done.stdout)


def measured(folder: Path, name: str, num_bytes: int, procs: Path) -> dict[str, float]:
    """Run a case, or dd, once."""
    if name.startswith("dd "):
        paths = files_of(folder, name.removeprefix("dd "), num_bytes)
        dropped(paths)
        found = [
            run_in(procs, ["dd", f"if={path}", "of=/dev/null", "bs=1M", "status=none"])
            for path in paths
        ]
        return _result(sum(ran.seconds for ran in found), found, paths)
    paths = files_of(folder, CASES[name]["set"], num_bytes)
    if CASES[name].get("index"):
        TFRecordFiles(paths, index_folder=folder / "index").source()
    dropped(paths)
    command = [sys.executable, __file__, str(folder), "--one", name, "--bytes", str(num_bytes)]
    ran = run_in(procs, command)
    told = json.loads(ran.text)
    if "bytes" in told:
        return {
            "MB/s": told["bytes"] / told["s"] / 1e6,
            "read": told["disk_bytes"] / told["bytes"],
            "cpu_s": ran.cpu_s,
            "MB": told["bytes"] / 1e6,
        }
    return _result(told["s"], [ran], paths)


def _result(seconds: float, found: list[Ran], paths: list[Path]) -> dict[str, float]:
    size = sum(path.stat().st_size for path in paths)
    return {
        "MB/s": size / seconds / 1e6,
        "read": sum(ran.disk_bytes for ran in found) / size,
        "cpu_s": sum(ran.cpu_s for ran in found),
        "MB": size / 1e6,
    }


def main() -> None:
    """Run the cases and print them as JSON, one per line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where the sets are, or are written to")
    parser.add_argument("--limit-mib", type=int, default=512)
    parser.add_argument("--times", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="cases whose name matches this")
    parser.add_argument("--one", help="read this case here, and print its seconds")
    parser.add_argument("--bytes", type=int, help="size of the sets")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    num_bytes = arguments.bytes or (arguments.limit_mib << 20) * arguments.times
    if arguments.one:
        case = CASES[arguments.one]
        print(json.dumps(read(case, files_of(arguments.folder, case["set"], num_bytes))))
        return
    names = [name for name in CASES if re.search(arguments.only, name)]
    names = [f"dd {name}" for name in SETS if any(CASES[c]["set"] == name for c in names)] + names
    found: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    with memory_group(arguments.limit_mib << 20) as procs:
        for _ in range(arguments.rounds):
            for name in names:
                found[name].append(measured(arguments.folder, name, num_bytes, procs))
    print(json.dumps({"python": platform.python_version(), "kernel": platform.release()}))
    for name, results in found.items():
        rates = sorted(result["MB/s"] for result in results)
        row = {
            "case": name,
            "MB/s": round(statistics.median(rates)),
            "lowest": round(rates[0]),
            "highest": round(rates[-1]),
            "read per byte": round(statistics.median(result["read"] for result in results), 3),
            "CPU s, all": round(statistics.median(result["cpu_s"] for result in results), 1),
            "MB": round(results[0]["MB"]),
        }
        print(json.dumps(row))
    print(json.dumps({"load": os.getloadavg()[0]}))


if __name__ == "__main__":
    main()
