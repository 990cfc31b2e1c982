"""``fluid.dygraph``: where batches are wanted; there is no graph to switch off."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from trainfeed.compat.paddle.places import require_cpu

__all__ = ["enable_dygraph", "guard"]


@contextmanager
def guard(place: Any = None) -> Iterator[None]:
    """Check the place at which a block wants its batches; they are never part of a graph.

    Raises:
        ConfigError: It is not the CPU.
    """
    require_cpu(place)
    yield


def enable_dygraph(place: Any = None) -> None:
    """Check the place at which batches are wanted.

    Raises:
        ConfigError: It is not the CPU.
    """
    require_cpu(place)


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(
        f"fluid.dygraph.{name} is not here: trainfeed reads data and builds no network; import it"
        " from PaddlePaddle, or train with another library"
    )
