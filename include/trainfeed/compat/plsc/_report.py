"""The result of a training, a test or a prediction of an ``Entry``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

__all__ = ["Report"]


@dataclass(frozen=True)
class Report:
    """The result of a training, a test or a prediction.

    Attributes:
        epochs: Passes over the training data that this call trained.
        steps: Steps that this call trained.
        losses: The loss of each of these steps.
        accuracies: Name of a test set → accuracy, from 0 to 1, of the last test.
        checkpoint: Folder of the newest checkpoint; None if none was saved.
        embeddings: Of a prediction: float32 of shape ``(n, emb_dim)``; None otherwise.
    """

    epochs: int = 0
    steps: int = 0
    losses: tuple[float, ...] = ()
    accuracies: Mapping[str, float] = field(default_factory=dict)
    checkpoint: Path | None = None
    embeddings: NDArray[Any] | None = None
