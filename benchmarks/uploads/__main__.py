"""Measures uploads of each format: ``python -m benchmarks.uploads [--rows N]``.

Each format is read by a process of its own, so that the largest memory is that of one file.
"""

from __future__ import annotations

import argparse
import multiprocessing

from benchmarks.uploads.figures import csv, jsonl, measure, parquet


def main() -> None:
    """Measure every format."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    rows = parser.parse_args().rows
    context = multiprocessing.get_context("spawn")
    for write in (csv, jsonl, parquet):
        process = context.Process(target=measure, args=(write, rows))
        process.start()
        process.join()


if __name__ == "__main__":
    main()
