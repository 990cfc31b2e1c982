"""Statistics of samples, field by field: computed in parts, merged, stored as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trainfeed.errors import FormatError, SampleShapeError
from trainfeed.samples._field_values import as_array, as_bytes, refuse
from trainfeed.samples._presence import present_rows
from trainfeed.samples._record_columns import common_length
from trainfeed.samples._schema import Field, Schema
from trainfeed.samples.statistics._numbers import BLOCK_VALUES, ByteNumbers, Numbers
from trainfeed.samples.statistics._statistics_entries import require_entries
from trainfeed.samples.statistics._text_statistics import Texts

__all__ = ["FieldStatistics", "Statistics"]

# Limit for the numbers of all fields that wait for a full block. Schemas of more than 256 fields
# of 8 bytes get smaller blocks.
_WAITING_BYTES: Final = 32 << 20
_LEAST_BLOCK_VALUES: Final = 64


class FieldStatistics:
    """Statistics of one field.

    Args:
        field: The field.
        sketches: Whether to compute a histogram and frequent values as well.
        block_values: Numbers per block.

    Attributes:
        field: The field.
        count: Number of samples.
        nulls: Number of samples without the field.
    """

    def __init__(
        self, field: Field, *, sketches: bool = True, block_values: int = BLOCK_VALUES
    ) -> None:
        self.field = field
        self.count = 0
        self.nulls = 0
        self._content: Numbers | ByteNumbers | Texts
        if field.is_text:
            self._content = Texts(sketches=sketches)
        elif field.values_dtype.itemsize == 1:
            self._content = ByteNumbers(field.values_dtype, sketches=sketches)
        else:
            self._content = Numbers(
                field.values_dtype,
                sketches=sketches,
                top=not field.shape,
                block_values=block_values,
            )

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
        """
        if column is None:
            self._take_absent(num_samples)
            return
        if self.field.optional:
            rows = present_rows(self.field, column, num_samples)
            column = np.ma.getdata(column)[rows]
            self._take_absent(num_samples - len(column))
        if isinstance(self._content, Texts):
            raise TypeError(f"field {self.field.name!r} varies in size, update sample by sample")
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
        self._content.merge(other._content)  # type: ignore[arg-type]

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
        """
        return {"count": self.count, "nulls": self.nulls} | self._content.to_json()

    @classmethod
    def from_json(cls, field: Field, value: Any) -> FieldStatistics:
        """Return the statistics that ``to_json`` gave as JSON values.

        Raises:
            FormatError: ``value`` is not the statistics of this field.
        """
        statistics = cls(field)
        try:
            require_entries(field, value)
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


class Statistics:
    """Statistics of samples, field by field.

    Equal samples in equal order give equal JSON to the last digit, whether they are added one by
    one or in columns.

    Args:
        schema: The schema of the samples.
        sketches: See ``FieldStatistics``.

    Attributes:
        fields: Name to statistics, in the order of the schema.
    """

    def __init__(self, schema: Schema, *, sketches: bool = True) -> None:
        size = _block_values(schema)
        self.fields = {
            field.name: FieldStatistics(field, sketches=sketches, block_values=size)
            for field in schema
        }

    def update(self, sample: Mapping[str, Any]) -> None:
        """Add one sample.

        Raises:
            SampleShapeError: Sample and schema disagree.
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
    widths = (f.values_dtype.itemsize for f in schema if not f.is_text)
    row_bytes = sum(width for width in widths if width > 1)
    fitting = _WAITING_BYTES // max(1, row_bytes)
    return max(_LEAST_BLOCK_VALUES, min(BLOCK_VALUES, 1 << max(0, fitting.bit_length() - 1)))
