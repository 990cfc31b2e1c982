"""The troubles of a year: which days have them, and what they do to the log of events.

* ``never``: the producer was off; no event of the day ever comes.
* ``unbuilt``: the events came, and nobody built the day.
* ``late``: some events of the day come after the first ones of the next day.
* ``renamed``: one event of twenty has the field ``airline`` in place of ``carrier``, as a producer
  writes it for some hours; the function of those days refuses it, and the gate on quarantined
  records fails. From ``fixed`` on, the function reads both names.
* ``mild``: the same with so few events that the gate passes.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from examples.flights.events import with_offsets

__all__ = ["ACCOUNT_COLUMNS", "SHORT", "YEAR", "Troubles", "account_of", "days_between", "plant"]

_DAY_MS: Final = 86_400_000
# Of the events of a late day, the last ones; and how far into the next day they come.
_LATE_EVENTS: Final = 40
_BEHIND: Final = 150
_EVERY_RENAMED: Final = 20
_EVERY_MILD: Final = 300

# The producer's own account of its events, by which everything is checked in the end.
ACCOUNT_COLUMNS: Final = (
    "partition", "offset", "event_id", "timestamp_ms", "value", "fate", "early_fate", "label",
)  # fmt: skip


@dataclass(frozen=True)
class Troubles:
    """The days of a year that have troubles.

    Attributes:
        first: First day.
        last: Last day.
        never: Days of which no event comes.
        unbuilt: Days that nobody builds at first.
        late: Days whose last events come late.
        renamed: Days with events that the first function refuses.
        mild: Days with a few of them.
        fixed: First day that is built with the better function.
    """

    first: date
    last: date
    never: tuple[date, ...]
    unbuilt: tuple[date, ...]
    late: tuple[date, ...]
    renamed: tuple[date, ...]
    mild: tuple[date, ...]
    fixed: date


YEAR: Final = Troubles(
    first=date(2013, 1, 1),
    last=date(2014, 1, 1),
    never=(date(2013, 2, 9), date(2013, 9, 14), date(2013, 9, 15)),
    unbuilt=(date(2013, 4, 21), date(2013, 11, 28)),
    late=(date(2013, 3, 8), date(2013, 7, 10), date(2013, 12, 24)),
    renamed=(date(2013, 5, 16), date(2013, 6, 4)),
    mild=(date(2013, 5, 17), date(2013, 6, 5)),
    fixed=date(2013, 6, 11),
)
SHORT: Final = Troubles(
    first=date(2013, 1, 1),
    last=date(2013, 1, 10),
    never=(date(2013, 1, 3),),
    unbuilt=(date(2013, 1, 8),),
    late=(date(2013, 1, 4),),
    renamed=(date(2013, 1, 5),),
    mild=(date(2013, 1, 6),),
    fixed=date(2013, 1, 7),
)


def plant(events: pa.Table, troubles: Troubles) -> pa.Table:
    """Return the log of events with the troubles in it.

    Args:
        events: The events of the days, as ``examples.flights.events.EVENT_SCHEMA``.
        troubles: The troubles.

    Returns:
        The table in the order of the log, and ``early_fate``: what the first function makes of the
        event; ``fate`` is what the better one makes of it.
    """
    days = _days_of(events)
    for day in troubles.never:
        events, days = _kept(events, days, days != _number(day))
    events = events.append_column("early_fate", events["fate"])
    for day in troubles.renamed:
        events = _renamed(events, days == _number(day), _EVERY_RENAMED)
    for day in troubles.mild:
        events = _renamed(events, days == _number(day), _EVERY_MILD)
    for day in troubles.late:
        events = _delayed(events, _number(day))
    return events.combine_chunks()


def account_of(log: pa.Table) -> pa.Table:
    """Return what the producer knows about every event of a log: its place, bytes and outcome."""
    return with_offsets(log).select(list(ACCOUNT_COLUMNS))


def _renamed(events: pa.Table, is_of_day: NDArray[np.bool_], every: int) -> pa.Table:
    chosen = np.zeros(len(events), dtype=bool)
    sound = is_of_day & (events["fate"].to_numpy() == "sample")
    chosen[np.flatnonzero(sound)[::every]] = True
    mask = pa.array(chosen)
    values = pc.if_else(
        mask, pc.replace_substring(events["value"], '"carrier": ', '"airline": '), events["value"]
    )
    early = pc.if_else(mask, "quarantined", events["early_fate"])
    return _replaced(_replaced(events, "value", values), "early_fate", early)


def _delayed(events: pa.Table, day: int) -> pa.Table:
    """Move the last events of a day behind some of the next day; their stamps stay."""
    days = _days_of(events)
    end = int(np.flatnonzero(days == day)[-1]) + 1
    late = np.arange(end - _LATE_EVENTS, end)
    behind = np.arange(end, end + _BEHIND)
    order = np.concatenate(
        [np.arange(end - _LATE_EVENTS), behind, late, np.arange(end + _BEHIND, len(events))]
    )
    return events.take(order)


def _kept(
    events: pa.Table, days: NDArray[np.int64], mask: NDArray[np.bool_]
) -> tuple[pa.Table, NDArray[np.int64]]:
    return events.filter(pa.array(mask)), days[mask]


def _replaced(events: pa.Table, name: str, column: pa.ChunkedArray) -> pa.Table:
    return events.set_column(events.column_names.index(name), name, column)


def _days_of(events: pa.Table) -> NDArray[np.int64]:
    days: NDArray[np.int64] = events["timestamp_ms"].to_numpy() // _DAY_MS
    return days


def _number(day: date) -> int:
    moment = datetime(day.year, day.month, day.day, tzinfo=UTC)
    return int(moment.timestamp() * 1000) // _DAY_MS


def days_between(first: date, last: date) -> list[date]:
    """Return all days from the first to the last one, both included."""
    return [first + timedelta(days=number) for number in range((last - first).days + 1)]
