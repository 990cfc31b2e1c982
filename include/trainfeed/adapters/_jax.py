"""Batches of JAX arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainfeed.adapters.passes import Batches, TensorBatches, framework
from trainfeed.errors import ConfigError, SampleShapeError

_jax = framework("jax")


class JaxBatches(TensorBatches):
    """Batches on a device.

    Args:
        loader: The loader, or another iterable of batches.
        device: A device, a sharding, or None.
        check_ranks: Whether rank and world size of the loader must equal those of the process.
    """

    where = "JAX"

    def __init__(self, loader: Batches, device: Any, *, check_ranks: bool) -> None:
        super().__init__(loader, check_ranks=check_ranks)
        self._device = device
        # A sharding over the devices of several processes: this process then gives only its part.
        self._global = getattr(device, "is_fully_addressable", True) is False

    def _ranks(self) -> tuple[int, int]:
        return _jax.process_index(), _jax.process_count()

    def _check(self) -> None:
        super()._check()
        if self._global:
            _refuse_uneven(self._loader)

    def _tensor(self, name: str, values: NDArray[Any]) -> Any:
        values = _narrowed(name, values)
        if self._global:
            return _jax.make_array_from_process_local_data(self._device, values)
        return _jax.device_put(values, self._device)


def _refuse_uneven(loader: Batches) -> None:
    """Refuse a loader whose last batch may have different lengths on different ranks.

    Raises:
        ConfigError: The last batch may be shorter on some ranks.
    """
    share: Any = getattr(loader, "share", None)
    tail: Any = getattr(loader, "tail", None)
    if share is not None and share.world_size > 1 and tail == "short":
        raise ConfigError(
            "expected as many rows on every process, because each gives its part of arrays of all"
            ' processes, got a loader with tail="short", whose last batch may have fewer on some:'
            " the processes would not agree on the shape; write"
            ' trainfeed.DataLoader(…, tail="drop"), or tail="pad" and leave out the rows that are'
            " not valid"
        )


def _narrowed(name: str, values: NDArray[Any]) -> NDArray[Any]:
    """Return 64-bit integers as 32 bits, as JAX would; refuse integers that do not fit."""
    if values.dtype.itemsize < 8 or values.dtype.kind not in "iu" or _jax.config.jax_enable_x64:
        return values
    narrow = values.astype(f"{values.dtype.kind}4")
    if not np.array_equal(narrow, values):
        raise SampleShapeError(
            f"field {name!r}: expected {values.dtype} values of at most 32 bits, because JAX runs"
            " without jax_enable_x64; set it, or let preprocessing give smaller numbers"
        )
    return narrow
