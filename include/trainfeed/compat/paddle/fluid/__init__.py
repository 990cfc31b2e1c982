"""``paddle.fluid``: loaders, feeders, and the calls with which PLSC's networks are written.

The layers work inside of ``build_network`` of a model of ``trainfeed.compat.plsc``, and need
PaddlePaddle; nothing else here does.
"""

from __future__ import annotations

from trainfeed.compat._framework import not_here
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

__getattr__ = not_here("fluid")
