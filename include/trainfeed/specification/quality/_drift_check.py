"""Options of the gate ``drift``."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from trainfeed.specification._spec_values import Number, Part, Text
from trainfeed.specification.quality._quality_check import Check, Severity

__all__ = ["DriftCheck", "DriftFloors"]

_MOST_VERSIONS: Final = 30
_LEAST_HISTORY: Final = 14
_MOST_NAMES: Final = 1024
_Distance = Annotated[Number, Field(ge=0)]
_Names = Annotated[tuple[Text, ...], Field(min_length=1, max_length=_MOST_NAMES)]


class DriftFloors(Part):
    """The least limits of a gate ``drift``: smaller distances are never beyond one.

    Attributes:
        absent: Of the difference of the share of samples without a value, or with NaN or infinity.
        psi: Of the population stability index.
        ks: Of the largest difference of the shares below any number.
        mean: Of the difference of the means, in standard deviations.
    """

    absent: _Distance = 0.01
    psi: _Distance = 0.05
    ks: _Distance = 0.05
    mean: _Distance = 0.15


class DriftCheck(Check):
    """The distributions of fields and components are like those of earlier versions.

    A limit is ``factor`` times the 99 % quantile of the earlier distances of the same field or
    component, at least its floor. There is none before the data set has 14 versions.

    Attributes:
        severity: What a failure does.
        fields: Fields, and components as ``values[3]``; by default all.
        ignore: Fields and components that are left out, such as those that hold a date.
        reference: Number of earlier versions that together are compared with.
        history: Number of earlier versions whose distances make the limits.
        factor: See above.
        floor: The least limits, by measure.
    """

    check: Literal["drift"]
    severity: Severity = "warn"
    fields: _Names | None = None
    ignore: _Names | None = None
    reference: Annotated[int, Field(ge=1, le=_MOST_VERSIONS)] = 7
    history: Annotated[int, Field(ge=_LEAST_HISTORY, le=_MOST_VERSIONS)] = _MOST_VERSIONS
    factor: Annotated[Number, Field(ge=1)] = 1.5
    floor: DriftFloors = DriftFloors()

    @property
    def earlier_versions(self) -> int:
        """Number of earlier intervals whose versions the check compares with."""
        return max(self.reference, self.history)
