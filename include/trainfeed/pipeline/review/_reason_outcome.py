"""The report of a preview of quarantined records, by the reason that they have now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from trainfeed.pipeline._ref import JsonObject

__all__ = ["QuarantinePreview", "ReasonOutcome"]


@dataclass
class ReasonOutcome:
    """What the function of today makes of the records with one reason.

    Attributes:
        reason: The reason in the quarantine.
        records: Number of records that the function got.
        valid: Number of those that would give samples.
        quarantined: New reason → number of records that would be quarantined again.
        samples: The first samples, each with the position of its record; long values are cut.
        errors: The first records that would be quarantined again: position, reason and message.
    """

    reason: str
    records: int = 0
    valid: int = 0
    quarantined: dict[str, int] = field(default_factory=dict)
    samples: list[JsonObject] = field(default_factory=list)
    errors: list[JsonObject] = field(default_factory=list)

    @property
    def filtered(self) -> int:
        """Number of records that would be filtered, or give no sample."""
        return self.records - self.valid - sum(self.quarantined.values())

    def to_json(self) -> JsonObject:
        """Return the JSON that commands print."""
        return {
            "reason": self.reason,
            "records": self.records,
            "valid": self.valid,
            "filtered": self.filtered,
            "quarantined": self.quarantined,
            "samples": self.samples,
            "errors": self.errors,
        }


@dataclass(frozen=True)
class QuarantinePreview:
    """What the function of today makes of the quarantined records of one build.

    Attributes:
        dataset: Name of the data set.
        interval: Name of the interval.
        origin: The generation, or id of the plan that is not published.
        is_published: Whether ``origin`` is a generation.
        quarantined: Number of records in the quarantine.
        outcomes: By reason in the quarantine, the most frequent first.
        filtered: Reason → number of records that would be filtered, over all reasons.
        left_out: Records that the function did not get, because only their beginning is kept.
        notes: What a person must know to read the numbers.
        seconds: Duration.
    """

    dataset: str
    interval: str
    origin: str
    is_published: bool
    quarantined: int
    outcomes: Sequence[ReasonOutcome]
    filtered: dict[str, int]
    left_out: int
    notes: Sequence[str]
    seconds: float

    @property
    def valid(self) -> int:
        """Number of records that would give samples."""
        return sum(outcome.valid for outcome in self.outcomes)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON that commands print."""
        return {
            "dataset": self.dataset,
            "interval": self.interval,
            "generation" if self.is_published else "plan": self.origin,
            "published": self.is_published,
            "quarantined": self.quarantined,
            "previewed": sum(outcome.records for outcome in self.outcomes),
            "left_out": self.left_out,
            "valid": self.valid,
            "filtered": self.filtered,
            "reasons": [outcome.to_json() for outcome in self.outcomes],
            "notes": list(self.notes),
            "seconds": self.seconds,
        }
