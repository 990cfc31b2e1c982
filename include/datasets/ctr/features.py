"""The numbers of features: which belong to the item of an impression, and which may stand in a log.

Numbers begin at 0, as in libFM. Every kind of feature has a range of its own, with room for more.
"""

from __future__ import annotations

from typing import Final

__all__ = ["ITEMS", "NUM_FEATURES", "NUM_LOGGED"]

NUM_FEATURES: Final = 4096
# The items that are shown: an impression has one of them, with the value 1.
ITEMS: Final = range(2000, 3000)
# Features from here on come from the dictionary of items, and never from a log.
NUM_LOGGED: Final = 3000
