"""Batches of Paddle tensors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from numpy.typing import NDArray

from trainfeed.adapters._batches import Batches, dense, framework, plain_columns

__all__ = ["PaddleBatches"]

_paddle = framework("paddle")


class PaddleBatches:
    """Batches on the CPU.

    Args:
        loader: What yields the batches.
    """

    def __init__(self, loader: Batches) -> None:
        self._loader = loader

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Start a pass."""
        for columns in plain_columns(self._loader):
            yield {name: _tensor(values) for name, values in columns}


def _tensor(values: NDArray[Any]) -> Any:
    if values.dtype == object:
        return values.tolist()
    return _paddle.from_dlpack(dense(values))
