"""The outcome of one record: its predictions, or the reason why there is none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

__all__ = ["Counts", "Outcome", "OutcomeKind"]


class OutcomeKind(StrEnum):
    """What became of a record.

    Attributes:
        PREDICTED: The record has a prediction for each of its samples.
        FILTERED: The preprocessing function found that the record is good, but not wanted.
        REJECTED: The record is broken: it would have gone to quarantine.
        FAILED: The preprocessing function made a mistake at the record, or a prediction of the
            record is no finite number.
    """

    PREDICTED = "predicted"
    FILTERED = "filtered"
    REJECTED = "rejected"
    FAILED = "failed"


@dataclass(frozen=True)
class Outcome:
    """What became of one record.

    Attributes:
        kind: See ``OutcomeKind``.
        predictions: For each sample of the record, name → number, text, or nested lists of them.
        reason: Short code of the reason; empty for a prediction.
        message: The exact error, cut to 500 characters.
    """

    kind: OutcomeKind
    predictions: tuple[Mapping[str, Any], ...] = ()
    reason: str = ""
    message: str = ""

    @property
    def is_predicted(self) -> bool:
        """Whether there is a prediction."""
        return self.kind is OutcomeKind.PREDICTED

    def to_json(self, index: int) -> dict[str, Any]:
        """Return the row of a record.

        Args:
            index: Number of the record among those that were given, from 0 on.
        """
        if self.is_predicted:
            return {"index": index, "predictions": list(self.predictions)}
        told = {"message": self.message} if self.message else {}
        return {"index": index, self.kind.value: self.reason, **told}


@dataclass
class Counts:
    """How many records had which outcome.

    Attributes:
        kinds: Kind of outcome → number of records.
        reasons: ``kind: reason`` → number of records without a prediction.
        first_bad: Row of the first record without a prediction; None while there is none.
    """

    kinds: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    first_bad: Mapping[str, Any] | None = None

    def add(self, first_index: int, outcomes: Iterable[Outcome]) -> None:
        """Count outcomes of neighbouring records, the first of number ``first_index``."""
        for index, outcome in enumerate(outcomes, start=first_index):
            self.kinds[outcome.kind.value] += 1
            if not outcome.is_predicted:
                self.reasons[f"{outcome.kind.value}: {outcome.reason}"] += 1
                self.first_bad = self.first_bad or outcome.to_json(index)

    @property
    def num_bad(self) -> int:
        """Number of records without a prediction."""
        return self.kinds.total() - self.kinds[OutcomeKind.PREDICTED.value]

    def to_json(self) -> dict[str, Any]:
        """Return the counts as JSON values; every kind is there."""
        kinds = {kind.value: self.kinds[kind.value] for kind in OutcomeKind}
        return {
            "records": self.kinds.total(),
            **kinds,
            "reasons": dict(sorted(self.reasons.items())),
        }
