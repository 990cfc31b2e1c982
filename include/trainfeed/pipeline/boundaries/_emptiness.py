"""Why an interval has nothing to read: it may be empty only where something shows that it is.

The reasons are a function of the boundary files alone, so every plan of the interval says the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from trainfeed.errors import EmptyUnprovenError
from trainfeed.pipeline.boundaries._boundary_file import milliseconds
from trainfeed.pipeline.boundaries._topic_window import TopicWindow
from trainfeed.pipeline.plans import Planned, PlannedInput, first_few
from trainfeed.sources import PartitionBoundary
from trainfeed.window import format_time

__all__ = ["reasons", "require_empty_proved"]

# The partition has no offset of the interval at all, its log ended before the interval's end, or
# the next record with a believable stamp comes after it; nothing shows any of them.
_NO_OFFSET: Final = "no_offset"
_LOG_END: Final = "log_end"
_LATER_RECORD: Final = "later_record"
_DELETED: Final = "deleted"
_UNPROVEN: Final = "unproven"


def reasons(
    windows: Sequence[TopicWindow], inputs: Mapping[str, Planned], allowed: str | None = None
) -> dict[str, str]:
    """Return per source why nothing is read of it.

    Args:
        windows: The topics.
        inputs: What is read, without what was lost.
        allowed: Why an interval may be empty that nothing shows to be, or None.

    Returns:
        Nothing while any source has offsets to read. Else ``no_offset``, ``log_end``,
        ``later_record``, ``deleted`` (by retention, and accepted) or ``unproven``, with the reason
        for which that is allowed.
    """
    if any(planned.start < planned.end for planned in inputs.values()):
        return {}
    found = {
        source: _DELETED if whole.start < whole.end else _reason(window, whole.partition)
        for window, source, whole in _wholes(windows)
    }
    if allowed is None:
        return found
    return {
        source: f"{why}, allowed: {allowed}" if why == _UNPROVEN else why
        for source, why in found.items()
    }


def require_empty_proved(
    windows: Sequence[TopicWindow], inputs: Mapping[str, PlannedInput]
) -> None:
    """Refuse an interval without offsets that nothing shows to be without records.

    Raises:
        EmptyUnprovenError: There is such a partition; it names all of them.
    """
    why = reasons(windows, inputs)
    lines = [
        _line(window, source, whole.partition)
        for window, source, whole in _wholes(windows)
        if why.get(source) == _UNPROVEN
    ]
    if lines:
        raise EmptyUnprovenError(
            "the interval has no offset to read, and records with stamps of it may lie on the"
            f" wrong side of its boundaries: {first_few(lines)}; nothing was read or published;"
            " 'trainfeed boundaries check' says which boundary file is wrong; or publish the"
            " interval as empty with --allow-gap WHY (Airflow: parameter 'allow_gap')"
        )


def _wholes(
    windows: Sequence[TopicWindow],
) -> Iterator[tuple[TopicWindow, str, PlannedInput]]:
    for window in windows:
        for source, whole in window.inputs():
            yield window, source, whole


def _reason(window: TopicWindow, partition: int) -> str:
    end = window.end.partitions[partition]
    if _is_by_index_alone(window.start.partitions.get(partition)):
        return _UNPROVEN
    if end.offset == end.log_end and end.is_settled:
        return _LOG_END
    if end.evidence is not None and end.evidence.method == "between":
        return _NO_OFFSET
    next_ms = _next_ms(end)
    is_later = next_ms is not None and next_ms >= milliseconds(window.end.at)
    return _LATER_RECORD if is_later else _UNPROVEN


def _is_by_index_alone(start: PartitionBoundary | None) -> bool:
    """Return whether records of the interval may lie before its start.

    An older version put a boundary at the log end where the time index had no position; an index
    has none either where the cleaner emptied the first segments.
    """
    if start is None or start.evidence is not None:
        return False
    return start.method == "end" and start.offset > start.log_start


def _next_ms(end: PartitionBoundary) -> int | None:
    """Return the stamp of the next record with evidence, or None."""
    if end.evidence is None:
        return end.record_timestamp_ms
    return end.evidence.right.first[1] if end.evidence.right.first else None


def _line(window: TopicWindow, source: str, partition: int) -> str:
    end = window.end.partitions[partition]
    if _is_by_index_alone(window.start.partitions.get(partition)):
        return (
            f"{source}: both boundaries are offset {end.offset}, expected evidence for the one at"
            f" {format_time(window.start.at)}, got the log's end of that time, which an older"
            " version took where the time index had no position"
        )
    return (
        f"{source}: both boundaries are offset {end.offset}, expected the next record to be"
        f" stamped at or after {format_time(window.end.at)} or the log to end there, got the"
        f" stamp {_next_ms(end)} ms and the log end {end.log_end}"
    )
