"""One use of a version, or of all versions up to an interval."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Use"]


@dataclass(frozen=True)
class Use:
    """A use of versions of a data set.

    Attributes:
        interval: Name of the interval; None for all intervals, because what is used cannot be told.
        generation: The generation; None for all generations of the interval and of all before it,
            because what is used cannot be told exactly.
        why: Who uses them, for people.
    """

    interval: str | None
    generation: int | None
    why: str

    def covers(self, interval: str) -> bool:
        """Return whether the use may be one of every generation of an interval."""
        return self.generation is None and (self.interval is None or interval <= self.interval)
