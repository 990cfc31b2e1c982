"""The options that all gates have in common."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from trainfeed.specification._spec_values import Number, Part, WrongValueError

__all__ = ["Check", "Ratio", "Severity", "require_range"]

Ratio = Annotated[Number, Field(ge=0, le=1)]
Severity: TypeAlias = Literal["block", "warn", "ask"]


class Check(Part):
    """The fields that all checks have.

    Attributes:
        check: Name of the check.
        severity: What a failure does: ``block`` publication, ``warn`` only, or ``ask``, which
            blocks until somebody approves it.
        field: The field of the schema that the check is about.
        min: The least allowed value.
        max: The largest allowed value.
    """

    severity: Severity = "block"

    @property
    def earlier_versions(self) -> int:
        """Number of earlier intervals whose versions the check compares with."""
        return 0


def require_range(low: float | None, high: float | None) -> None:
    """Refuse limits that allow everything or nothing."""
    if low is None and high is None:
        raise WrongValueError("min, max or both, got neither", shows_got=False)
    if low is not None and high is not None and low > high:
        raise WrongValueError(f"min at most max, got {low} and {high}", shows_got=False)
