"""``fluid.core``: the error that ends a pass."""

from __future__ import annotations

from typing import NoReturn

from trainfeed.compat.paddle.fluid.places import CPUPlace, CUDAPlace
from trainfeed.errors import PassEndedError as EOFException

__all__ = ["CPUPlace", "CUDAPlace", "EOFException"]


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(
        f"fluid.core.{name} is not here: trainfeed reads data and builds no network; import it"
        " from PaddlePaddle, or train with another library"
    )
