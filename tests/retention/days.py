"""The days of the simulated source: their names, their events, and the files they are landed in."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from tests.unit.pipeline.clicks import DAY_MS, START_MS, event

START: Final = datetime(2024, 3, 1, tzinfo=UTC)
EVENTS: Final = 24
PARTITIONS: Final = 2
# The gate of the data set lets no day with this value pass.
BAD_VALUE: Final = 1_000
GATES: Final = f"quality: [{{check: range, field: value, max: {BAD_VALUE - 1}}}]"


def is_bad(number: int) -> bool:
    """Return whether the gate refuses a day."""
    return number % 23 == 11


def day_of(number: int) -> list[dict[str, Any]]:
    """Return the events of a day, in one partition."""
    first, step = START_MS + number * DAY_MS, DAY_MS // EVENTS
    values = [i if i % 7 else -1 for i in range(EVENTS)]
    if is_bad(number):
        values[1] = BAD_VALUE
    return [event(value, first + i * step) for i, value in enumerate(values)]


def name_of(number: int) -> str:
    """Return the name of the interval of a day."""
    return f"{START + timedelta(days=number):%Y-%m-%d}"


def number_of(name: str) -> int:
    """Return the number of the day of an interval."""
    return (datetime.fromisoformat(name).replace(tzinfo=UTC) - START).days


def interval_of(file: str) -> str:
    """Return the interval of a landing file: every day has the same number of offsets."""
    return name_of(int(file.rpartition("/")[2][:20]) // EVENTS)
