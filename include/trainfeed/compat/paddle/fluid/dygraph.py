"""``fluid.dygraph``: checks of places; there is no graph to switch off."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from trainfeed.compat._framework import not_here
from trainfeed.compat.paddle.places import require_cpu

__all__ = ["enable_dygraph", "guard"]


@contextmanager
def guard(place: Any = None) -> Iterator[None]:
    """Check that the place of a block is the CPU; batches are never part of a graph.

    Raises:
        ConfigError: The place is not the CPU.
    """
    require_cpu(place)
    yield


def enable_dygraph(place: Any = None) -> None:
    """Check that the place of batches is the CPU.

    Raises:
        ConfigError: The place is not the CPU.
    """
    require_cpu(place)


__getattr__ = not_here("fluid.dygraph")
