"""A quarter is retired, which tags hold at first; numbers stay used; the trail of it all."""

from __future__ import annotations

from typing import Final

from examples.corrections.days import Days
from examples.year.diary import Diary

__all__ = ["retired_quarter", "trail", "used_numbers"]

_FEW: Final = 6
_ROWS: Final = 40
_ANA: Final = ("--who", "ana")
_INTERVALS: Final = ("prune", "flights", "--kind", "intervals")


def retired_quarter(diary: Diary, days: Days) -> None:
    """Retire the days before the first one that is kept; tags hold them until they move."""
    kept = {day: each for day, each in (diary.readable or {}).items() if day >= str(days.kept_from)}
    rule = f"keep_intervals: {len(kept)}"
    diary.step(
        "A quarter is retired",
        f"`retention` in `dataset.yaml` gets `{rule}`: the days before {days.kept_from} go. Both"
        " tags name them, so they stay until one is moved and the other is removed.",
    )
    diary.places.edit("keep_days: 400}", f"keep_days: 400, {rule}}}")
    diary.run(*_INTERVALS, "--dry-run", lines=_FEW, status=0)
    diary.run(*_INTERVALS, lines=_FEW, status=0)
    diary.check()
    why = "without the first quarter"
    diary.run("tag", "flights", days.kept, "prod", "--why", why, *_ANA, lines=_FEW, status=0)
    diary.run("untag", "flights", "first-quarter", "--why", "nobody reads it now", status=0)
    diary.run(*_INTERVALS, "--dry-run", lines=_FEW, status=0)
    diary.check()
    diary.run(*_INTERVALS, lines=_FEW, status=0)
    diary.readable = kept
    diary.run("status", "flights")
    diary.read("flights@prod", kept)
    diary.check()


def used_numbers(diary: Diary, days: Days) -> None:
    """Build a retired day again: refused without a reason, and never under a number of before."""
    day = str(days.wrong)
    diary.step(
        "A number is never used again",
        f"{day} had two generations, and both are gone. A build without a reason is refused; one"
        " with a reason is the third generation. The rule would retire it again in the next night;"
        " a tag keeps it.",
    )
    diary.run("show", f"flights/{day}", status=1)
    diary.run("show", "flights@prod#2", status=1)
    diary.run("build", f"flights/{day}", status=1)
    diary.run("build", f"flights/{day}", "--rebuild", "the audit of the quarter", status=0)
    diary.readable = {**(diary.readable or {}), day: "g0003"}
    diary.run("tag", "flights", day, "audit", "--why", "the audit reads it", *_ANA, status=0)
    diary.run(*_INTERVALS, status=0)
    diary.read("flights@audit", {day: "g0003"})
    diary.check()


def trail(diary: Diary, days: Days) -> None:
    """Show who did what, when and why."""
    diary.step(
        "Who did what, when and why",
        "The history keeps every correction, also of what is gone; a version keeps the reason of"
        " its build.",
    )
    diary.run("history", "flights", lines=_ROWS, status=0)
    diary.run("tags", "flights", "prod", "--history", status=0)
    diary.run("lineage", f"flights/{days.wrong}", status=0)
    diary.run("verify", "flights", lines=_FEW, status=0)
    diary.check()
