"""The steps of the year that is put right, in their order."""

from __future__ import annotations

from typing import Final

from examples.corrections.damage import flipped_bit, lost_landing
from examples.corrections.days import Days
from examples.corrections.retiring import retired_quarter, trail, used_numbers
from examples.corrections.withdrawing import doubted_day, wrong_day
from examples.year.diary import Diary, run_steps

__all__ = ["run_corrections"]

_ROWS: Final = 6


def run_corrections(diary: Diary, days: Days) -> None:
    """Build the year, and put right what is wrong; steps that are done are left out."""
    steps = (
        _built_and_tagged, wrong_day, doubted_day, flipped_bit, lost_landing, retired_quarter,
        used_numbers, trail,
    )  # fmt: skip
    run_steps(diary, steps, days)


def _built_and_tagged(diary: Diary, days: Days) -> None:
    diary.step(
        "A year, and two tags",
        f"All days from {days.first} to {days.last} are built. `prod` is what trainings read;"
        " `first-quarter` is what was released in spring.",
    )
    diary.build(days.all, status=0)
    diary.readable = dict.fromkeys(days.names, "g0001")
    diary.run("status", "flights", status=0)
    for asked, tag, why in (
        (days.all, "prod", "first release of the year"),
        (days.retired, "first-quarter", "released in spring"),
    ):
        diary.run("tag", "flights", asked, tag, "--why", why, lines=_ROWS, status=0)
    diary.run("tags", "flights", status=0)
    diary.check()
    diary.read("flights@prod", diary.readable)
