"""Measures the formats beside their peers, in one process, in turns.

Question: does trainfeed read and write as fast as memory allows, and how much faster than peers?
Method: every case is one full pass over the data, warm, files written and readers opened before.
All systems of a case take turns, in an order that changes; the figure is the median of the rounds,
in samples per second. Each file is written under a new name: if a file replaces another
one, ext4 flushes it when it is closed, and then only the disk would be measured.

    PYTHONPATH=include python benchmarks/formats/run.py [--rounds 7] [--json FILE] [CASE …]

Needs the packages array-record, pyarrow and tensorflow-cpu beside trainfeed's own.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

import ours
import peers

from data import make_a, make_b

WANTED = {
    ("A sequential", "trainfeed, mapped", "Arrow IPC, copies"): 1.5,
    ("A sequential", "trainfeed, mapped", "ArrayRecord, read_all"): 3,
    ("A sequential", "trainfeed, mapped", "tf.data, TFRecord"): 20,
    ("A sequential", "trainfeed, mapped", "raw readinto of 4 MiB"): 0.65,
    ("A lz4", "trainfeed, 1 thread", "Arrow IPC"): 1.1,
    ("A lz4", "trainfeed, 2 threads", "trainfeed, 1 thread"): 1.5,
    ("A zstd", "trainfeed, 1 thread", "Arrow IPC"): 1.0,
    ("A zstd", "trainfeed, 2 threads", "trainfeed, 1 thread"): 1.5,
    ("A random lists of 128", "trainfeed, mapped, bytes", "ArrayRecord, read(list)"): 10,
    ("A random lists of 128", "trainfeed, mapped, arrays", "ArrayRecord, read(list)"): 10,
    ("A write", "trainfeed, arrays", "ArrayRecord"): 3,
    ("A write", "trainfeed, record by record", "ArrayRecord"): 1.5,
    ("B sequential", "trainfeed, mapped", "ArrayRecord, read_all"): 4,
    ("B sequential", "trainfeed, mapped", "Parquet"): 3,
    (
        "TFRecord of Examples to arrays (A)",
        "trainfeed",
        "tf.data, batched parse_example",
    ): 1.0,
}


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
                both = {**passes, **theirs[case]}
                results[case] = measure(both, options.rounds, Path(folder))
                show(case, results[case])
    print_table(results)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))


def measure(passes: dict[str, ours.Case], rounds: int, folder: Path) -> dict[str, float]:
    """Return name → median samples per second, after one round that does not count."""
    rates: dict[str, list[float]] = {name: [] for name in passes}
    for number in range(rounds + 1):
        # In another order each time: what a system finds in caches is left by the one before.
        for name in random.Random(number).sample(list(passes), len(passes)):  # noqa: S311
            for path in folder.glob("written*"):
                path.unlink()
            run = passes[name]
            start = time.perf_counter()
            count = run()
            if number:
                rates[name].append(count / (time.perf_counter() - start))
    return {name: statistics.median(values) for name, values in rates.items()}


def print_table(results: dict[str, dict[str, float]]) -> None:
    """Print what docs/authors/measured-formats.md has: ratios, beside those that are wanted."""
    print("\n| case | trainfeed, M/s | beside, M/s | ratio | wanted | |")
    print("| --- | ---: | --- | ---: | ---: | --- |")
    for (case, mine, other), wanted in WANTED.items():
        if rates := results.get(case):
            ratio = rates[mine] / rates[other]
            verdict = "met" if ratio >= wanted else "missed"
            print(
                f"| {case}: {mine.removeprefix('trainfeed, ')} | {rates[mine] / 1e6:.3g}"
                f" | {other.removeprefix('trainfeed, ')} {rates[other] / 1e6:.3g}"
                f" | {ratio:.2f} | {wanted:g} | {verdict} |"
            )


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
