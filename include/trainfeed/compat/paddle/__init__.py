"""The reading half of PaddlePaddle 1.x under its names, for code that changes its import only.

Readers, decorators, batches, loaders, conversion and the files of MNIST are here, with trainfeed's
behaviour: no hangs, no lost samples, original exceptions. What builds or trains a network is not:
its names raise an AttributeError that says so.
"""

from __future__ import annotations

from typing import NoReturn

from trainfeed.compat.paddle import dataset, fluid, reader
from trainfeed.decorators import batch

__all__ = ["batch", "dataset", "fluid", "reader"]


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(
        f"paddle.{name} is not here: trainfeed reads data and builds no network; import it from"
        " PaddlePaddle, or train with another library"
    )
