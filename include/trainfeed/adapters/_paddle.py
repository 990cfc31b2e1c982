"""Batches of Paddle tensors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from numpy.typing import NDArray

from trainfeed.adapters.passes import (
    Adapted,
    Batches,
    converted,
    dense,
    framework,
    hold_ranks,
    marks_padding,
)

_paddle = framework("paddle")


class PaddleBatches(Adapted):
    """Batches on the CPU.

    Args:
        loader: The loader, or another iterable of batches.
        check_ranks: Whether rank and world size of the loader must equal those of the process.
    """

    def __init__(self, loader: Batches, *, check_ranks: bool) -> None:
        super().__init__(loader)
        self._check_ranks = check_ranks

    def __iter__(self) -> Iterator[Any]:
        """Start a pass.

        Raises:
            ConfigError: The rank of the loader is not that of the process.
        """
        if self._check_ranks:
            ranks = _paddle.distributed.get_rank(), _paddle.distributed.get_world_size()
            hold_ranks(self._loader, *ranks, "paddle.distributed")
        marks = marks_padding(self._loader)
        for batch in self._pass():
            yield converted(batch, _tensor, marks=marks)


def _tensor(name: str, values: NDArray[Any]) -> Any:  # noqa: ARG001
    if values.dtype == object:
        return values.tolist()
    # DLPack shares the memory of the array; nothing is copied.
    return _paddle.from_dlpack(dense(values))
