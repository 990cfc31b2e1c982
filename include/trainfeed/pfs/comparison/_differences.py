"""The differences that a comparison has found."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["Comparison", "Difference"]


@dataclass(frozen=True)
class Difference:
    """One name at which two contents differ.

    Attributes:
        name: The name below the folder; empty if two files were compared.
        what: What was expected and what was found.
    """

    name: str
    what: str


@dataclass(frozen=True)
class Comparison:
    """The result of a comparison.

    Attributes:
        files: Number of files whose bytes were compared.
        num_bytes: Sum of their sizes on one side.
        differences: Where the contents differ; empty if they are equal.
    """

    files: int
    num_bytes: int
    differences: tuple[Difference, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return {**asdict(self), "differences": [asdict(each) for each in self.differences]}
