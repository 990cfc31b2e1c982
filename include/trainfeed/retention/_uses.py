"""Versions that are in use, from everything that can name one; what uses them is said."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Final

from trainfeed.retention._folder_look import Look
from trainfeed.retention._leased import used_by_leases
from trainfeed.retention._planned_references import used_by_open_plans
from trainfeed.retention._tagged import used_by_tags
from trainfeed.retention._unfinished_trainings import used_by_trainings
from trainfeed.retention._use import Use

__all__ = ["Uses", "uses_of"]

_USERS: Final[tuple[Callable[[Look, datetime], Iterable[Use]], ...]] = (
    used_by_trainings,
    used_by_leases,
    used_by_tags,
    used_by_open_plans,
)


class Uses:
    """Versions that are in use.

    Args:
        uses: Every use.
    """

    def __init__(self, uses: Iterable[Use]) -> None:
        self._exact: dict[tuple[str, int], str] = {}
        self._up_to: list[Use] = []
        for use in uses:
            if use.interval is None or use.generation is None:
                self._up_to.append(use)
            else:
                self._exact.setdefault((use.interval, use.generation), use.why)

    def why(self, interval: str, generation: int) -> str | None:
        """Return who uses a version, None if nobody is known to."""
        exact = self._exact.get((interval, generation))
        return exact or next((use.why for use in self._up_to if use.covers(interval)), None)


def uses_of(folder: Look, now: datetime) -> Uses:
    """Return the versions of a data set that are in use at a time.

    Args:
        folder: A look at the data set that has seen nothing yet.
        now: The time, aware UTC.

    Raises:
        FormatError: A tag is damaged, so what it names cannot be told: nothing may be removed then.
        StorageError: A place cannot be read: nothing may be removed then.
    """
    return Uses(use for users in _USERS for use in users(folder, now))
