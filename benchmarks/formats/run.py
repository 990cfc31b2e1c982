"""Measures the formats beside their peers, in one process, in turns.

Question: does trainfeed read and write as fast as memory allows, and how much faster than peers?
Method: every case is one full pass over the data, warm, files written and readers opened before.
All systems of a case take turns, in an order that changes; the figure is the median of the rounds,
in samples per second. Each file is written under a new name: if a file replaces another
one, ext4 flushes it when it is closed, and then only the disk would be measured.

    PYTHONPATH=include .venv-peers/bin/python benchmarks/formats/run.py [--rounds 7] [CASE …]

The peers are in the environment of `make setup-peers`.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

import ours
import peers

from data import make_a, make_b

WANTED = {
    ("A sequential", "trainfeed, mapped", "Arrow IPC, copies, with a checksum"): 1.2,
    ("A sequential", "trainfeed, mapped", "Arrow IPC, copies"): 1.5,
    ("A sequential", "trainfeed, mapped", "ArrayRecord, read_all"): 3,
    ("A sequential", "trainfeed, mapped", "tf.data, TFRecord"): 20,
    ("A sequential", "trainfeed, mapped", "Vortex, bytes"): 1.6,
    ("A sequential", "trainfeed, mapped", "bagz"): 1.6,
    ("A sequential", "trainfeed, mapped", "Lance, lists"): 1.6,
    ("A sequential", "trainfeed, mapped", "raw readinto of 4 MiB"): 0.65,
    ("A lz4", "trainfeed, 1 thread", "Arrow IPC"): 1.1,
    ("A lz4", "trainfeed, 2 threads", "trainfeed, 1 thread"): 1.5,
    ("A zstd", "trainfeed, 1 thread", "Arrow IPC"): 1.0,
    ("A zstd", "trainfeed, 2 threads", "trainfeed, 1 thread"): 1.5,
    ("A random lists of 128", "trainfeed, mapped, bytes", "ArrayRecord, read(list)"): 10,
    ("A random lists of 128", "trainfeed, mapped, arrays", "ArrayRecord, read(list)"): 10,
    **{
        ("A random lists of 128", "trainfeed, mapped, arrays", name): 10
        for name in ("Vortex, bytes", "Lance, bytes", "bagz")
    },
    ("A write", "trainfeed, arrays", "the same bytes, plain"): 0.8,
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


def measure(
    passes: dict[str, ours.Case], rounds: int, folder: Path
) -> dict[str, dict[str, list[float]]]:
    """Return name → samples per second and CPU us per sample, after a round that does not count."""
    found: dict[str, dict[str, list[float]]] = {
        name: {"rates": [], "cpu_us": []} for name in passes
    }
    for number in range(rounds + 1):
        # In another order each time: what a system finds in caches is left by the one before.
        for name in random.Random(number).sample(list(passes), len(passes)):  # noqa: S311
            for path in folder.glob("written*"):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            run = passes[name]
            start, cpu_start = time.perf_counter(), time.process_time()
            count = run()
            seconds, cpu_s = time.perf_counter() - start, time.process_time() - cpu_start
            if number:
                found[name]["rates"].append(count / seconds)
                found[name]["cpu_us"].append(cpu_s / count * 1e6)
    return found


def print_table(results: dict[str, dict[str, dict[str, list[float]]]]) -> None:
    """Print what docs/authors/measured.md has: ratios, beside those that are wanted."""
    print("\n| case | trainfeed, M/s | beside, M/s | ratio | of CPU time | wanted | |")
    print("| --- | ---: | --- | ---: | ---: | ---: | --- |")
    for (case, mine, other), wanted in WANTED.items():
        if case in results:
            first, second = results[case][mine], results[case][other]
            rate, rival = (statistics.median(each["rates"]) for each in (first, second))
            cpu, rival_cpu = (statistics.median(each["cpu_us"]) for each in (first, second))
            verdict = "met" if rate / rival >= wanted else "missed"
            print(
                f"| {case}: {mine.removeprefix('trainfeed, ')} | {rate / 1e6:.3g}"
                f" | {other.removeprefix('trainfeed, ')} {rival / 1e6:.3g} | {rate / rival:.2f}"
                f" | {rival_cpu / cpu:.2f} | {wanted:g} | {verdict} |"
            )


def show(case: str, found: dict[str, dict[str, list[float]]]) -> None:
    """Print the figures of a case: median, least and most samples per second, CPU time."""
    print(f"\n{case}: M samples/s, least and most, CPU us per sample")
    for name, figures in found.items():
        rates = [rate / 1e6 for rate in figures["rates"]]
        print(
            f"  {name:46s} {statistics.median(rates):8.3f} {min(rates):8.3f} {max(rates):8.3f}"
            f" {statistics.median(figures['cpu_us']):9.3f}"
        )
    sys.stdout.flush()


if __name__ == "__main__":
    main()
