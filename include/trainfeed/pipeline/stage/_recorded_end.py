"""Records in the folder of a data set why an attempt at an interval did not publish it.

The record is advice for people, so the error of the attempt is raised unchanged, also if the record
cannot be written.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Final, Literal

from trainfeed.dataset import (
    DatasetFolder,
    Unpublished,
    lift_unpublished,
    write_unpublished,
)
from trainfeed.errors import (
    Outcome,
    RetiredError,
    TrainFeedError,
    WindowOpenError,
    WithdrawnError,
)
from trainfeed.intervals import format_time
from trainfeed.printable_text import printable, without_secrets

__all__ = ["lift_end", "recorded_end"]

logger = logging.getLogger(__name__)

_MOST_CHARS: Final = 1_000


@contextmanager
def recorded_end(
    folder: DatasetFolder, interval: str, work: str, plan: str | None = None
) -> Iterator[None]:
    """Record the error of the block as the end of the last attempt, and raise it.

    Of a withdrawn or retired interval nothing is recorded: its state is the decision.

    Args:
        folder: The data set.
        interval: Name of the interval.
        work: The part of the build: ``logs``, ``plan`` or a stage.
        plan: Id of the plan, or None before there is one.
    """
    try:
        yield
    except (RetiredError, WithdrawnError):
        # What a person decided is the state of the interval: a refusal by it is no failure.
        raise
    except Exception as error:
        # The time of an interval that is not over yet follows from clock and specification.
        if not (isinstance(error, WindowOpenError) and error.ready_at):
            _record(folder, _ended(interval, work, plan, error))
        raise


def lift_end(folder: DatasetFolder, interval: str) -> None:
    """Remove the record of an interval, if there is one: a new attempt begins, or a version is out.

    Args:
        folder: The data set.
        interval: Name of the interval.
    """
    try:
        lift_unpublished(folder, interval)
    except (TrainFeedError, OSError) as error:
        place = folder.unpublished(interval)
        logger.warning("%s was not removed, the next run will: %s", place, error)


def _record(folder: DatasetFolder, ended: Unpublished) -> None:
    try:
        write_unpublished(folder, ended)
    except (TrainFeedError, OSError) as error:
        place = folder.unpublished(ended.interval)
        logger.warning("trainfeed status will not name this error: %s: %s", place, error)


def _ended(interval: str, work: str, plan: str | None, error: Exception) -> Unpublished:
    first, *_ = str(error).splitlines() or [""]
    now = datetime.now(UTC).replace(microsecond=0)
    return Unpublished(
        interval=interval,
        since=format_time(now),
        work=work,
        plan=plan,
        outcome=_outcome(error),
        error=type(error).__name__,
        why=printable(without_secrets(first))[:_MOST_CHARS],
    )


def _outcome(error: Exception) -> Literal["failed", "retry", "waiting"]:
    if isinstance(error, WindowOpenError):
        return "waiting"
    is_passing = isinstance(error, TrainFeedError) and error.outcome is Outcome.RETRY
    return "retry" if is_passing else "failed"
