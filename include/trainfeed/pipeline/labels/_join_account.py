"""The account of a join: samples with and without a label, and labels with and without a sample."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["JoinAccount", "JoinCounts"]


@dataclass(frozen=True)
class JoinCounts:
    """Samples that met the labels of their interval.

    Attributes:
        matched: Number of samples whose key an upload has.
        unmatched: Number of other samples; an inner join leaves them out.
    """

    matched: int = 0
    unmatched: int = 0

    def __add__(self, other: JoinCounts) -> JoinCounts:
        return JoinCounts(self.matched + other.matched, self.unmatched + other.unmatched)

    def to_json(self) -> dict[str, int]:
        """Return the counts as JSON."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, int]) -> JoinCounts:
        """Read the JSON of ``to_json``.

        Raises:
            TypeError: A value is no whole number, or a name is unknown.
        """
        if not all(type(count) is int for count in value.values()):
            raise TypeError(f"expected counts of joined samples, got {value!r}")
        return cls(**value)


@dataclass(frozen=True)
class JoinAccount:
    """The join of all samples of an interval with its labels.

    Attributes:
        samples: The samples.
        rows: Number of rows in the uploads of the interval.
        repeated: Number of rows that stand again in one upload, with equal labels.
        superseded: Number of rows whose key stands in a newer upload.
        used: Number of labels that a sample got.
        unused: Number of labels whose key no sample has.
    """

    samples: JoinCounts
    rows: int
    repeated: int
    superseded: int
    used: int
    unused: int

    def imbalances(self, valid_samples: int, join: str) -> list[str]:
        """Return one line per sum that does not hold.

        Args:
            valid_samples: Number of samples of the version.
            join: ``inner`` or ``left``.
        """
        kept = self.samples.matched + (self.samples.unmatched if join == "left" else 0)
        rows = self.repeated + self.superseded + self.used + self.unused
        lines = []
        if kept != valid_samples:
            lines.append(f"the join kept {kept} samples, the version has {valid_samples}")
        if rows != self.rows:
            lines.append(f"the uploads have {self.rows} rows, {rows} are accounted for")
        return lines

    def to_json(self) -> dict[str, Any]:
        """Return the account as the manifest has it, without the uploads."""
        labels = {
            name: getattr(self, name)
            for name in ("rows", "repeated", "superseded", "used", "unused")
        }
        return {"samples": self.samples.to_json(), "labels": labels}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> JoinAccount:
        """Read the JSON of ``to_json``.

        Raises:
            KeyError: A key is missing.
            TypeError: A count is no whole number, or a name is unknown.
        """
        labels = value["labels"]
        if not all(type(count) is int for count in labels.values()):
            raise TypeError(f"expected counts of labels, got {labels!r}")
        return cls(JoinCounts.from_json(value["samples"]), **labels)
