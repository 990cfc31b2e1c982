"""Broken lines for the event log: what goes wrong between a producer and a topic, on purpose.

Every 200th departure is followed by a broken copy of itself; the kinds take turns. An ordinary day
gets four or five of them, 0.5 % of its lines.
"""

from __future__ import annotations

import json
from typing import Any, Final

__all__ = ["FIRST_PLANTED_ID", "KINDS", "PLANT_EVERY", "break_line", "kind_of"]

PLANT_EVERY: Final = 200
FIRST_PLANTED_ID: Final = 10_000_000  # far above the number of departures
KINDS: Final = ("not_json", "truncated", "missing_field", "impossible_number")

_FIELDS: Final = ("sched_dep_time", "origin", "distance", "arr_delay", "carrier")
_IMPOSSIBLE: Final[tuple[tuple[str, int], ...]] = (
    ("distance", -1),
    ("sched_dep_time", 2575),
    ("month", 13),
    ("arr_delay", 10**9),
)


def kind_of(number: int) -> str:
    """Return the kind of the planted line with that number, from 0."""
    return KINDS[number % len(KINDS)]


def break_line(number: int, line: bytes) -> bytes:
    """Return ``line``, a departure, broken in the way of the planted line with that number."""
    turn = number // len(KINDS)
    match kind_of(number):
        case "not_json":
            return b"<html><title>502 Bad Gateway</title></html> event " + str(number).encode()
        case "truncated":
            return line[: len(line) // 2 + turn % 100]
        case "missing_field":
            return _without(line, _FIELDS[turn % len(_FIELDS)])
        case _:
            field, value = _IMPOSSIBLE[turn % len(_IMPOSSIBLE)]
            return json.dumps(json.loads(line) | {field: value}).encode()


def _without(line: bytes, field: str) -> bytes:
    event: dict[str, Any] = json.loads(line)
    del event[field]
    return json.dumps(event).encode()
