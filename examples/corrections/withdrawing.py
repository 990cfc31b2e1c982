"""A day without another version is withdrawn and built right; a withdrawal is taken back."""

from __future__ import annotations

from typing import Final

from examples.corrections.days import Days
from examples.year.diary import Diary

__all__ = ["doubted_day", "wrong_day"]

_ROWS: Final = 6
_ANA: Final = ("--who", "ana")
_BEN: Final = ("--who", "ben")


def wrong_day(diary: Diary, days: Days) -> None:
    """Withdraw a day, be refused, mend the function, build, and move the tag."""
    day, readable = str(days.wrong), diary.readable or {}
    _withdraw_only_version(diary, day)
    del readable[day]
    diary.run("status", "flights", days.retired)
    diary.run("show", "flights@prod", status=1)
    diary.run("build", f"flights/{day}", status=1)
    diary.check()
    diary.step(
        "The day is built right, and the tag moves",
        "The function now reads both names of the field; a checkout of the commit before is kept in"
        " a folder of its own. This is other content, so the build is not refused.",
    )
    diary.places.keep_datasets()
    diary.places.mend_function()
    diary.run("build", f"flights/{day}", status=0)
    readable[day] = "g0002"
    diary.check()
    why = "with the airlines of that day"
    for tag, asked in (("prod", days.all), ("first-quarter", days.retired)):
        diary.run("tag", "flights", asked, tag, "--dry-run", lines=_ROWS, status=0)
        diary.run("tag", "flights", asked, tag, "--why", why, *_ANA, lines=_ROWS, status=0)
    diary.read("flights@prod", readable)
    diary.check()


def _withdraw_only_version(diary: Diary, day: str) -> None:
    why = "events with airline in place of carrier are missing"
    diary.step(
        "A day is wrong",
        f"On {day} some events name the carrier `airline`, and the function of that time refused"
        " them. The gates passed, and both tags name the version. No other one is there.",
    )
    diary.run("quarantine", "ls", f"flights/{day}", status=0)
    diary.run("withdraw", f"flights/{day}", "--dry-run", status=0)
    diary.run("withdraw", f"flights/{day}", "--why", why, *_ANA, status=0)


def doubted_day(diary: Diary, days: Days) -> None:
    """Build a second generation, withdraw it, and restore it."""
    day, readable = str(days.doubted), diary.readable or {}
    tagged = dict(readable)
    diary.step(
        "A withdrawal is taken back",
        f"{day} has such events, too. Its second generation is doubted, withdrawn and restored."
        " Without a tag readers follow; `prod` stays where it is all the time.",
    )
    diary.run("build", f"flights/{day}", status=1)
    diary.run("build", f"flights/{day}", "--rebuild", "airlines of all events", status=0)
    readable[day] = "g0002"
    diary.check()
    why = "more late flights than on other Mondays"
    diary.run("withdraw", f"flights/{day}", "--why", why, *_BEN, status=0)
    readable[day] = "g0001"
    diary.run("status", "flights", f"{day}/{day}", status=0)
    diary.check()
    why = "there was a thunderstorm"
    diary.run("restore", f"flights/{day}", "--dry-run", status=0)
    diary.run("restore", f"flights/{day}", "--why", why, *_BEN, status=0)
    readable[day] = "g0002"
    diary.run("status", "flights", f"{day}/{day}", status=0)
    diary.read("flights@prod", tagged)
    diary.check()
