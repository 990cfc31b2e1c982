"""Compares two commits by the command of ``make run``: a real Airflow, three days, three trainings.

``python -m benchmarks.house.whole_run BEFORE AFTER [--rounds 3] [--days 3]``. BEFORE and AFTER are
folders with a commit each, which have ``data/nycflights13`` (a link will do). The two take turns,
and change who begins; each run begins without versions and without an Airflow, but with the topic
that an earlier run has recorded. Processor time is that of every process of the run: daemons whose
parent ended become children of this process, which waits for them.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import resource
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

__all__ = ["run"]

# What one run leaves and the next one would find.
_MADE: Final = ("airflow", "landing", "root", "work")
_SUBREAPER: Final = 36  # PR_SET_CHILD_SUBREAPER of linux/prctl.h


def main() -> None:
    """Record the topic of each commit, run both in turns, and print a row for each run."""
    parser = argparse.ArgumentParser()
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--rounds", type=int, default=3, choices=range(1, 100))
    parser.add_argument("--days", type=int, default=3)
    options = parser.parse_args()
    if ctypes.CDLL(None, use_errno=True).prctl(_SUBREAPER, 1, 0, 0, 0):
        sys.exit(f"this process cannot adopt the daemons of a run: errno {ctypes.get_errno()}")
    checkouts = {"before": options.before.resolve(), "after": options.after.resolve()}
    for checkout in checkouts.values():
        if not (checkout / "data" / "recorded").exists():
            run(checkout, options.days)
    print("| round | commit | wall, s | processor, s |")
    figures: dict[str, list[tuple[float, float]]] = {name: [] for name in checkouts}
    for turn in range(options.rounds):
        for name in sorted(checkouts, reverse=turn % 2 == 0):
            wall_s, used_s = run(checkouts[name], options.days)
            figures[name].append((wall_s, used_s))
            print(f"| {turn + 1} | {name} | {wall_s:.1f} | {used_s:.1f} |", flush=True)
    for name, rows in figures.items():
        wall_s, used_s = (statistics.median(column) for column in zip(*rows, strict=True))
        print(f"| median | {name} | {wall_s:.1f} | {used_s:.1f} |")


def run(checkout: Path, days: int) -> tuple[float, float]:
    """Run the command once in an empty place; return its wall time and processor time in seconds.

    Args:
        checkout: Folder of a commit.
        days: Number of days to build and train on.
    """
    for name in _MADE:
        shutil.rmtree(checkout / "data" / name, ignore_errors=True)
    environ = {
        **os.environ,
        "PYTHONPATH": f"{checkout}:{checkout / 'include'}",
        "PYTHONNOUSERSITE": "1",
    }
    environ.pop("AIRFLOW_HOME", None)
    used_s, started = _used_s(), time.perf_counter()
    command = [sys.executable, "-m", "examples.daily", "--days", str(days)]
    done = subprocess.run(command, cwd=checkout, env=environ, capture_output=True, check=False)
    wall_s = time.perf_counter() - started
    _wait_for_daemons()
    if done.returncode:
        sys.exit(f"{checkout}: status {done.returncode}\n{done.stdout[-2000:].decode()}")
    return wall_s, _used_s() - used_s


def _used_s() -> float:
    """Return the processor time of all processes that this one has waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _wait_for_daemons() -> None:
    while True:
        try:
            os.wait()
        except ChildProcessError:
            return


if __name__ == "__main__":
    main()
