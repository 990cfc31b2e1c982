"""Compares two commits of trainfeed: build, conversion, formats, loader, and the cost of imports.

``python -m benchmarks.house.paired BEFORE AFTER --folder FOLDER [--rounds 7] [--tasks …]``. BEFORE
and AFTER are folders with a commit each. Every run is a process of its own; the two take turns, and
change who begins. A figure is the median over the rounds, of wall time and of the processor time
of the process with those that it waited for; a ratio is the median of the pairs, with the interval
that 95 % of 10,000 resamples of the pairs give. The spread is how far the medians of the even and
of the odd rounds of BEFORE lie apart: two measurements of the same commit.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

TASKS: Final = (
    "build",
    "day",
    "versions",
    "convert",
    "formats",
    "loader",
    "workers",
    "import",
    "command",
)
HERE: Final = Path(__file__).resolve().parent


def main() -> None:
    """Run all tasks in turns, and print a row for each."""
    parser = argparse.ArgumentParser()
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path)
    parser.add_argument("--tasks", nargs="+", default=TASKS, choices=TASKS)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=7, choices=range(2, 100))
    options = parser.parse_args()
    checkouts = (options.before.resolve(), options.after.resolve())
    places = [options.folder / name for name in ("before", "after")]
    for checkout, place in zip(checkouts, places, strict=True):
        run(checkout, place, "prepare", *options.tasks)
    print("| task | wall, before → after, s | ratio | spread | processor | ratio | spread |")
    for task in options.tasks:
        figures: list[list[tuple[float, float]]] = [[], []]
        for turn in range(options.rounds):
            for which in (turn % 2, 1 - turn % 2):
                figures[which].append(run(checkouts[which], places[which], task))
        print(row(task, figures), flush=True)


def run(checkout: Path, place: Path, *arguments: str) -> tuple[float, float]:
    """Run a task once; return its wall time and processor time in seconds."""
    shutil.rmtree(place / "out", ignore_errors=True)
    (place / "out").mkdir(parents=True)
    command = [sys.executable, str(HERE / "_tasks.py"), str(place), *arguments]
    environment = {**os.environ, "PYTHONPATH": f"{checkout / 'include'}:{checkout}"}
    started = time.perf_counter()
    child = subprocess.Popen(command, cwd=checkout, env=environment, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    wall_s = time.perf_counter() - started
    if status:
        sys.exit(f"{' '.join(command)} in {checkout} ended with status {status}")
    return wall_s, used.ru_utime + used.ru_stime


def row(task: str, figures: list[list[tuple[float, float]]]) -> str:
    """Return the medians, the ratio of the pairs with its interval, and the spread, twice."""
    cells = [task]
    for kind in (0, 1):
        before, after = ([figure[kind] for figure in column] for column in figures)
        first, second = statistics.median(before), statistics.median(after)
        spread = abs(statistics.median(before[::2]) - statistics.median(before[1::2])) / first
        ratio, low, high = paired(before, after)
        cells += [
            f"{first:.2f} → {second:.2f}",
            f"{ratio:.3f} ({low:.3f} to {high:.3f})",
            f"{spread:.3f}",
        ]
    return f"| {' | '.join(cells)} |"


def paired(before: list[float], after: list[float]) -> tuple[float, float, float]:
    """Return the median of the ratios of the pairs, and its 95 % interval by 10,000 resamples."""
    ratios = [second / first for first, second in zip(before, after, strict=True)]
    draws = random.Random(0)  # noqa: S311 - resamples are no secret
    medians = sorted(statistics.median(draws.choices(ratios, k=len(ratios))) for _ in range(10_000))
    return statistics.median(ratios), medians[250], medians[9_750]


if __name__ == "__main__":
    main()
