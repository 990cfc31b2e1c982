"""``paddle.fluid``: loaders and feeders, without the parts that build networks."""

from __future__ import annotations

from typing import NoReturn

from trainfeed.compat.paddle.fluid import core, dygraph, io
from trainfeed.compat.paddle.fluid.data_feeder import DataFeeder
from trainfeed.compat.paddle.places import CPUPlace, CUDAPlace

__all__ = ["CPUPlace", "CUDAPlace", "DataFeeder", "core", "dygraph", "io"]


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(
        f"fluid.{name} is not here: trainfeed reads data and builds no network; import it from"
        " PaddlePaddle, or train with another library"
    )
