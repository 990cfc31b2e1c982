"""Options of gates on the values of fields."""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias

from pydantic import Field, model_validator

from trainfeed.specification._spec_values import FieldName, Name, Number, Text, WrongValueError
from trainfeed.specification.quality._quality_check import Check, Ratio, require_range

__all__ = [
    "AcceptedValuesCheck",
    "NullRatioCheck",
    "RangeCheck",
    "ShareCheck",
    "UniqueCheck",
]

# A scalar of YAML that a field without a shape may hold; strict, so that true is not 1.
Scalar: TypeAlias = bool | int | Annotated[str, Field(max_length=1000)]
_MOST_VALUES: Final = 1000


class NullRatioCheck(Check):
    """An optional ``field`` is absent in at most ``max`` of the samples."""

    check: Literal["null_ratio"]
    field: FieldName
    max: Ratio


class RangeCheck(Check):
    """Every value of a numeric ``field`` lies in [min, max]."""

    check: Literal["range"]
    field: FieldName
    min: Number | None = None
    max: Number | None = None

    @model_validator(mode="after")
    def _has_a_range(self) -> RangeCheck:
        require_range(self.min, self.max)
        return self


class UniqueCheck(Check):
    """No two samples have equal values in all fields of ``by``, over all splits.

    Attributes:
        by: Fields that together are the key of a sample.
        max: Largest allowed number of samples whose key an earlier sample has.
    """

    check: Literal["unique"]
    by: Annotated[tuple[FieldName, ...], Field(min_length=1, max_length=32)]
    max: Annotated[int, Field(ge=0)] = 0


class AcceptedValuesCheck(Check):
    """A scalar ``field`` has only values of a list, or only values of a lookup.

    Attributes:
        values: The accepted values: whole numbers, texts, true or false.
        lookup: Name of a lookup with the accepted values.
        column: Column of the lookup; the first one by default.
        max: Largest allowed share of samples with another value. Samples that lack the field do
            not count as such.
    """

    check: Literal["accepted_values"]
    field: FieldName
    values: Annotated[tuple[Scalar, ...], Field(min_length=1, max_length=_MOST_VALUES)] | None = (
        None
    )
    lookup: Name | None = None
    column: Annotated[Text, Field(max_length=1000)] | None = None
    max: Ratio = 0

    @model_validator(mode="after")
    def _has_one_set(self) -> AcceptedValuesCheck:
        if (self.values is None) == (self.lookup is None):
            raise WrongValueError("either values or lookup", shows_got=False)
        return self


class ShareCheck(Check):
    """The share of samples whose scalar ``field`` is ``equals`` lies in [min, max].

    Attributes:
        equals: A whole number, a text, true or false.
    """

    check: Literal["share"]
    field: FieldName
    equals: Scalar
    min: Ratio | None = None
    max: Ratio | None = None

    @model_validator(mode="after")
    def _has_a_range(self) -> ShareCheck:
        require_range(self.min, self.max)
        return self
