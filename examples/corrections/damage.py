"""A damaged shard is repaired from landing files; without landing files, from the log."""

from __future__ import annotations

from typing import Final

from examples.corrections.days import Days
from examples.corrections.mishaps import content_digest, flip_bit, lose_landing
from examples.year.diary import Diary

__all__ = ["flipped_bit", "lost_landing"]

_FEW: Final = 6
_DAMAGED: Final = 3
_DIFFERENT: Final = 3


def flipped_bit(diary: Diary, days: Days) -> None:
    """Find a flipped bit, be refused by today's function, and repair by the one of that time."""
    day, before = str(days.flipped), diary.places.datasets_before
    shard = flip_bit(diary.places, days.flipped)
    diary.step(
        "A bit flips",
        f"Bit 2 of the byte in the middle of `{shard}` of {day} is another one. The version was"
        " made by the function before it was mended, so today's function cannot make it again;"
        " that is said, and nothing is changed. The checkout of that time can.",
    )
    diary.run("verify", "flights", lines=_FEW, status=_DAMAGED)
    diary.run("verify", f"flights/{day}", status=_DAMAGED)
    diary.check(damaged=[f"{day}/g0001"])
    diary.run("repair", f"flights/{day}", "--why", "a bit flipped", status=_DAMAGED)
    repaired = ("repair", f"flights/{day}", "--why", "a bit flipped")
    diary.run("repair", f"flights/{day}", "--dry-run", status=_DAMAGED, datasets=before)
    diary.run(*repaired, status=0, datasets=before)
    diary.run("verify", f"flights/{day}", status=0)
    diary.check()


def lost_landing(diary: Diary, days: Days) -> None:
    """Lose landing files: nothing published is lost; a repair and a build read the log again."""
    lost = lose_landing(diary.places)
    shard = flip_bit(diary.places, days.unlanded)
    unlanded, rebuilt = str(days.unlanded), str(days.rebuilt)
    diary.step(
        "A landing folder is deleted",
        f"Somebody deleted {lost}, one partition of all days. Published versions do not need it."
        f" `{shard}` of {unlanded} is damaged, too: the records that are gone come from the log"
        " again.",
    )
    diary.check(damaged=[f"{unlanded}/g0001"])
    repaired = ("repair", f"flights/{unlanded}", "--why", "a bit flipped")
    diary.run(*repaired, status=0, datasets=diary.places.datasets_before)
    diary.run("verify", "flights", lines=_FEW, status=0)
    diary.check()
    diary.run("build", f"flights/{rebuilt}", "--rebuild", "landing files were deleted", status=0)
    if diary.readable is not None:
        diary.readable[rebuilt] = "g0002"
    first, second = (content_digest(diary.places, days.rebuilt, g) for g in ("g0001", "g0002"))
    diary.require(f"both generations have the content {first}", holds=first == second)
    diary.run("diff", "flights", f"{rebuilt}/g0001", f"{rebuilt}/g0002", status=_DIFFERENT)
    diary.check()
