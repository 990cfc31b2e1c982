"""Numbers for features: what the lines of a log and the dictionary of items call them.

::

    0 …     positions
    100 …   properties of users
    1000 …  affinities of the user to items
    2000 …  items
    3000 …  categories of items, in the dictionary alone
    4000    the measure of an item, in the dictionary alone
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from examples.ctr.impressions import CAMPAIGNS, LOGS, Impression, Log, read_items, read_log
from trainfeed.errors import FormatError

__all__ = ["MEASURE", "FeatureNumbers"]

MEASURE: Final = 4000

_POSITION, _USER, _AFFINITY, _ITEM, _CATEGORY = 0, 100, 1000, 2000, 3000


class FeatureNumbers:
    """The numbers of all features; the same data give the same numbers.

    Args:
        data: The folder into which obp was installed.

    Raises:
        ConfigError: The package is not installed.
        FormatError: There are more values than numbers.
    """

    def __init__(self, data: Path) -> None:
        users = {each for log in LOGS for row in read_log(data, log) for each in _user(row)}
        self._users = _numbered(users, _USER, _AFFINITY)
        self._items = {name: read_items(data, name) for name in CAMPAIGNS}
        categories = {
            each for rows in self._items.values() for row in rows for each in enumerate(row[1])
        }
        self._categories = _numbered(categories, _CATEGORY, MEASURE)
        sizes = list(CAMPAIGNS.values())
        self._first = {name: sum(sizes[:number]) for number, name in enumerate(CAMPAIGNS)}

    def of_line(self, log: Log, row: Impression) -> dict[int, float]:
        """Return index → value of what a log says of an impression, without its label."""
        first = self._first[log.campaign]
        return {
            _POSITION + row.position - 1: 1.0,
            **dict.fromkeys((self._users[each] for each in _user(row)), 1.0),
            **{_AFFINITY + first + item: value for item, value in row.affinities.items()},
            _ITEM + first + row.item: 1.0,
        }

    def dictionary(self) -> list[tuple[int, float, list[int]]]:
        """Return item, measure and categories of every item, by ascending item."""
        return [
            (
                _ITEM + self._first[campaign] + number,
                row.measure,
                [self._categories[each] for each in enumerate(row.categories)],
            )
            for campaign, rows in self._items.items()
            for number, row in enumerate(rows)
        ]


def _user(row: Impression) -> Iterable[tuple[int, str]]:
    return enumerate(row.user)


def _numbered(values: set[tuple[int, str]], first: int, end: int) -> Mapping[tuple[int, str], int]:
    if len(values) > end - first:
        raise FormatError(f"expected at most {end - first} values of a kind, got {len(values)}")
    return {value: number for number, value in enumerate(sorted(values), start=first)}
