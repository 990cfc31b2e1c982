"""The root of all errors, and the outcomes for a scheduler."""

from __future__ import annotations

from enum import Enum
from typing import ClassVar

__all__ = [
    "Outcome",
    "TrainFeedError",
]


class Outcome(Enum):
    """The advice to a scheduler about a task that raised."""

    RETRY = "retry"
    FAIL = "fail"


class TrainFeedError(Exception):
    """Root of the tree. The message says what, where, what was kept, and what to do.

    Cause: One of the errors below this class.
    Remedy: Follow the end of the message; this page has more for each class.
    See docs/reference/errors.md#trainfeederror
    """

    outcome: ClassVar[Outcome] = Outcome.FAIL
