"""The steps of the year, in their order."""

from __future__ import annotations

from datetime import date, timedelta

from examples.year.diary import Diary, run_steps
from examples.year.troubles import Troubles, days_between

__all__ = ["run_year"]

_DAY = timedelta(days=1)


def run_year(diary: Diary, troubles: Troubles) -> None:
    """Build the year, find its troubles and end them; steps that are done are left out."""
    run_steps(diary, (_spring, _rest, _quarantine, _holes, _outdated), troubles)


def _spring(diary: Diary, troubles: Troubles) -> None:
    until = troubles.fixed - _DAY
    diary.step(
        "The year until the function is mended",
        f"The days from {troubles.first} to {until} are built by the first function.",
    )
    _build(diary, troubles, troubles.first, until)
    diary.run("status", "flights", f"{troubles.first}/{until}")
    diary.check()


def _rest(diary: Diary, troubles: Troubles) -> None:
    diary.step(
        "The rest of the year",
        "The function now reads both names of the field. The days behind it are built; those before"
        " it stay as they are.",
    )
    diary.places.mend_function()
    _build(diary, troubles, troubles.fixed, troubles.last)
    diary.run("status", "flights", lines=30)
    diary.check()


def _quarantine(diary: Diary, troubles: Troubles) -> None:
    diary.step(
        "Why the gates failed, and what the better function makes of it",
        "The quarantine of a build that failed is read like that of a version. `preview` runs"
        " today's function on those records alone; `replay` builds the day from its landing files.",
    )
    for day in troubles.renamed:
        diary.run("quarantine", "ls", f"flights/{day}")
        diary.run("quarantine", "preview", f"flights/{day}")
    for day in troubles.renamed:
        diary.run("quarantine", "replay", f"flights/{day}")
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


def _outdated(diary: Diary, troubles: Troubles) -> None:
    first, last = troubles.mild[0], troubles.mild[-1]
    diary.step(
        "What the first function built",
        f"The days before {troubles.fixed} are not what today's function would make of them. Those"
        f" from {first} to {last} are brought forward, in sequence.",
    )
    diary.run("outdated", "flights")
    diary.run("bring-forward", f"flights/{first}/{last}")
    diary.check()
    diary.run("diff", "flights", f"{first}/g0001", f"{first}/g0002", lines=40)
    diary.run("lineage", f"flights/{first}/g0002", lines=20)
    diary.run("bring-forward", f"flights/{first}/{last}")
    diary.run("status", "flights")
    diary.check()


def _build(diary: Diary, troubles: Troubles, first: date, last: date) -> None:
    diary.build(*_ranges(troubles, first, last))


def _ranges(troubles: Troubles, first: date, last: date) -> list[str]:
    """Return the ranges of days between those that nobody builds."""
    ranges: list[list[date]] = [[]]
    for day in days_between(first, last):
        if day in troubles.unbuilt:
            ranges.append([])
        else:
            ranges[-1].append(day)
    return [f"{days[0]}/{days[-1]}" for days in ranges if days]
