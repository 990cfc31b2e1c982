"""Where batches are wanted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from trainfeed.errors import ConfigError

__all__ = ["CPUPlace", "CUDAPlace", "require_cpu"]


@dataclass(frozen=True)
class CPUPlace:
    """Main memory; where all batches are."""

    def __str__(self) -> str:
        return "Place(cpu)"


@dataclass(frozen=True)
class CUDAPlace:
    """A GPU. It can be named; loaders refuse it, because they copy nothing to devices.

    Attributes:
        device_id: Which one.
    """

    device_id: int = 0

    def __str__(self) -> str:
        return f"Place(gpu:{self.device_id})"


def require_cpu(place: Any) -> None:
    """Raise unless a place is the CPU, or none is named.

    Raises:
        ConfigError: It is another one.
    """
    if place is not None and not isinstance(place, CPUPlace):
        raise ConfigError(
            f"expected the CPU as place, got {place}; batches are made in main memory, copy them"
            " to the device in the training step"
        )
