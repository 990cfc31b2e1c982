"""What damage may change without an error: the list of the sweep, each entry with its reason."""

from __future__ import annotations

from typing import Any, Final

__all__ = ["READINGS", "excepted_case", "excepted_reading"]

# Kind of file → why another answer of its readers is no fault.
READINGS: Final[dict[str, str]] = {}
# Kind of file, kinds of damage → why other answers of commands are no fault.
CASES: Final[dict[tuple[str, tuple[str, ...]], str]] = {}


def excepted_reading(kind: str) -> bool:
    """Whether readers of this kind may answer otherwise without an error."""
    return kind in READINGS


def excepted_case(case: Any, outcome: Any) -> bool:
    """Whether commands may answer otherwise after this damage."""
    return any(case.kind == kind and case.damage in damages for kind, damages in CASES)
