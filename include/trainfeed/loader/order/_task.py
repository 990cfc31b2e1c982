"""The request to load a window: all its samples, or every n-th of them."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Task"]


class Task(NamedTuple):
    """A window to load.

    Attributes:
        child: Number of the set within a mixture, 0 otherwise.
        epoch: Number of the epoch.
        lane: Number of the lane.
        window: Number of the window in the lane.
        first: Number in the window of the first sample to load.
        stride: Distance between the samples to load; 1 loads all of them.
        need: The position at which the first sample is needed.
    """

    child: int
    epoch: int
    lane: int
    window: int
    first: int
    stride: int
    need: int
