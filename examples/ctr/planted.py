"""Broken lines for the logs, on purpose: every 97th impression is followed by one.

The kinds take turns.
"""

from __future__ import annotations

from typing import Final

__all__ = ["FILTERED", "KINDS", "PLANT_EVERY", "break_line", "kind_of"]

PLANT_EVERY: Final = 97
# Kind of a planted line → the reason with which it is quarantined, or filtered.
KINDS: Final = {
    "no_label": "bad_label",
    "other_label": "bad_label",
    "no_colon": "bad_pair",
    "not_a_number": "bad_pair",
    "huge_number": "bad_value",
    "of_the_dictionary": "unknown_index",
    "index_twice": "index_twice",
    "no_item": "no_item",
    "two_items": "two_items",
    "new_item": "not_in_dictionary",
    "comment": "no_data",
    "blank": "no_data",
}
FILTERED: Final = frozenset({"no_data"})


def kind_of(number: int) -> str:
    """Return the kind of the planted line with that number, from 0."""
    return tuple(KINDS)[number % len(KINDS)]


def break_line(number: int, line: bytes) -> bytes:
    """Return ``line``, whose last feature is its item, broken as planted line ``number``."""
    _, _, pairs = line.partition(b" ")
    others, _, item = line.rpartition(b" ")
    return {
        "no_label": pairs,
        "other_label": b"2 " + pairs,
        "no_colon": line.replace(b":", b" "),
        "not_a_number": line[:-1] + b"nan",
        "huge_number": line[:-1] + b"1e39",
        "of_the_dictionary": line + b" 3000:1",
        "index_twice": line + b" " + item,
        "no_item": others,
        "two_items": line + b" 2999:1",
        "new_item": others + b" 2998:1",
        "comment": b"# " + line,
        "blank": b" ",
    }[kind_of(number)]
