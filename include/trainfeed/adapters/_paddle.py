"""Batches of Paddle tensors."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from trainfeed.adapters.passes import TensorBatches, dense, framework

_paddle = framework("paddle")


class PaddleBatches(TensorBatches):
    """Batches on the CPU."""

    where = "paddle.distributed"

    def _ranks(self) -> tuple[int, int]:
        return _paddle.distributed.get_rank(), _paddle.distributed.get_world_size()

    def _tensor(self, name: str, values: NDArray[Any]) -> Any:  # noqa: ARG002
        # DLPack shares the memory of the array; nothing is copied.
        return _paddle.from_dlpack(dense(values))
