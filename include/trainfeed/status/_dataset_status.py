"""The status of a data set: its intervals with their states, and the time up to which all is in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from trainfeed.intervals import format_time
from trainfeed.status._states import State

__all__ = ["DatasetStatus", "IntervalStatus", "as_text", "complete_up_to"]

# Intervals of these states have their records, as far as the source ever had them.
IN: Final[frozenset[State]] = frozenset({"published", "late", "empty"})
# Accepted losses: they hold the time back up to which all is in, but a range with them is in order.
_ACCEPTED: Final[frozenset[State]] = frozenset({"gap", "skipped", "accepted"})
# Holes that somebody decided on; most had versions, and have none any more.
_DECIDED: Final[frozenset[State]] = _ACCEPTED | {"withdrawn", "removed", "retired"}
_FAULTS: Final[frozenset[State]] = frozenset({"missing", "failed", "damaged", "unread"})


class IntervalStatus(NamedTuple):
    """One interval.

    Attributes:
        interval: Name of the interval; its range, for a hole into which no interval fits.
        state: Its one state.
        start: Start, seconds since 1970.
        end: End, likewise.
        since: Since when it has the state, likewise; None where that is not known.
        reason: Why, in one line; empty where the state says it all.
        generation: The generation that readers get, or None.
        samples: Number of its samples, or None.
    """

    interval: str
    state: State
    start: int
    end: int
    since: int | None
    reason: str
    generation: int | None
    samples: int | None

    def to_json(self) -> dict[str, Any]:
        """Return the interval as commands print it."""
        return {
            "interval": self.interval,
            "state": self.state,
            "start": as_text(self.start),
            "end": as_text(self.end),
            "since": as_text(self.since),
            "reason": self.reason,
            "generation": self.generation,
            "samples": self.samples,
        }


@dataclass(frozen=True)
class DatasetStatus:
    """The status of a data set.

    Attributes:
        dataset: Name of the data set.
        intervals: Every interval that is over, and those that were asked for, in order of time.
        asked: The range that was asked for, or None.
        complete_up_to: The largest time up to which every interval is published, without a recorded
            or found loss; None if the first interval is not.
        decided_up_to: The same, when losses and intervals that were decided to be left out count
            as complete.
        held_back_by: The interval that holds ``complete_up_to`` back; None if only time does.
        doubts: What the answer does not cover, one line each.
    """

    dataset: str
    intervals: tuple[IntervalStatus, ...]
    asked: str | None
    complete_up_to: int | None
    decided_up_to: int | None
    held_back_by: IntervalStatus | None
    doubts: tuple[str, ...]

    @property
    def counts(self) -> dict[State, int]:
        """State → number of intervals."""
        return dict(Counter(each.state for each in self.intervals))

    @property
    def is_damaged(self) -> bool:
        """Whether a manifest or a marker cannot be used."""
        return any(each.state == "damaged" for each in self.intervals)

    @property
    def is_in_order(self) -> bool:
        """Whether nothing asks for a person; of a range that was asked for, whether it is in."""
        if self.asked is not None:
            return all(each.state in IN | _ACCEPTED for each in self.intervals)
        return not any(each.state in _FAULTS for each in self.intervals)

    def to_json(self) -> dict[str, Any]:
        """Return the status as commands print it."""
        held = self.held_back_by
        return {
            "dataset": self.dataset,
            "complete_up_to": as_text(self.complete_up_to),
            "decided_up_to": as_text(self.decided_up_to),
            "held_back_by": None if held is None else held.to_json(),
            "counts": self.counts,
            "in_order": self.is_in_order,
            "doubts": list(self.doubts),
            "intervals": [each.to_json() for each in self.intervals],
        }


def complete_up_to(
    intervals: Sequence[IntervalStatus], first: int | None
) -> tuple[int | None, int | None, IntervalStatus | None]:
    """Return the time up to which all is in; the same with decided holes; and the first hole.

    Args:
        intervals: All intervals, in order of time.
        first: Start of the first expected interval, seconds since 1970; None for that of the list.
    """
    begin = first if first is not None else min((each.start for each in intervals), default=None)
    if begin is None:
        return None, None, None
    strict, held = _reached(intervals, begin, IN)
    decided, _ = _reached(intervals, begin, IN | _DECIDED)
    # An interval that is not over yet is no hole.
    is_hole = held is not None and not (held.state == "waiting" and held.since is None)
    return strict, decided, held if is_hole else None


def _reached(
    intervals: Iterable[IntervalStatus], begin: int, good: frozenset[State]
) -> tuple[int | None, IntervalStatus | None]:
    reached = begin
    for each in intervals:
        if each.end <= begin:
            continue  # before the first interval that is expected today
        if each.state not in good or each.start > reached:
            return _or_none(reached, begin), each
        reached = max(reached, each.end)
    return _or_none(reached, begin), None


def _or_none(reached: int, begin: int) -> int | None:
    return reached if reached > begin else None


def as_text(seconds: int | None) -> str | None:
    """Return a time for people and scripts: ``2013-01-01T00:00:00Z``."""
    return None if seconds is None else format_time(datetime.fromtimestamp(seconds, UTC))
