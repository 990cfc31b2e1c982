"""Options of gates that compare with the versions of earlier intervals."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final, Literal, TypeAlias

from pydantic import Field, model_validator

from trainfeed.specification._spec_values import Number
from trainfeed.specification.quality._quality_check import Check, require_range

__all__ = ["RelativeCountCheck", "SchemaEvolutionCheck"]

Action: TypeAlias = Literal["allow", "warn", "block"]
_MOST_VERSIONS: Final = 30


class RelativeCountCheck(Check):
    """The count, divided by the median count of earlier versions, lies in [min, max].

    Attributes:
        of: What is counted: samples, or the records that were read.
        versions: Number of earlier intervals whose versions are compared with.
    """

    check: Literal["relative_count"]
    of: Literal["samples", "records"] = "samples"
    versions: Annotated[int, Field(ge=1, le=_MOST_VERSIONS)] = 1
    min: Annotated[Number, Field(ge=0)] | None = None
    max: Annotated[Number, Field(ge=0)] | None = None

    @model_validator(mode="after")
    def _has_a_range(self) -> RelativeCountCheck:
        require_range(self.min, self.max)
        return self

    @property
    def earlier_versions(self) -> int:
        """Number of earlier intervals whose versions the check compares with."""
        return self.versions


class SchemaEvolutionCheck(Check):
    """What changes of the schema since the version of the interval before may do.

    Attributes:
        severity: What a change of an action ``block`` does.
        added_optional: A new field that samples may lack.
        added_required: A new field that every sample has.
        removed: A field that is gone.
        widened: A type that holds all values of the one before, as int64 after int32.
        narrowed: A type that holds some values of the one before only, as int32 after int64.
        incompatible: Any other type.
        shape: Another shape.
        made_optional: Samples may now lack the field.
        made_required: Every sample now has the field.
    """

    CHANGES: ClassVar[tuple[str, ...]] = (
        "added_optional",
        "added_required",
        "removed",
        "widened",
        "narrowed",
        "incompatible",
        "shape",
        "made_optional",
        "made_required",
    )

    check: Literal["schema_evolution"]
    added_optional: Action = "allow"
    added_required: Action = "warn"
    removed: Action = "warn"
    widened: Action = "allow"
    narrowed: Action = "warn"
    incompatible: Action = "block"
    shape: Action = "block"
    made_optional: Action = "warn"
    made_required: Action = "allow"

    @property
    def earlier_versions(self) -> int:
        """Number of earlier intervals whose versions the check compares with."""
        return 1
