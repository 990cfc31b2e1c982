"""Ways that take turns, and their medians."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Mapping

__all__ = ["take_turns"]


def take_turns(ways: Mapping[str, Callable[[], object]], *, rounds: int) -> None:
    """Run all ways in turns; print medians, spreads and ratios to the first way.

    Args:
        ways: Name → what is timed; the first one is the baseline.
        rounds: Turns of every way.

    Raises:
        ValueError: Ways with a result gave different ones.
    """
    walls: dict[str, list[float]] = {name: [] for name in ways}
    used: dict[str, list[float]] = {name: [] for name in ways}
    results = set[object]()
    for _ in range(rounds):
        for name, run in ways.items():
            began, before = time.perf_counter(), sum(os.times()[:4])
            results.add(run())
            walls[name].append(time.perf_counter() - began)
            used[name].append(sum(os.times()[:4]) - before)
    if len(results - {None}) > 1:
        raise ValueError(f"expected one result of all ways, got {sorted(map(str, results))}")
    base = statistics.median(walls[next(iter(ways))])
    for name, each in walls.items():
        wall = statistics.median(each)
        print(
            f"{name}: {wall:.2f} s ({min(each):.2f} to {max(each):.2f}), rate {base / wall:.2f} of"
            f" the first, CPU here and in children {statistics.median(used[name]):.2f} s"
        )
