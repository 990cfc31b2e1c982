"""Which days of a year are put right, and for what reason.

* ``wrong`` and ``doubted``: some of their events have the field ``airline`` in place of
  ``carrier``; the function of that time refuses these, so few that the gates pass.
* ``flipped``: one bit of a shard is not what was written.
* ``unlanded``: the same, after a folder of landing files was deleted.
* ``rebuilt``: built again after that, from the log.
* ``kept_from``: what is before this day is retired.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from typing import Final

from examples.year.troubles import Troubles, days_between

__all__ = ["SHORT", "YEAR", "Days"]

_DAY: Final = timedelta(days=1)


@dataclass(frozen=True)
class Days:
    """The days of a year that are put right.

    Attributes:
        first: First day.
        last: Last day.
        wrong: A day that is withdrawn, of which no other version is left.
        doubted: A day whose second generation is withdrawn and restored.
        flipped: A day with a damaged shard.
        unlanded: A day with a damaged shard, and without some of its landing files.
        rebuilt: A day that is built again from the log.
        kept_from: First day that is kept.
    """

    first: date
    last: date
    wrong: date
    doubted: date
    flipped: date
    unlanded: date
    rebuilt: date
    kept_from: date

    @property
    def troubles(self) -> Troubles:
        """What is wrong in the log itself."""
        return Troubles(
            self.first, self.last, never=(), unbuilt=(), late=(), renamed=(),
            mild=(self.wrong, self.doubted), fixed=self.first,
        )  # fmt: skip

    @property
    def names(self) -> list[str]:
        """The names of all intervals, in their order."""
        return [str(day) for day in days_between(self.first, self.last)]

    @property
    def all(self) -> str:
        """The range of all days."""
        return f"{self.first}/{self.last}"

    @property
    def retired(self) -> str:
        """The range of days that are retired."""
        return f"{self.first}/{self.kept_from - _DAY}"

    @property
    def kept(self) -> str:
        """The range of days that are kept."""
        return f"{self.kept_from}/{self.last}"


YEAR: Final = Days(
    first=date(2013, 1, 1),
    last=date(2014, 1, 1),
    wrong=date(2013, 2, 14),
    doubted=date(2013, 5, 20),
    flipped=date(2013, 7, 4),
    unlanded=date(2013, 8, 15),
    rebuilt=date(2013, 10, 1),
    kept_from=date(2013, 4, 1),
)
SHORT: Final = Days(
    first=date(2013, 1, 1),
    last=date(2013, 1, 7),
    wrong=date(2013, 1, 2),
    doubted=date(2013, 1, 4),
    flipped=date(2013, 1, 5),
    unlanded=date(2013, 1, 6),
    rebuilt=date(2013, 1, 7),
    kept_from=date(2013, 1, 3),
)
