"""Many departures → samples at once, in arrays; the same samples as ``preprocess:flights`` gives.

Unusual records are left to that function, which names their faults.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from trainfeed.preprocessing import Filtered, Record, Reject, columns_of, iter_records

from .categories import NUM_CATEGORIES, buckets_of
from .lookup_arrays import plane_arrays, weather_arrays
from .lookups import indexed
from .preprocess import LATE_MINUTES, NUMBERS, TEXTS, flights

__all__ = ["flights_batch"]

# In the order of the lines.
_COLUMNS: Final = {
    **dict.fromkeys(("year", "month", "day", "dep_time", "sched_dep_time"), pa.int64()),
    **dict.fromkeys(("sched_arr_time", "arr_delay"), pa.int64()),
    "carrier": pa.utf8(),
    "flight": pa.int64(),
    **dict.fromkeys(("tailnum", "origin", "dest"), pa.utf8()),
    "distance": pa.int64(),
    "time_hour": pa.utf8(),
}
_NUM_VALUES: Final = 14
_MONTH_DAYS: Final = np.array([31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])

Codes: TypeAlias = tuple[NDArray[Any], list[Any]]
Columns: TypeAlias = Mapping[str, NDArray[Any]]


def flights_batch(batch: pa.RecordBatch, lookups: Mapping[str, pa.Table]) -> pa.RecordBatch:
    """Turn departures into samples, as ``flights`` does with each of them.

    Args:
        batch: JSON lines, or rows with the same fields, as ``flights`` gets them.
        lookups: ``weather`` and ``planes``.
    """
    rows, columns = columns_of(batch, _COLUMNS)
    numbers = {name: pc.fill_null(columns.column(name), 0).to_numpy() for name in NUMBERS}
    nulls = {name: _is_null(columns.column(name)) for name in _COLUMNS}
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


def _is_null(column: pa.Array) -> NDArray[np.bool_]:
    if not column.null_count:
        return np.zeros(len(column), dtype=bool)
    nulls: NDArray[np.bool_] = column.is_null().to_numpy(False)
    return nulls


def _are_sound(numbers: Columns, nulls: Columns) -> NDArray[np.bool_]:
    """Return which rows ``flights`` would not reject."""
    sound = np.ones(len(numbers["year"]), dtype=bool)
    for name, allowed in NUMBERS.items():
        inside = (numbers[name] >= allowed.low) & (numbers[name] <= allowed.high)
        sound &= np.where(nulls[name], allowed.nullable, inside)
    for name in TEXTS:
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
        self._indices = np.zeros((num_rows, NUM_CATEGORIES), dtype=np.int32)
        self._values = np.zeros((num_rows, _NUM_VALUES), dtype=np.float32)
        self._labels = np.zeros(num_rows, dtype=np.int64)
        self._reasons: dict[str, dict[int, str]] = {
            "_filtered": {},
            "_rejected": {},
            "_message": {},
        }

    def add(
        self,
        rows: NDArray[np.int64],
        columns: pa.RecordBatch,
        numbers: Columns,
        lookups: Mapping[str, pa.Table],
    ) -> None:
        """Take the samples of many rows, whatever comes out where they are not sound."""
        texts = {name: _codes(columns.column(name)) for name in (*TEXTS, "tailnum")}
        weather = indexed("weather", lookups, weather_arrays)
        plane = indexed("planes", lookups, plane_arrays)
        # The rows of the lookups; the last one stands for whatever is not there.
        hours = weather.pairs.rows(texts["origin"], texts["time_hour"])
        planes = plane.rows(texts["tailnum"])
        winds = weather.classes[hours], weather.names
        places = slice(None) if len(rows) == len(self._labels) else rows
        indices = np.empty((len(rows), NUM_CATEGORIES), dtype=np.int32)
        for seed, codes in _categories(texts, numbers, winds).items():
            indices[:, seed] = buckets_of(seed, codes[1])[codes[0]]
        for seed, buckets in (weather.buckets | plane.buckets).items():
            indices[:, seed] = buckets[hours if seed in weather.buckets else planes]
        self._indices[places] = indices
        known = planes < len(plane.places)
        self._values[places] = _value_columns(
            numbers, plane.values[planes], known, weather.values[hours]
        )
        self._labels[places] = numbers["arr_delay"] >= LATE_MINUTES

    def filter(self, rows: NDArray[np.int64], reason: str) -> None:
        """Take rows out."""
        self._reasons["_filtered"].update(dict.fromkeys(rows.tolist(), reason))

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
        reasons = {name: _sparse(texts, len(rows)) for name, texts in self._reasons.items()}
        return pa.RecordBatch.from_pydict(fields | reasons)


def _sparse(texts: Mapping[int, str], length: int) -> pa.Array:
    """Return a column with few texts in it."""
    column = np.full(length, None, dtype=object)
    column[list(texts)] = list(texts.values())
    return pa.array(column, pa.utf8())


def _lists(matrix: NDArray[Any]) -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(pa.array(matrix.reshape(-1)), matrix.shape[1])


def _codes(column: pa.Array) -> Codes:
    """Return a number per row, and what the numbers stand for; null is a value like others."""
    encoded = pc.dictionary_encode(column, null_encoding="encode")
    return encoded.indices.to_numpy(), encoded.dictionary.to_pylist()


def _whole(numbers: NDArray[np.int64]) -> Codes:
    """Return codes of whole numbers."""
    low, high = (int(numbers.min()), int(numbers.max())) if len(numbers) else (0, 0)
    if high - low < len(numbers):
        return numbers - low, list(range(low, high + 1))
    return _codes(pa.array(numbers))


def _crossed(first: Codes, second: Codes) -> Codes:
    """Return codes of pairs, among them all that occur."""
    size = max(1, len(second[1]))
    codes = first[0].astype(np.int64) * size + second[0]
    if len(first[1]) * size * 8 < len(codes):
        return codes, [(one, other) for one in first[1] for other in second[1]]
    codes, pairs = _codes(pa.array(codes))
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


def _value_columns(
    numbers: Columns,
    plane: NDArray[np.float64],
    known: NDArray[np.bool_],
    weather: NDArray[np.float64],
) -> NDArray[np.float32]:
    """Return the values of ``_values`` as shape (n, 14)."""
    clock = numbers["sched_dep_time"]
    built, seats = plane[:, 0], plane[:, 1]
    values = np.empty((len(clock), _NUM_VALUES), dtype=np.float32)
    values[:, 0] = (numbers["distance"] - 1000) / 1000
    values[:, 1] = (clock // 100 * 60 + clock % 100 - 800) / 300
    values[:, 2] = np.where(np.isnan(built), 0.0, (numbers["year"] - built - 11) / 10)
    values[:, 3] = np.where(known, (seats - 140) / 80, 0.0)
    values[:, 4] = ~known
    values[:, 5:] = weather
    return values
