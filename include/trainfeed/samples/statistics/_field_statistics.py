"""Statistics of one field: computed in parts, merged, stored as JSON."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from trainfeed.errors import FormatError, SampleShapeError
from trainfeed.samples._field_values import as_array, as_bytes, refuse
from trainfeed.samples._presence import present_rows
from trainfeed.samples._schema import Field
from trainfeed.samples.statistics._byte_components import ByteComponents
from trainfeed.samples.statistics._component_limits import num_components
from trainfeed.samples.statistics._components import Components
from trainfeed.samples.statistics._numbers import BLOCK_VALUES, ByteNumbers, Numbers
from trainfeed.samples.statistics._statistics_entries import require_entries
from trainfeed.samples.statistics._text_statistics import Texts

__all__ = ["FieldStatistics"]

_Content: TypeAlias = Numbers | ByteNumbers | Texts | Components | ByteComponents


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
        self._content: _Content
        if sketches and components and num_components(field):
            self._content = _component_content(field, block_values)
        else:
            self._content = _plain_content(field, block_values, sketches=sketches)

    @property
    def has_components(self) -> bool:
        """Whether there are statistics of each component."""
        return isinstance(self._content, Components | ByteComponents)

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
            # Values of absent fields are arbitrary: only present rows count.
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
        mine, others = self._content, other._content
        if type(mine) is not type(others):
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


def _plain_content(field: Field, block_values: int, *, sketches: bool) -> _Content:
    if field.is_text:
        return Texts(sketches=sketches)
    # 256 possible values: exact counts are cheaper than sketches.
    if field.values_dtype.itemsize == 1:
        return ByteNumbers(field.values_dtype, sketches=sketches)
    top = not field.shape
    return Numbers(field.values_dtype, sketches=sketches, top=top, block_values=block_values)


def _component_content(field: Field, block_values: int) -> _Content:
    num = num_components(field)
    if field.values_dtype.itemsize == 1:
        return ByteComponents(field.values_dtype, num)
    return Components(field.values_dtype, num, block_rows=block_values)


def _without_components(content: _Content) -> _Content:
    return content.whole() if isinstance(content, Components | ByteComponents) else content
