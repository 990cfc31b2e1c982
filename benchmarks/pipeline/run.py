"""Runs the build benchmark: trainfeed and its peers in turns; prints medians.

``python -m benchmarks.pipeline.run FOLDER --peers PYTHON [--rounds 3] [--copies 10] [--only NAME]``

FOLDER is the output of ``benchmarks.pipeline.prepare``, PYTHON the interpreter of an environment
with ``requirements/peers.txt``. Every run is a process of its own, start and end included, into a
folder that is removed afterwards. Memory is the largest sum of the resident memory of all its
processes, measured ten times a second; processor time is that of all its processes.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

HERE: Final = Path(__file__).parent
ROOT: Final = HERE.parents[1]
RECORDS_PER_COPY: Final = 336_776
_POLL_S: Final = 0.1
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Way:
    """A way to build.

    Attributes:
        name: Of the row in the table.
        command: What to run, with ``{place}`` and ``{out}`` in it.
    """

    name: str
    command: tuple[str, ...]


def ways(peers: str) -> list[Way]:
    """Return all ways to build."""
    found = [
        Way(f"{name} {form}", (sys.executable, "-m", module, "{place}", form, "{out}"))
        for name, module in (
            ("trainfeed", "benchmarks.pipeline.ours"),
            ("floor", "benchmarks.pipeline.floor"),
        )
        for form in ("batch", "record")
    ]
    for engine in ("polars", "duckdb", "pyspark"):
        for form in ("records", "parquet"):
            script = str(HERE / "peers" / f"{engine}_peer.py")
            found.append(Way(f"{engine} {form}", (peers, script, "{place}", "{out}", form)))
    return found


def main() -> None:
    """Run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--peers", required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--copies", type=int, default=10)
    parser.add_argument("--only", default="")
    parser.add_argument("--json", type=Path, default=None)
    options = parser.parse_args()
    chosen = [
        w
        for w in ways(options.peers)
        if options.only in {"", w.name} or w.name in options.only.split(",")
    ]
    place = options.folder / f"x{options.copies}"
    _warm(place)
    runs: dict[str, list[dict[str, Any]]] = {way.name: [] for way in chosen}
    for _ in range(options.rounds):
        for way in chosen:
            runs[way.name].append(_run(way, place, options.folder / "out"))
            print(way.name, json.dumps(runs[way.name][-1]), flush=True)
    _print_table(runs, options.copies * RECORDS_PER_COPY)
    if options.json is not None:
        options.json.write_text(json.dumps(runs, indent=1))


def _warm(place: Path) -> None:
    for path in place.rglob("*"):
        if path.is_file():
            path.read_bytes()


def _run(way: Way, place: Path, out: Path) -> dict[str, Any]:
    shutil.rmtree(out, ignore_errors=True)
    started = time.perf_counter()
    process = subprocess.Popen(
        [part.format(place=place, out=out) for part in way.command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'include'}:{ROOT}"},
    )
    watch = Watch(process.pid)
    while process.poll() is None:
        watch.look()
        try:
            process.wait(_POLL_S)
        except subprocess.TimeoutExpired:
            continue
    wall_s = time.perf_counter() - started
    printed, errors = process.communicate()
    if process.returncode:
        raise SystemExit(f"{way.name} failed: {errors.decode()[-3000:]}")
    result = {
        "wall_s": round(wall_s, 2),
        "cpu_s": round(watch.cpu_s, 2),
        "rss_mib": watch.rss_bytes >> 20,
        "load": round(os.getloadavg()[0], 1),
    }
    # Peers report nothing.
    last = (printed.decode().splitlines() or [""])[-1]
    if last.startswith("{"):
        report = json.loads(last)
        seconds = report["seconds"]
        result |= {"stages": seconds, "content": report["content"][:12]}
        # From process start on, without reading the source and without publishing.
        result["core_s"] = round(seconds["preprocess"] + seconds["convert"], 2)
    shutil.rmtree(out, ignore_errors=True)
    return result


class Watch:
    """Looks at a process and all that it has started.

    Attributes:
        rss_bytes: Largest sum of their resident memory.
        peaks: Largest resident memory of every process, by its id.
    """

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._cpu: dict[int, int] = {}
        self.rss_bytes = 0
        self.peaks: dict[int, int] = {}

    @property
    def cpu_s(self) -> float:
        """Processor time of all processes that were seen."""
        return sum(self._cpu.values()) / _TICKS

    def look(self) -> None:
        """Take what the processes use now."""
        pids = [self._pid]
        for pid in pids:
            pids += children(pid)
        pages = 0
        for pid in pids:
            try:
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            self._cpu[pid] = int(fields[11]) + int(fields[12])
            pages += int(fields[21])
            peak = max(self.peaks.get(pid, 0), int(fields[21]) * _PAGE_BYTES)
            self.peaks[pid] = peak
        self.rss_bytes = max(self.rss_bytes, pages * _PAGE_BYTES)


def children(pid: int) -> list[int]:
    """Return the processes that a process has started."""
    try:
        return [
            int(child)
            for path in Path(f"/proc/{pid}/task").glob("*/children")
            for child in path.read_text().split()
        ]
    except OSError:
        return []


def _print_table(runs: dict[str, list[dict[str, Any]]], records: int) -> None:
    print("\n| way | thousand records/s | wall s | CPU s | RSS MiB | load |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name, found in runs.items():
        wall_s, cpu_s, rss, load = (
            median(run[key] for run in found) for key in ("wall_s", "cpu_s", "rss_mib", "load")
        )
        rate = records / wall_s / 1000
        print(f"| {name} | {rate:.0f} | {wall_s:.1f} | {cpu_s:.1f} | {rss:.0f} | {load:.1f} |")
        if "core_s" in found[0]:
            core_s = median(run["core_s"] for run in found)
            rate = records / core_s / 1000
            print(f"| {name}: preprocess, convert | {rate:.0f} | {core_s:.1f} | | | |")


if __name__ == "__main__":
    main()
