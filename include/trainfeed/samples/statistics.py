"""Statistics of samples, field by field, computed in parts and merged."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trainfeed.errors import FormatError, SampleShapeError
from trainfeed.samples.layout import common_length
from trainfeed.samples.numbers import BLOCK_VALUES, ByteNumbers, Numbers
from trainfeed.samples.schema import Field, Schema, as_array, as_bytes, present_rows, refuse
from trainfeed.samples.sketches import TopValues, byte_values

# --- Statistics of samples, field by field

# Limit for the numbers of all fields that wait for a full block. Schemas of more than 256 fields
# of 8 bytes get smaller blocks.
_WAITING_BYTES: Final = 32 << 20
_LEAST_BLOCK_VALUES: Final = 64


class Statistics:
    """Statistics of samples, field by field.

    Equal samples in equal order give equal JSON to the last digit, whether they are added one by
    one or in columns. At most 1,024 components of a schema have statistics: fields whose components
    exceed the limit, in the order of the schema, have those of the whole field only.

    Args:
        schema: The schema of the samples.
        sketches: See ``FieldStatistics``.

    Attributes:
        fields: Name to statistics, in the order of the schema.
    """

    def __init__(self, schema: Schema, *, sketches: bool = True) -> None:
        size = _block_values(schema)
        names = fields_with_components(schema)
        self.fields = {
            field.name: FieldStatistics(
                field, sketches=sketches, block_values=size, components=field.name in names
            )
            for field in schema
        }

    def update(self, sample: Mapping[str, Any]) -> None:
        """Add one sample; names that the schema has not are ignored.

        Raises:
            SampleShapeError: A value does not match its field; those of fields before it count.
        """
        for name, statistics in self.fields.items():
            statistics.update(sample.get(name))

    def update_columns(self, columns: Mapping[str, NDArray[Any]]) -> None:
        """Add many samples of a schema of fixed size.

        Args:
            columns: Columns as ``TypedCodec.decode_records`` returns them.

        Raises:
            SampleShapeError: Columns and schema disagree, or the columns differ in length.
        """
        num_samples = common_length(tuple(self.fields), columns)
        for name, statistics in self.fields.items():
            statistics.update_column(columns.get(name), num_samples)

    def merge(self, other: Statistics) -> None:
        """Add the statistics of ``other``, which does not change.

        Raises:
            SampleShapeError: The schemas differ.
        """
        if self.fields.keys() != other.fields.keys():
            raise SampleShapeError(
                f"expected statistics of {list(self.fields)}, got {list(other.fields)}"
            )
        for name, statistics in self.fields.items():
            statistics.merge(other.fields[name])

    def to_json(self) -> dict[str, dict[str, Any]]:
        """Return the statistics of every field by its name; see ``FieldStatistics.to_json``."""
        return {name: statistics.to_json() for name, statistics in self.fields.items()}

    @classmethod
    def from_json(cls, schema: Schema, value: Any) -> Statistics:
        """Return the statistics that ``to_json`` gave as JSON values.

        Raises:
            FormatError: ``value`` is not the statistics of this schema.
        """
        if not isinstance(value, Mapping) or value.keys() != set(schema.names):
            raise FormatError(f"expected statistics of the fields {list(schema.names)}")
        statistics = cls(schema)
        statistics.fields = {
            field.name: FieldStatistics.from_json(field, value[field.name]) for field in schema
        }
        return statistics


def _block_values(schema: Schema) -> int:
    """Return the numbers per block: they depend on the schema alone."""
    names = fields_with_components(schema)
    widths = (
        f.values_dtype.itemsize * (num_components(f) if f.name in names else 1)
        for f in schema
        if not f.is_text and f.values_dtype.itemsize > 1
    )
    fitting = _WAITING_BYTES // max(1, sum(widths))
    # The largest power of two that fits.
    return max(_LEAST_BLOCK_VALUES, min(BLOCK_VALUES, 1 << max(0, fitting.bit_length() - 1)))


# --- Statistics of one field: computed in parts, merged, stored as JSON


class FieldStatistics:
    """Statistics of one field.

    Args:
        field: The field.
        sketches: Whether to compute a histogram and frequent values as well.
        block_values: Numbers per block.
        components: Whether to compute statistics of each component as well, if the field has a
            fixed shape of at most 64 components.

    Attributes:
        field: The field.
        count: Number of samples.
        nulls: Number of samples without the field.
    """

    def __init__(
        self,
        field: Field,
        *,
        sketches: bool = True,
        block_values: int = BLOCK_VALUES,
        components: bool = True,
    ) -> None:
        self.field = field
        self.count = 0
        self.nulls = 0
        num = num_components(field) if sketches and components else 0
        self._content = _content(field, num, block_values, sketches=sketches)

    @property
    def has_components(self) -> bool:
        """Whether there are statistics of each component."""
        return not isinstance(self._content, Texts) and self._content.num_components > 0

    def update(self, value: object) -> None:
        """Add the value of one sample; None for an absent field.

        Raises:
            SampleShapeError: The value does not match the field.
        """
        if value is None:
            self._take_absent(1)
            return
        if isinstance(self._content, Texts):
            self._content.add(as_bytes(self.field, value))
        else:
            self._content.add(as_array(self.field, value).reshape(-1))
        self.count += 1

    def update_column(self, column: NDArray[Any] | None, num_samples: int) -> None:
        """Add the values of many samples at once; only for a field of fixed size.

        Args:
            column: Shape ``(num_samples, *field.shape)``, masked where the field is absent; None
                if no sample has the field.
            num_samples: Number of samples.

        Raises:
            SampleShapeError: The column does not match the field.
            TypeError: The field varies in size; nothing was counted.
        """
        if isinstance(self._content, Texts):
            raise TypeError(f"field {self.field.name!r} varies in size, update sample by sample")
        if column is None:
            self._take_absent(num_samples)
            return
        if self.field.optional:
            rows = present_rows(self.field, column, num_samples)
            # Values of absent fields are arbitrary: only present rows count.
            column = np.ma.getdata(column)[rows]
            self._take_absent(num_samples - len(column))
        self._content.add(as_array(self.field, column, len(column)).reshape(-1))
        self.count += len(column)

    def merge(self, other: FieldStatistics) -> None:
        """Add the statistics of ``other``, which does not change.

        Raises:
            SampleShapeError: ``other`` belongs to another field.
        """
        if self.field != other.field:
            raise SampleShapeError(
                f"expected statistics of field {self.field.name!r}, {self.field}, got"
                f" {other.field.name!r}, {other.field}"
            )
        self.count += other.count
        self.nulls += other.nulls
        mine, others = self._content, other._content
        if self.has_components != other.has_components:
            # One of them is without components: the sum cannot have any.
            mine, others = _without_components(mine), _without_components(others)
        mine.merge(others)  # type: ignore[arg-type]
        self._content = mine

    def to_json(self) -> dict[str, Any]:
        """Return the statistics.

        Returns:
            ``count`` and ``nulls``. For numbers: ``values`` (number of finite values),
            ``not_finite`` (number of NaN and infinite values), and ``min``, ``max``, ``mean`` and
            ``std`` (of the population) of the finite values. For bytes and str: ``min_length``,
            ``max_length``, ``mean_length`` and ``total_length``, in stored bytes. An entry is None
            if there is no value, or if a mean exceeds a float64.

            With sketches, numbers also have ``histogram`` (bins and their counts) and
            ``quantiles`` (share → number, exact to a sixteenth of the number). Integers of one
            byte, scalar integers, bytes and str also have ``top``: frequent values and their
            counts, which are too low by at most ``top_error``. Bytes and str are written in hex
            there; values of more than 64 bytes are only counted, in ``top_skipped``.

            A field of fixed shape with at most 64 components also has ``components``: ``values``,
            ``not_finite``, ``min``, ``max``, ``mean``, ``std`` and ``histogram`` for each place of
            the flattened shape; integers of more than one byte have ``top`` as well where there
            are at most 64 different values, with exact counts. A sum with statistics that are
            without components has none.
        """
        return {"count": self.count, "nulls": self.nulls} | self._content.to_json()

    @classmethod
    def from_json(cls, field: Field, value: Any) -> FieldStatistics:
        """Return the statistics that ``to_json`` gave as JSON values.

        Raises:
            FormatError: ``value`` is not the statistics of this field.
        """
        try:
            require_entries(field, value)
            statistics = cls(field, components="components" in value)
            statistics.count, statistics.nulls = int(value["count"]), int(value["nulls"])
            statistics._content.load(value)
        except (KeyError, TypeError, ValueError) as error:
            raise FormatError(
                f"expected statistics of field {field.name!r}, got {str(value)[:200]}: {error}"
            ) from error
        return statistics

    def _take_absent(self, num_samples: int) -> None:
        if num_samples and not self.field.optional:
            refuse(self.field, None)
        self.count += num_samples
        self.nulls += num_samples


def _content(field: Field, num: int, block_values: int, *, sketches: bool) -> _Content:
    if field.is_text:
        return Texts(sketches=sketches)
    # 256 possible values: exact counts are cheaper than sketches.
    if field.values_dtype.itemsize == 1:
        return ByteNumbers(field.values_dtype, num, sketches=sketches)
    return Numbers(
        field.values_dtype, num, sketches=sketches, top=not field.shape, block_rows=block_values
    )


def _without_components(content: _Content) -> _Content:
    if isinstance(content, Texts) or not content.num_components:
        return content
    return content.whole()


# --- Statistics of bytes and text: lengths, and frequent values


class Texts:
    """Lengths and frequent values of bytes, or of text in UTF-8.

    Args:
        sketches: Whether to find frequent values.
    """

    def __init__(self, *, sketches: bool) -> None:
        self._top = TopValues() if sketches else None
        self._num = 0
        self._total = 0
        self._low: int | None = None
        self._high: int | None = None

    def add(self, text: bytes) -> None:
        """Add one value."""
        num_bytes = len(text)
        self._extend(1, num_bytes, num_bytes, num_bytes)
        if self._top is not None:
            self._top.add_text(text)

    def merge(self, other: Texts) -> None:
        """Add the values of ``other``."""
        if other._low is not None and other._high is not None:
            self._extend(other._num, other._total, other._low, other._high)
        if self._top is not None and other._top is not None:
            self._top.merge(other._top)
        else:
            self._top = None

    def to_json(self) -> dict[str, Any]:
        """Return range, mean and total of lengths, and frequent values."""
        entries: dict[str, Any] = {
            "min_length": self._low,
            "max_length": self._high,
            "mean_length": self._total / self._num if self._num else None,
            "total_length": self._total,
        }
        if self._top is not None:
            entries |= self._top.to_json()
        return entries

    def load(self, value: Mapping[str, Any]) -> None:
        """Load the values that ``to_json`` gave, and ``count`` and ``nulls`` of the field."""
        num = int(value["count"]) - int(value["nulls"])
        if num:
            low, high = int(value["min_length"]), int(value["max_length"])
            self._extend(num, int(value["total_length"]), low, high)
        if "top" not in value:
            self._top = None
        elif self._top is not None:
            self._top.load(value)

    def _extend(self, num: int, total: int, low: int, high: int) -> None:
        self._num += num
        self._total += total
        self._low = low if self._low is None else min(self._low, low)
        self._high = high if self._high is None else max(self._high, high)


_Content: TypeAlias = Numbers | ByteNumbers | Texts

# --- The fields whose components have statistics: those of a fixed, small shape

# Each component takes memory, time and space in the file of statistics as a field of its own does.
_MAX_OF_FIELD: Final = 64
_MAX_OF_SCHEMA: Final = 1024


def num_components(field: Field) -> int:
    """Return the number of components that have statistics; 0 for scalars and other fields."""
    if not field.shape or not field.is_fixed:
        return 0
    size = math.prod(field.item_shape)
    return size if size <= _MAX_OF_FIELD else 0


def fields_with_components(schema: Schema) -> frozenset[str]:
    """Return the fields whose components have statistics: in order, as far as the limit allows."""
    names, total = set(), 0
    for field in schema:
        if (num := num_components(field)) and total + num <= _MAX_OF_SCHEMA:
            names.add(field.name)
            total += num
    return frozenset(names)


def components_of_schema(schema: Schema) -> int:
    """Return the number of components of all fields that have statistics."""
    return sum(num_components(schema[name]) for name in fields_with_components(schema))


# --- Checks statistics that were read from a file, before they are used

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
        if name is None:
            raise ValueError("expected the name of a bin")
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
