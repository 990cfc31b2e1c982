"""Prints the tables of docs/authors/measured.md from a run kept by ``run.py --json``.

python benchmarks/loader/peers/table.py RESULTS
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

__all__ = ["aims", "all_systems"]

# Case → system → samples per second and CPU us per sample, of each round.
Results = Mapping[str, Mapping[str, Mapping[str, list[float]]]]

_OURS = "trainfeed"
_TIMES = "\N{MULTIPLICATION SIGN}"


class _Aim(NamedTuple):
    """A row: ours against a system, or against the fastest of those whose names begin so."""

    case: str
    ours: str
    others: tuple[str, ...]
    wanted: float | None


_OLDER = ("ArrayRecord", "HF", "tf.data", "MosaicML", "WebDataset", "LitData", "Grain")
_MAPPED, _FILES = "trainfeed DataLoader, in-process, mapped", "trainfeed DataLoader, in-process"
_AIMS = (
    _Aim("A shuffled", _MAPPED, _OLDER, 2.5),
    _Aim("A shuffled", _FILES, _OLDER, 2.5),
    _Aim("A shuffled", "trainfeed DataLoader, 1 thread", _OLDER, None),
    _Aim("A shuffled", "trainfeed DataLoader, 2 threads", _OLDER, None),
    _Aim("A shuffled", _MAPPED, ("Vortex",), 1.6),
    _Aim("A shuffled", _FILES, ("Vortex",), 1.1),
    _Aim("A shuffled", "trainfeed DataLoader, 1 thread", ("Vortex",), None),
    _Aim("A shuffled", _MAPPED, ("Lance",), None),
    _Aim("A shuffled", _MAPPED, ("bagz",), None),
    _Aim("A shuffled", _MAPPED, ("torch",), None),
    _Aim("A shuffled", _FILES, ("torch",), None),
    *(
        _Aim("A sequential, 20 epochs", f"trainfeed {workers}", ("trainfeed in-process",), wanted)
        for workers, wanted in (("1 worker", 0.55), ("2 workers", 0.6))
    ),
    *(
        _Aim("A sequential, 20 epochs", f"trainfeed {workers}", (queue,), 6)
        for workers, queue in (
            ("1 worker", "multiprocessing.Queue, 1 process"),
            ("2 workers", "multiprocessing.Queue, 2 processes"),
        )
    ),
    _Aim("A prefetched", "trainfeed 1 thread", ("trainfeed bare decode",), 0.8),
    _Aim("B shuffled", "trainfeed published, owned bytes", ("HF datasets",), 1.5),
    _Aim("A lz4 shuffled", "trainfeed shuffled, 2 threads", ("trainfeed sequential",), 0.8),
    _Aim("A zstd shuffled", "trainfeed shuffled, 2 threads", ("trainfeed sequential",), 0.8),
)


def aims(results: Results) -> str:
    """Return the table of aims, with the fastest system that a row names."""
    lines = [
        "| case | ours | beside | aim | rate | CPU time | |",
        "| --- | --- | --- | ---: | ---: | ---: | --- |",
    ]
    for aim in _AIMS:
        found = results.get(aim.case, {})
        rivals = [name for name in found if name.startswith(aim.others) and name != aim.ours]
        if aim.ours in found and rivals:
            lines.append(_aim_row(found, aim, max(rivals, key=lambda name: _rate(found[name]))))
    return "\n".join(lines)


def _aim_row(found: Mapping[str, Mapping[str, list[float]]], aim: _Aim, rival: str) -> str:
    mine, other = found[aim.ours], found[rival]
    ratio = _rate(mine) / _rate(other)
    cpu = statistics.median(other["cpu_us"]) / statistics.median(mine["cpu_us"])
    verdict = "" if aim.wanted is None else "met" if ratio >= aim.wanted else "**missed**"
    wanted = "" if aim.wanted is None else f"{aim.wanted:g} {_TIMES}"
    cells = [aim.case, aim.ours.removeprefix(f"{_OURS} "), rival.removeprefix(f"{_OURS} "), wanted]
    return f"| {' | '.join(cells)} | {ratio:.2f} {_TIMES} | {cpu:.2f} {_TIMES} | {verdict} |"


def all_systems(results: Results) -> str:
    """Return a table per case, fastest first, with the ratio to the first system of the case."""
    return "\n\n".join(_case(case, found) for case, found in results.items() if found)


def _case(case: str, found: Mapping[str, Mapping[str, list[float]]]) -> str:
    first = _rate(next(iter(found.values())))
    lines = [
        f"### {case}\n\n| system | samples/s | least | most | CPU us/sample | of ours |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, figures in sorted(found.items(), key=lambda item: -_rate(item[1])):
        rates, cpu_us = figures["rates"], statistics.median(figures["cpu_us"])
        lines.append(
            f"| {name} | {_rate(figures):,.0f} | {min(rates):,.0f} | {max(rates):,.0f} |"
            f" {cpu_us:.2f} | {_rate(figures) / first:.3f} |"
        )
    return "\n".join(lines)


def _rate(figures: Mapping[str, list[float]]) -> float:
    return statistics.median(figures["rates"])


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path)
    results = json.loads(parser.parse_args().results.read_text())
    print(f"{aims(results)}\n\n{all_systems(results)}")


if __name__ == "__main__":
    main()
