"""Limits for distances, from the distances that the data set itself had before.

A fixed limit is wrong for almost every field: weekdays, weather and seasons move some fields by far
more every day than a fault moves others.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from trainfeed.drift._distances import Distance
from trainfeed.errors import FormatError

__all__ = [
    "LEAST_VERSIONS",
    "DriftRule",
    "Judged",
    "Judgement",
    "judge",
    "judgement_from_json",
    "judgement_to_json",
]

# There are no limits before a data set has as many versions.
LEAST_VERSIONS: Final = 14
_QUANTILE: Final = 0.99
_FLOORS: Final = {"absent": 0.01, "psi": 0.05, "ks": 0.05, "mean": 0.15}


@dataclass(frozen=True)
class DriftRule:
    """How distances are measured and limited.

    Attributes:
        reference: Number of earlier versions that together are the reference.
        history: Number of earlier versions whose distances make the limit.
        factor: The limit is this number times the 99 % quantile of the distances …
        floors: … and at least as large as this, by measure.
    """

    reference: int = 7
    history: int = 30
    factor: float = 1.5
    floors: Mapping[str, float] = field(default_factory=lambda: dict(_FLOORS))


@dataclass(frozen=True)
class Judged:
    """A distance and its limit.

    Attributes:
        distance: The distance.
        limit: Its limit; None if there were too few versions for one.
    """

    distance: float
    limit: float | None

    @property
    def is_beyond(self) -> bool:
        """Whether the distance exceeds its limit."""
        return self.limit is not None and self.distance > self.limit

    @property
    def excess(self) -> float:
        """The distance as a multiple of its limit; 0 without a limit."""
        return self.distance / self.limit if self.limit else 0.0

    @property
    def counted(self) -> float:
        """The distance as a part of later limits: at most the limit that it had.

        So a fault raises later limits by the factor, and does not hide other faults for a month.
        """
        return self.distance if self.limit is None else min(self.distance, self.limit)


# Field or component → measure → distance with its limit.
Judgement: TypeAlias = Mapping[str, Mapping[str, Judged]]


def judge(
    measured: Mapping[str, Mapping[str, Distance]], history: Sequence[Judgement], rule: DriftRule
) -> dict[str, dict[str, Judged]]:
    """Return the limits of distances.

    Args:
        measured: Field or component → measure → distance.
        history: The judgements of earlier versions, in any order.
        rule: The rule.
    """
    return {
        part: {
            measure: _judged(measure, distance, _counted(part, measure, history), rule)
            for measure, distance in found.items()
        }
        for part, found in measured.items()
    }


def judgement_to_json(judgement: Judgement) -> dict[str, dict[str, list[float | None]]]:
    """Return ``{field or component: {measure: [distance, limit or None]}}``."""
    return {
        part: {measure: [each.distance, each.limit] for measure, each in found.items()}
        for part, found in judgement.items()
    }


def judgement_from_json(value: Any) -> dict[str, dict[str, Judged]]:
    """Return the judgement that ``judgement_to_json`` gave.

    Raises:
        FormatError: ``value`` is no such JSON.
    """
    try:
        return {
            str(part): {str(measure): _entry(*each) for measure, each in found.items()}
            for part, found in value.items()
        }
    except (AttributeError, TypeError, ValueError) as error:
        raise FormatError(f"expected distances of drift, got {str(value)[:200]}") from error


def _judged(measure: str, distance: Distance, earlier: Sequence[float], rule: DriftRule) -> Judged:
    limit = None
    # The first version of a data set has no distance.
    if len(earlier) >= LEAST_VERSIONS - 1:
        usual = sorted(earlier)[math.ceil(_QUANTILE * len(earlier)) - 1]
        limit = _rounded(max(rule.floors[measure], rule.factor * usual, distance.chance))
    return Judged(_rounded(distance.distance), limit)


def _counted(part: str, measure: str, history: Iterable[Judgement]) -> list[float]:
    found = (each[part].get(measure) for each in history if part in each)
    return [judged.counted for judged in found if judged is not None]


def _rounded(number: float) -> float:
    """Return six digits of a number: more mean nothing, and a manifest holds many."""
    return float(f"{number:.6g}")


def _entry(distance: Any, limit: Any) -> Judged:
    numbers = [distance] if limit is None else [distance, limit]
    if not all(type(each) in {int, float} and math.isfinite(each) for each in numbers):
        raise ValueError(f"expected two numbers, got {distance!r} and {limit!r}")
    return Judged(distance, limit)
