"""A number of equal things, such as places or bytes, that callers take and give back.

Whoever has some may take more only while as many as it has then are left for others: one alone gets
half of all, two get a third each, and so on. One who holds on to all that it can get therefore
never has the last of them.
"""

from __future__ import annotations

from collections import Counter

__all__ = ["Portions"]


class Portions:
    """The things, and who has how many.

    Args:
        limit: How many there are.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._taken: Counter[str] = Counter()

    @property
    def num_taken(self) -> int:
        """How many are taken by all together."""
        return self._taken.total()

    def of(self, name: str) -> int:
        """Return how many a name has."""
        return self._taken[name]

    def fits(self, name: str, count: int) -> bool:
        """Return whether a name can take some more; one request always fits an empty whole."""
        own, total = self._taken[name], self.num_taken
        if not total:
            return True
        return total + count <= self.limit and (not own or own + count <= self.limit - total)

    def take(self, name: str, count: int = 1) -> bool:
        """Take some; return whether they fit, otherwise nothing is taken."""
        if not self.fits(name, count):
            return False
        self._taken[name] += count
        return True

    def give(self, name: str, count: int = 1) -> None:
        """Give some back."""
        self._taken[name] -= count
        if self._taken[name] <= 0:
            del self._taken[name]
