"""The part ``quality`` of a specification: gates that an interval has to pass.

Gates do not enter the fingerprint: they decide whether a result is published, not what it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, TypeAlias

from pydantic import Field

from trainfeed.specification.quality._count_checks import (
    CountCheck,
    LateRatioCheck,
    QuarantineRatioCheck,
    ShardSkewCheck,
)
from trainfeed.specification.quality._drift_check import DriftCheck, DriftFloors
from trainfeed.specification.quality._earlier_checks import (
    RelativeCountCheck,
    SchemaEvolutionCheck,
)
from trainfeed.specification.quality._field_rules import quality_contradictions
from trainfeed.specification.quality._gate_words import (
    Gate,
    gate_limits,
    gate_name,
    shown_number,
)
from trainfeed.specification.quality._quality_check import Severity
from trainfeed.specification.quality._value_checks import (
    AcceptedValuesCheck,
    NullRatioCheck,
    RangeCheck,
    ShareCheck,
    UniqueCheck,
)

__all__ = [
    "AcceptedValuesCheck",
    "CountCheck",
    "DriftCheck",
    "DriftFloors",
    "Gate",
    "LateRatioCheck",
    "NullRatioCheck",
    "QualityCheck",
    "QuarantineRatioCheck",
    "RangeCheck",
    "RelativeCountCheck",
    "SchemaEvolutionCheck",
    "Severity",
    "ShardSkewCheck",
    "ShareCheck",
    "UniqueCheck",
    "earlier_versions",
    "gate_limits",
    "gate_name",
    "quality_contradictions",
    "shown_number",
]

QualityCheck: TypeAlias = Annotated[
    QuarantineRatioCheck
    | CountCheck
    | LateRatioCheck
    | NullRatioCheck
    | RangeCheck
    | UniqueCheck
    | AcceptedValuesCheck
    | ShareCheck
    | RelativeCountCheck
    | SchemaEvolutionCheck
    | ShardSkewCheck
    | DriftCheck,
    Field(discriminator="check"),
]


def earlier_versions(checks: Iterable[QualityCheck]) -> int:
    """Return how many earlier versions a build needs: at least 1, for changes of the schema."""
    return max((1, *(check.earlier_versions for check in checks)))
