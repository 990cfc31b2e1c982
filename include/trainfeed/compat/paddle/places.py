"""Places: the devices for which batches are made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from trainfeed.errors import ConfigError

__all__ = ["CPUPlace", "CUDAPlace", "count_cpus", "require_cpu"]


@dataclass(frozen=True)
class CPUPlace:
    """Main memory, where all batches are."""

    def __str__(self) -> str:
        return "Place(cpu)"


@dataclass(frozen=True)
class CUDAPlace:
    """A GPU. Loaders refuse this place, because they copy nothing to devices.

    Attributes:
        device_id: Number of the GPU.
    """

    device_id: int = 0

    def __str__(self) -> str:
        return f"Place(gpu:{self.device_id})"


def require_cpu(place: Any) -> None:
    """Raise unless ``place`` is the CPU or None.

    Raises:
        ConfigError: The place is another device.
    """
    # The text of Paddle's own CPU place is "Place(cpu)".
    if place is not None and "cpu" not in str(place).lower():
        raise ConfigError(
            f"expected the CPU as place, got {place}; batches are made in main memory, copy them"
            " to the device in the training step"
        )


def count_cpus(places: Any, *, is_fed: bool) -> int:
    """Return the number of places; 1 for None.

    Args:
        places: A place, or a list of places.
        is_fed: Whether a ``feed_list`` names the columns, which several places need.

    Raises:
        ConfigError: A place is not the CPU, or the list is empty, or there are several places
            without a ``feed_list``.
    """
    found = places if isinstance(places, list | tuple) else [places]
    for place in found:
        require_cpu(place)
    if not found:
        raise ConfigError("expected at least one place, got an empty list")
    if len(found) > 1 and not is_fed:
        raise ConfigError(
            f"expected one place without a feed_list, got {len(found)}; start one process per"
            " device"
        )
    return len(found)
