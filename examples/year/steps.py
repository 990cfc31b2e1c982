"""The steps of the year, in their order."""

from __future__ import annotations

from datetime import date, timedelta

from examples.year.diary import Diary
from examples.year.troubles import Troubles, days_between

__all__ = ["run_year"]

_DAY = timedelta(days=1)


def run_year(diary: Diary, troubles: Troubles, jobs: int) -> None:
    """Build the year, find its troubles, and end them."""
    _spring(diary, troubles, jobs)
    _quarantine(diary, troubles)
    _rest(diary, troubles, jobs)
    _holes(diary, troubles)


def _spring(diary: Diary, troubles: Troubles, jobs: int) -> None:
    diary.step(
        "Until the function is mended",
        f"The days from {troubles.first} to {troubles.fixed - _DAY} are built by the first"
        " function, but for one that nobody builds.",
    )
    for part in _ranges(troubles, troubles.first, troubles.fixed - _DAY):
        diary.run("build", f"flights/{part}", "--jobs", str(jobs), lines=8)
    diary.run("status", "flights", f"{troubles.first}/{troubles.fixed - _DAY}")
    diary.check()


def _quarantine(diary: Diary, troubles: Troubles) -> None:
    first, *_ = troubles.renamed
    diary.step(
        "Why the gates failed",
        "The quarantine of a build that failed is read like that of a version.",
    )
    diary.run("quarantine", "ls", f"flights/{first}")
    diary.run("quarantine", "show", f"flights/{first}", lines=8)


def _rest(diary: Diary, troubles: Troubles, jobs: int) -> None:
    diary.step("The function is mended", "From here on it reads both names of the field.")
    diary.places.mend_function()
    for part in _ranges(troubles, troubles.fixed, troubles.last):
        diary.run("build", f"flights/{part}", "--jobs", str(jobs), lines=8)
    diary.run("status", "flights")
    diary.check()


def _holes(diary: Diary, troubles: Troubles) -> None:
    diary.step(
        "The holes",
        "Days that nobody built are built. Days whose events never come are left out on purpose:"
        " `missing: skip` in `dataset.yaml`.",
    )
    for day in troubles.unbuilt:
        diary.run("build", f"flights/{day}", lines=4)
    diary.places.edit("missing: fail", "missing: skip")
    for day in troubles.never:
        diary.run("build", f"flights/{day}", lines=4)
    diary.run("status", "flights")
    diary.check()


def _ranges(troubles: Troubles, first: date, last: date) -> list[str]:
    """Return the ranges of days between those that nobody builds."""
    ranges: list[list[date]] = [[]]
    for day in days_between(first, last):
        if day in troubles.unbuilt:
            ranges.append([])
        else:
            ranges[-1].append(day)
    return [f"{days[0]}/{days[-1]}" for days in ranges if days]
