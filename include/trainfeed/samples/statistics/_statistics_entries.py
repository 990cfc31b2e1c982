"""Checks statistics that were read from a file, before they are used.

Statistics are added up and shown without further checks. A bin of another dtype, a count that is a
text, or a minimum that is a list would cause an error far from the file, or none.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from trainfeed.samples._schema import Field
from trainfeed.samples.statistics._component_limits import num_components
from trainfeed.samples.statistics._histogram import byte_values

__all__ = ["require_entries"]

_COUNTS: Final = ("count", "nulls", "values", "not_finite", "total_length", "top_error")
_MORE_COUNTS: Final = ("top_skipped", "min_length", "max_length")
_NUMBERS: Final = ("min", "max", "mean", "std")
# Sums of counts stay exact, and far from the end of an int64.
_MAX_COUNT: Final = 1 << 53


def require_entries(field: Field, value: object) -> None:
    """Refuse a value that is not the statistics of a field.

    Raises:
        KeyError: An entry is missing.
        TypeError: ``value`` is not an object.
        ValueError: A value is of another type, or contradicts another one.
    """
    if not isinstance(value, Mapping):
        raise TypeError(f"expected an object, got {type(value).__name__}")
    _require_types(value)
    if value["nulls"] > value["count"]:
        raise ValueError(f"expected at most {value['count']} nulls, got {value['nulls']}")
    if field.is_text:
        _require_lengths(value)
    else:
        _require_moments(value)
    _require_bins(field, value)
    _require_top(field, value.get("top", []))
    if "components" in value:
        _require_components(field, value)


def _require_components(field: Field, value: Mapping[str, Any]) -> None:
    entries, expected = value["components"], num_components(field)
    if type(entries) is not list or not expected or len(entries) != expected:
        raise ValueError(f"expected {expected} components")
    for entry in entries:
        if not isinstance(entry, Mapping):
            raise TypeError(f"expected an object, got {type(entry).__name__}")
        _require_types(entry)
        _require_moments(entry)
        _require_bins(field, entry)
        _require_top(field, entry.get("top", []))
        if entry["values"] + entry["not_finite"] != value["count"] - value["nulls"]:
            raise ValueError("expected one value of each component in every sample that has it")


def _require_types(value: Mapping[str, Any]) -> None:
    for name in (*_COUNTS, *_MORE_COUNTS):
        _require_count(name, value.get(name))
    for name in _NUMBERS:
        _require_number(name, value.get(name))


def _require_count(name: str, count: object) -> None:
    if count is not None and (type(count) is not int or not 0 <= count < _MAX_COUNT):
        raise ValueError(f"expected {name} as a count, got {count!r}")


def _require_number(name: str, number: object) -> None:
    if number is not None and not _is_finite(number):
        raise ValueError(f"expected {name} as a finite number, got {number!r}")


def _is_finite(number: object) -> bool:
    try:
        return type(number) in {int, float} and math.isfinite(number)  # type: ignore[arg-type]
    except OverflowError:
        return False


def _require_lengths(value: Mapping[str, Any]) -> None:
    wanted = ("min_length", "max_length", "total_length")
    if value["count"] > value["nulls"] and None in [value[name] for name in wanted]:
        raise ValueError("expected the lengths of values that are there")


def _require_moments(value: Mapping[str, Any]) -> None:
    if value["values"] and None in (value["min"], value["max"]):
        raise ValueError(f"expected the range of {value['values']} values")
    if (value["mean"] is None) != (value["std"] is None) or (value["std"] or 0) < 0:
        raise ValueError(f"got the mean {value['mean']} and the deviation {value['std']}")


def _require_bins(field: Field, value: Mapping[str, Any]) -> None:
    if "histogram" not in value:
        return
    total = 0
    for name, count in value["histogram"]:
        _require_count("bins", count)
        _require_number("bins", name)
        if field.values_dtype.itemsize == 1 and name not in _byte_names(field):
            raise ValueError(f"no bin is called {name!r}")
        total += count
    if total != value["values"]:
        raise ValueError(f"expected bins of {value['values']} values, got {total}")


def _byte_names(field: Field) -> range:
    if field.values_dtype.kind == "b":
        return range(2)
    numbers = byte_values(field.values_dtype)
    return range(int(numbers[0]), int(numbers[-1]) + 1)


def _require_top(field: Field, top: Any) -> None:
    kind = str if field.is_text else int
    for name, count in top:
        if count is None or type(name) is not kind:
            raise ValueError(f"expected frequent values of {field.dtype}, got {name!r}")
        _require_count("top", count)
