"""Calls within a bound: made again when they may succeed a moment later, or given up."""

from __future__ import annotations

import logging
import math
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any, Final, TypeVar

from trainfeed.errors import CommitUnknownError, FileReplacedError, Outcome, StorageError

T = TypeVar("T")

logger = logging.getLogger(__name__)

# The caller has to look at the store, or to begin with another file, before it calls again.
_NOT_AGAIN: Final = (CommitUnknownError, FileReplacedError)


def store_may_recover(error: Exception) -> float | None:
    """Return 0 for an error of a store that may pass, None for every other one."""
    may_pass = isinstance(error, StorageError) and error.outcome is Outcome.RETRY
    return 0.0 if may_pass and not isinstance(error, _NOT_AGAIN) else None


def _pause(seconds: float) -> None:
    threading.Event().wait(seconds)


@dataclass(frozen=True)
class Patience:
    """How often a call is made, and the pauses between, each twice as long as the one before.

    Attributes:
        calls: Most calls, at least 1.
        first_pause_s: Seconds before the second call.
        longest_pause_s: Longest pause, unless the other side asks for more.
        longest_asked_s: Longest pause that the other side may ask for.
        seconds: Time for all calls; no pause is begun that would end later.
        is_random: Whether up to half of each pause is left out, so that many clients of one server
            do not return at once.
        asked: Returns the pause in seconds that an error asks for, 0 for none; None if another call
            cannot succeed.
        pause: Called with the seconds to wait; a true answer ends the patience.
    """

    calls: float = 5
    first_pause_s: float = 0.5
    longest_pause_s: float = math.inf
    longest_asked_s: float = 0.0
    seconds: float = math.inf
    is_random: bool = False
    asked: Callable[[Exception], float | None] = field(default=store_may_recover, repr=False)
    pause: Callable[[float], object] = field(default=_pause, repr=False)

    def call(self, function: Callable[[], T], what: str | None = "call") -> T:
        """Return the value of a function, called until it succeeds or patience ends.

        Args:
            function: The function.
            what: Its name in the log; None logs nothing.

        Raises:
            Exception: The error of the last call.
        """
        end_s, number = time.monotonic() + self.seconds, 1
        while True:
            try:
                return function()
            except Exception as error:
                asked_s = self.asked(error)
                if asked_s is None or number >= self.calls:
                    raise
                wait_s = self._wait_s(number, asked_s)
                if time.monotonic() + wait_s > end_s:
                    raise
                if what is not None:
                    logger.warning("%s failed: %s; again in %.1f s", what, error, wait_s)
                if self.pause(wait_s):
                    raise
            number += 1

    def _wait_s(self, number: int, asked_s: float) -> float:
        # A float has room for 2 ** 1000; more calls than that wait the longest pause.
        wait_s = min(self.first_pause_s * 2.0 ** min(number - 1, 1000), self.longest_pause_s)
        if self.is_random:
            wait_s *= random.uniform(0.5, 1.0)  # noqa: S311 (no secret)
        return max(wait_s, min(asked_s, self.longest_asked_s))


def answer_within(seconds: float, function: Callable[..., T], *arguments: Any) -> T:
    """Return the value of a function that runs in a thread, for clients that know no limit of time.

    Args:
        seconds: How long it may take. Then it is left alone, and does not keep the process alive.
        function: The function.
        *arguments: What it is called with.

    Raises:
        TimeoutError: It took longer.
        Exception: What it raised; RuntimeError for what is no Exception, such as a panic.
    """
    answers: SimpleQueue[tuple[T | None, BaseException | None]] = SimpleQueue()

    def run() -> None:
        try:
            answers.put((function(*arguments), None))
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            answers.put((None, error))

    threading.Thread(target=run, name="answer", daemon=True).start()
    try:
        value, error = answers.get(timeout=seconds)
    except Empty:
        raise TimeoutError(f"no answer within {seconds:g} s") from None
    if error is not None:
        raise error if isinstance(error, Exception) else RuntimeError(str(error))
    return value  # type: ignore[return-value]  # set whenever there is no error
