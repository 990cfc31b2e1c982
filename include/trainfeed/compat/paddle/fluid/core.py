"""``fluid.core``: the error that ends a pass."""

from __future__ import annotations

from trainfeed.compat._framework import not_here
from trainfeed.compat.paddle.places import CPUPlace, CUDAPlace
from trainfeed.errors import PassEndedError as EOFException

__all__ = ["CPUPlace", "CUDAPlace", "EOFException"]

__getattr__ = not_here("fluid.core")
