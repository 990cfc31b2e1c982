"""Measures the formats beside their peers, in one process, in turns.

Question: does trainfeed read and write as fast as memory allows, and how much faster than peers?
Method: every case is one full pass over the data, warm, files written and readers opened before.
All systems of a case take turns; the figure is the median of the rounds, in samples per second.

    PYTHONPATH=include python benchmarks/formats/run.py [--rounds 7] [--json FILE] [CASE …]

Needs the packages array-record, pyarrow and tensorflow-cpu beside trainfeed's own.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

import ours
import peers

from data import make_a, make_b


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("cases", nargs="*", help="parts of names of cases; all when left out")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        a, b = make_a(), make_b()
        mine, theirs = ours.cases(Path(folder), a, b), peers.cases(Path(folder), a, b)
        results = {}
        for case, passes in mine.items():
            if not options.cases or any(part in case for part in options.cases):
                results[case] = measure({**passes, **theirs[case]}, options.rounds)
                show(case, results[case])
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))


def measure(passes: dict[str, ours.Case], rounds: int) -> dict[str, float]:
    """Return name → median samples per second, after one round that does not count."""
    rates: dict[str, list[float]] = {name: [] for name in passes}
    for number in range(rounds + 1):
        for name, run in passes.items():
            start = time.perf_counter()
            count = run()
            if number:
                rates[name].append(count / (time.perf_counter() - start))
    return {name: statistics.median(values) for name, values in rates.items()}


def show(case: str, rates: dict[str, float]) -> None:
    """Print the figures of a case, and the ratios of ours to the peers'."""
    print(f"\n{case}")
    rivals = {name: rate for name, rate in rates.items() if not name.startswith("trainfeed")}
    for name, rate in rates.items():
        ratios = ""
        if name.startswith("trainfeed"):
            parts = [f"{rate / rival:.2f} x {other}" for other, rival in rivals.items()]
            ratios = "   " + ", ".join(parts)
        print(f"  {name:46s} {rate / 1e6:8.3f} M/s{ratios}")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
