"""Training jobs: one per (data set, interval, contents, configuration), launched at most once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainfeed.training._job import TrainingJob

__all__ = ["TrainingJob"]


def __getattr__(name: str) -> Any:
    # A rank imports this package before it is tied to its launcher: nothing slow may come first.
    if name == "TrainingJob":
        from trainfeed.training._job import TrainingJob

        return TrainingJob
    raise AttributeError(f"module 'trainfeed.training' has no attribute {name!r}")
