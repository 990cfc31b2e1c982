"""``python -m tests.slow_cases JUNIT…``: which cases take so long that ``make ci`` alone runs them.

It reads what ``pytest --junitxml`` wrote on a quiet machine (``make ci PYTEST=--junitxml=…``), and
writes ``slow_cases.txt``, which ``conftest.py`` reads: a line for each case, its seconds first. A
case without a line is not slow: that is so for new and renamed cases, until the file is written
again. The quickest case of a file is never slow, so ``make test`` goes through every file; nor are
those of ``KEPT``.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from xml.etree import ElementTree

FILE = Path(__file__).with_name("slow_cases.txt")
# About what a case takes that is not slow.
_QUICK_S = 0.1
# Folder → the seconds above which a case is slow. Others, as e2e, name theirs in conftest.py.
LIMITS_S = {"unit": 0.6, "dags": 3.0, "integration": 2.0}

# Cases that found a mistake which no other case of ``make test`` finds.
_MEMORY = "tests/unit/pipeline/workers/test_want_of_memory.py"
KEPT = frozenset({f"{_MEMORY}::test_where_nobody_counts_a_kill_is_probably_for_want_of_memory"})


def slow_cases() -> dict[str, float]:
    """Return the names of the slow cases, as pytest writes them, and their seconds."""
    lines = FILE.read_text().splitlines() if FILE.exists() else []
    parts = [line.partition(" ") for line in lines]
    return {name: float(seconds) for seconds, _, name in parts}


def longest_first(cases: Iterable[str], slow: Mapping[str, float]) -> dict[str, int]:
    """Return the place of each file of the cases: those that take longest come first."""
    seconds: dict[str, float] = defaultdict(float)
    for case in cases:
        seconds[case.partition("::")[0]] += slow.get(case, _QUICK_S)
    ordered = sorted(seconds, key=lambda path: (-seconds[path], path))
    return {path: place for place, path in enumerate(ordered)}


def main() -> None:
    """Replace the lines of every folder that the reports have a case of."""
    parser = argparse.ArgumentParser(prog="python -m tests.slow_cases", description=__doc__)
    parser.add_argument("reports", nargs="+", type=Path, metavar="JUNIT")
    seconds: dict[str, dict[str, float]] = defaultdict(dict)
    for report in parser.parse_args().reports:
        for case in ElementTree.parse(report).iter("testcase"):
            path, name = _name(case.get("classname", ""), case.get("name", ""))
            seconds[path][name] = float(case.get("time", 0))
    found = {name: taken for cases in seconds.values() for name, taken in _slow(cases)}
    measured = {path.split("/")[1] for path in seconds}
    kept = [] if not FILE.exists() else FILE.read_text().splitlines()
    lines = [line for line in kept if line.partition(" ")[2].split("/")[1] not in measured]
    lines += [f"{taken:.1f} {name}" for name, taken in found.items()]
    lines.sort(key=lambda line: line.partition(" ")[2])
    FILE.write_text("".join(f"{line}\n" for line in lines))
    sys.stdout.write(f"{len(found)} cases take {sum(found.values()):.0f} s together\n")


def _name(classname: str, name: str) -> tuple[str, str]:
    """Return the path of a case, and its name as pytest writes it."""
    parts = classname.split(".")
    is_class = parts[-1][:1].isupper()
    path = "/".join(parts[:-1] if is_class else parts) + ".py"
    return path, "::".join([path, *parts[-1:][:is_class], name])


def _slow(cases: dict[str, float]) -> list[tuple[str, float]]:
    """Return the slow ones of a file."""
    limit = LIMITS_S.get(next(iter(cases)).split("/")[1], float("inf"))
    slow = [(name, taken) for name, taken in cases.items() if taken > limit and name not in KEPT]
    if len(slow) == len(cases):
        slow.remove(min(slow, key=lambda case: case[1]))
    return slow


if __name__ == "__main__":
    main()
