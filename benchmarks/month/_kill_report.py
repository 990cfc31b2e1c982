"""The result of a backfill under kills: the figures, whether they are right, and their tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rich.console import Console
from rich.table import Table

__all__ = ["Kill", "Outcome", "is_right", "show"]

_STILL_S: Final = 120.0


@dataclass(frozen=True)
class Kill:
    """One process that was ended: when, in seconds after the request, what, and which."""

    at_s: float
    kind: str
    pid: int


@dataclass(frozen=True)
class Outcome:
    """What a backfill under kills came to.

    Attributes:
        wall_s: From the request until all builds and trainings had ended.
        kills: All of them, in order.
        builds: Number of build runs by state.
        trainings: Number of training runs by state.
        equal: Intervals whose manifest is that of the command line's build.
        generations: Number of version folders.
        jobs: Number of training results by interval.
        still_s: The longest time that a run made no progress, the longest five of all runs.
        unanswered: Looks that the API server did not answer.
    """

    wall_s: float
    kills: Sequence[Kill]
    builds: Mapping[str, int]
    trainings: dict[str, int]
    equal: int
    generations: int
    jobs: dict[str, int]
    still_s: dict[str, float]
    unanswered: int


def is_right(outcome: Outcome, days: int) -> bool:
    """Whether everything was published once, trained once, and nothing stood still or failed."""
    return (
        outcome.equal == outcome.generations == days
        and set(outcome.builds) == set(outcome.trainings) == {"success"}
        and sorted(outcome.jobs.values()) == [1] * days
        and all(seconds <= _STILL_S for seconds in outcome.still_s.values())
    )


def show(outcome: Outcome, days: int, console: Console) -> None:
    """Print the figures."""
    console.print(
        f"{days} days in {outcome.wall_s:.1f} s under {len(outcome.kills)} kills: builds"
        f" {outcome.builds}, trainings {outcome.trainings}, {outcome.equal} of {days} manifests as"
        f" without Airflow, {outcome.generations} versions, jobs per interval"
        f" {sorted(set(outcome.jobs.values()))} of {len(outcome.jobs)} intervals,"
        f" {outcome.unanswered} looks without an answer"
    )
    table = Table("killed", "times")
    for kind, times in Counter(each.kind for each in outcome.kills).most_common():
        table.add_row(kind, str(times))
    console.print(table)
    still = Table("longest without progress", "s")
    for run, seconds in outcome.still_s.items():
        still.add_row(run, f"{seconds:.1f}")
    console.print(still)
