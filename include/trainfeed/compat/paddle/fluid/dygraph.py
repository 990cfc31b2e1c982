"""``fluid.dygraph``: accepted for old scripts; only checks that the place is the CPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from trainfeed.compat._framework import not_here
from trainfeed.compat.paddle.places import require_cpu

__all__ = ["enable_dygraph", "guard"]


@contextmanager
def guard(place: Any = None) -> Iterator[None]:
    """Do nothing in a ``with`` block but check that the place is the CPU.

    There is no static graph here, so there is no mode to switch.

    Raises:
        ConfigError: The place is not the CPU; raised at the beginning of the block.
    """
    require_cpu(place)
    yield


def enable_dygraph(place: Any = None) -> None:
    """Check that the place of batches is the CPU, and change nothing else.

    Raises:
        ConfigError: The place is not the CPU.
    """
    require_cpu(place)


__getattr__ = not_here("fluid.dygraph")
