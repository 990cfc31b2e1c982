"""Batches of JAX arrays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainfeed.adapters._batches import Batches, framework, plain_columns
from trainfeed.errors import SampleShapeError

__all__ = ["JaxBatches"]

_jax = framework("jax")


class JaxBatches:
    """Batches on a device.

    Args:
        loader: What yields the batches.
        device: A device, a sharding, or None.
    """

    def __init__(self, loader: Batches, device: Any) -> None:
        self._loader = loader
        self._device = device

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Start a pass."""
        for columns in plain_columns(self._loader):
            yield {name: self._put(name, values) for name, values in columns}

    def _put(self, name: str, values: NDArray[Any]) -> Any:
        if values.dtype == object:
            return values.tolist()
        return _jax.device_put(_narrowed(name, values), self._device)


def _narrowed(name: str, values: NDArray[Any]) -> NDArray[Any]:
    """Return 64-bit integers as the 32 bits that JAX makes of them, unless they do not fit."""
    if values.dtype.itemsize < 8 or values.dtype.kind not in "iu" or _jax.config.jax_enable_x64:
        return values
    narrow = values.astype(f"{values.dtype.kind}4")
    if not np.array_equal(narrow, values):
        raise SampleShapeError(
            f"field {name!r}: expected {values.dtype} values of at most 32 bits, because JAX runs"
            " without jax_enable_x64; set it, or let preprocessing give smaller numbers"
        )
    return narrow
