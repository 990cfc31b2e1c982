"""What is asked of whatever loads windows: one window, or every n-th sample of it."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Task"]


class Task(NamedTuple):
    """A window to load.

    Attributes:
        child: Number of the set within a mixture, 0 otherwise.
        epoch: Its epoch.
        lane: Its lane.
        window: Its number in the lane.
        first: Which of its samples comes first, counted in the window.
        stride: Every how many of them are wanted.
        need: The position at which the first of them is needed.
    """

    child: int
    epoch: int
    lane: int
    window: int
    first: int
    stride: int
    need: int
