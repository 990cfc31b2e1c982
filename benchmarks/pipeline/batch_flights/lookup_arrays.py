"""The lookups that departures are joined with, as arrays: many rows are found at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from .categories import buckets_of
from .lookups import (
    NO_PLANE,
    NO_WEATHER,
    SCALES,
    plane_by_tail,
    rain_of,
    scaled,
    sight_of,
    wind_of,
)

__all__ = ["LookupArrays", "PairPlaces", "plane_arrays", "weather_arrays"]


class PairPlaces:
    """Rows of keys that are pairs, found without making the pairs: a batch has very many of them.

    Args:
        places: Pair to row.
    """

    def __init__(self, places: Mapping[tuple[Any, Any], int]) -> None:
        self._firsts, self._seconds = (
            {key: number for number, key in enumerate(dict.fromkeys(pair[part] for pair in places))}
            for part in (0, 1)
        )
        # One row and one column more than there are keys, for keys that no pair has.
        shape = len(self._firsts) + 1, len(self._seconds) + 1
        self._rows = np.full(shape, len(places), dtype=np.int64)
        for (first, second), row in places.items():
            self._rows[self._firsts[first], self._seconds[second]] = row

    def rows(
        self, first: tuple[NDArray[Any], list[Any]], second: tuple[NDArray[Any], list[Any]]
    ) -> NDArray[np.int64]:
        """Return the row of every pair, given as codes and what they stand for."""
        numbers = [
            np.array([known.get(key, len(known)) for key in keys], dtype=np.int64)[codes]
            for known, (codes, keys) in ((self._firsts, first), (self._seconds, second))
        ]
        found: NDArray[np.int64] = self._rows[numbers[0], numbers[1]]
        return found


class LookupArrays(NamedTuple):
    """A lookup as arrays: a row per entry, and a last one for what is not in it.

    Attributes:
        places: Key to row.
        buckets: Place in ``indices`` to bucket per row.
        values: Floats per row, shape (rows, n).
        classes: Number of the wind's class per row.
        names: What these numbers stand for.
        pairs: The rows of keys that are pairs; None for others.
    """

    places: Mapping[Any, int]
    buckets: Mapping[int, NDArray[np.int32]]
    values: NDArray[np.float64]
    classes: NDArray[np.int64]
    names: list[str]
    pairs: PairPlaces | None = None

    def rows(self, keys: tuple[NDArray[Any], list[Any]]) -> NDArray[np.int64]:
        """Return the row of every key, given as codes and what they stand for."""
        last, get = len(self.places), self.places.get
        rows = np.array([get(key, last) for key in keys[1]], dtype=np.int64)
        found: NDArray[np.int64] = rows[keys[0]]
        return found


def weather_arrays(table: pa.Table) -> LookupArrays:
    """Return the weather by airport and hour."""
    keys = zip(table["origin"].to_pylist(), table["time_hour"].to_pylist(), strict=True)
    last = {key: row for row, key in enumerate(keys)}
    table = table.take(pa.array(last.values(), pa.int64()))
    measures = [
        _each(table[name], partial(scaled, typical=typical, spread=spread))
        for name, (typical, spread) in SCALES.items()
    ]
    values = np.array([*measures, [0.0] * len(last)]).T
    winds = [*_each(table["wind_dir"], wind_of), NO_WEATHER.wind]
    names = sorted(set(winds))
    places = {key: row for row, key in enumerate(last)}
    return LookupArrays(
        places,
        {
            18: buckets_of(18, [*_each(table["visib"], sight_of), NO_WEATHER.sight]),
            19: buckets_of(19, [*_each(table["precip"], rain_of), NO_WEATHER.rain]),
        },
        np.vstack([values, NO_WEATHER.values]),
        np.array([names.index(wind) for wind in winds]),
        names,
        PairPlaces(places),
    )


def _each(column: pa.ChunkedArray, function: Callable[[Any], Any]) -> list[Any]:
    """Return what a function makes of every value; it is called once for equal ones."""
    encoded = column.combine_chunks().dictionary_encode("encode")
    made = [function(value) for value in encoded.dictionary.to_pylist()]
    return [made[code] for code in encoded.indices.to_pylist()]


def plane_arrays(table: pa.Table) -> LookupArrays:
    """Return aircraft by tail number."""
    by_tail = plane_by_tail(table)
    found = [*by_tail.values(), NO_PLANE]
    return LookupArrays(
        {key: row for row, key in enumerate(by_tail)},
        {
            14: buckets_of(14, [plane.model for plane in found]),
            15: buckets_of(15, [plane.manufacturer for plane in found]),
            16: buckets_of(16, [plane.engine for plane in found]),
        },
        np.array([(np.nan if p.built is None else p.built, p.seats) for p in found]),
        np.zeros(len(found), dtype=np.int64),
        [],
    )
