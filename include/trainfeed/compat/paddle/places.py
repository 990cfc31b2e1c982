"""Where batches are wanted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from trainfeed.errors import ConfigError

__all__ = ["CPUPlace", "CUDAPlace", "count_cpus", "require_cpu"]


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
    # Paddle writes its own Place(cpu).
    if place is not None and "cpu" not in str(place).lower():
        raise ConfigError(
            f"expected the CPU as place, got {place}; batches are made in main memory, copy them"
            " to the device in the training step"
        )


def count_cpus(places: Any) -> int:
    """Return how many places are wanted; one where nobody says.

    Raises:
        ConfigError: One of them is not the CPU, or there is none.
    """
    found = places if isinstance(places, list | tuple) else [places]
    for place in found:
        require_cpu(place)
    if not found:
        raise ConfigError("expected at least one place, got an empty list")
    return len(found)
