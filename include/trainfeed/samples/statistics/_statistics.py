"""Statistics of samples, field by field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from numpy.typing import NDArray

from trainfeed.errors import FormatError, SampleShapeError
from trainfeed.samples._record_columns import common_length
from trainfeed.samples._schema import Schema
from trainfeed.samples.statistics._component_limits import (
    fields_with_components,
    num_components,
)
from trainfeed.samples.statistics._field_statistics import FieldStatistics
from trainfeed.samples.statistics._numbers import BLOCK_VALUES

__all__ = ["Statistics"]

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
    names = fields_with_components(schema)
    widths = (
        f.values_dtype.itemsize * (num_components(f) if f.name in names else 1)
        for f in schema
        if not f.is_text and f.values_dtype.itemsize > 1
    )
    fitting = _WAITING_BYTES // max(1, sum(widths))
    # The largest power of two that fits.
    return max(_LEAST_BLOCK_VALUES, min(BLOCK_VALUES, 1 << max(0, fitting.bit_length() - 1)))
