"""Bounded repetitions of a call to a store that may answer again soon."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeVar

from trainfeed.errors import CommitUnknownError, FileReplacedError, Outcome, StorageError

__all__ = ["Patience"]

T = TypeVar("T")

logger = logging.getLogger(__name__)

# The caller has to look at the store, or to begin with another file, before it calls again.
_NOT_AGAIN: Final = (CommitUnknownError, FileReplacedError)


def _pause(seconds: float) -> None:
    threading.Event().wait(seconds)


@dataclass(frozen=True)
class Patience:
    """How often a call is made, and the pauses between.

    Only errors that may pass are met by another call; all others are raised at once.

    Attributes:
        calls: Largest number of calls, at least 1.
        first_pause_s: Seconds before the second call; every further pause is twice as long.
        pause: Called with the seconds to wait.
    """

    calls: int = 5
    first_pause_s: float = 0.5
    pause: Callable[[float], object] = field(default=_pause, repr=False)

    def call(self, function: Callable[[], T]) -> T:
        """Return the value of ``function``, called until it succeeds or patience ends.

        Raises:
            TrainFeedError: The error of the last call.
        """
        for number in range(1, self.calls):
            try:
                return function()
            except StorageError as error:
                if error.outcome is not Outcome.RETRY or isinstance(error, _NOT_AGAIN):
                    raise
                pause_s = self.first_pause_s * 2 ** (number - 1)
                logger.warning("call %d of %d failed: %s", number, self.calls, error)
            self.pause(pause_s)
        return function()
