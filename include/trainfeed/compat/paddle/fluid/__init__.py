"""``paddle.fluid``: loaders, feeders, and the calls with which PLSC's networks are written.

The layers work inside of ``build_network`` of a model of ``trainfeed.compat.plsc``, and need
PaddlePaddle; nothing else here does.
"""

from __future__ import annotations

from typing import NoReturn

from trainfeed.compat.paddle.fluid import (
    core,
    dygraph,
    initializer,
    io,
    layers,
    optimizer,
    param_attr,
    regularizer,
)
from trainfeed.compat.paddle.fluid.data_feeder import DataFeeder
from trainfeed.compat.paddle.fluid.network import Network
from trainfeed.compat.paddle.fluid.param_attr import ParamAttr
from trainfeed.compat.paddle.places import CPUPlace, CUDAPlace

__all__ = [
    "CPUPlace",
    "CUDAPlace",
    "DataFeeder",
    "Network",
    "ParamAttr",
    "core",
    "dygraph",
    "initializer",
    "io",
    "layers",
    "optimizer",
    "param_attr",
    "regularizer",
]


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(
        f"fluid.{name} is not here: trainfeed reads data and builds no network beside those of"
        " trainfeed.compat.plsc; import it from PaddlePaddle, or train with another library"
    )
