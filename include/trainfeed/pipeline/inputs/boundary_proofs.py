"""What boundary files prove: that retention had deleted nothing, or that an interval is empty."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from trainfeed.core.intervals import format_time
from trainfeed.errors import EmptyUnprovenError
from trainfeed.pipeline.inputs.boundaries import TopicWindow
from trainfeed.pipeline.inputs.boundary_files import (
    Boundary,
    EarlierBoundaries,
    is_first_topic,
    milliseconds,
)
from trainfeed.pipeline.plans import Planned, PlannedInput, first_few
from trainfeed.sources import Known, PartitionBoundary, Topic, TopicIdentity, View, prove
from trainfeed.versions import DatasetFolder

# Why nothing is read of a partition.
# No offset lies between the two records around the boundary.
_NO_OFFSET: Final = "no_offset"
# The log ended before the interval's end.
_LOG_END: Final = "log_end"
# The next record with a believable stamp is later than the interval.
_LATER_RECORD: Final = "later_record"
# Retention deleted the records, and that was accepted.
_DELETED: Final = "deleted"
# None of these is proved.
UNPROVEN: Final = "unproven"


def nothing_was_deleted(
    folder: DatasetFolder,
    topic: Topic,
    boundary: Boundary,
    partition: int,
    log_start: int,
    beside: Collection[TopicIdentity] = (),
) -> bool:
    """Return whether retention had deleted nothing before a boundary when the boundary was found.

    An earlier boundary may prove it if the file itself does not. With evidence the log is not read
    again: what retention has left by now may be only records that came late.

    Args:
        folder: The data set, which keeps boundary files.
        topic: The open topic.
        boundary: The boundary.
        partition: Number of the partition.
        log_start: First offset of the partition that can be read now.
        beside: Topics of the other members of a union that have its name.
    """
    known = boundary.partitions.get(partition)
    if known is None or boundary.is_proved_alone(partition):
        return True
    topic_folder = folder.boundaries(topic.identity.topic, topic.identity.uuid)
    earlier = EarlierBoundaries(topic_folder, boundary.at)
    if earlier.proof_for(partition, known.log_start) is not None:
        return True
    if known.evidence is not None:
        return False
    floor = next((each.offset(partition) for each in earlier), None)
    proof = prove(
        View(topic, partition, milliseconds(datetime.now(UTC))),
        offset=known.offset,
        at_ms=milliseconds(boundary.at),
        # The part of the log that can still be read and that the restored file speaks of.
        log_start=max(log_start, known.log_start),
        stamp_ms=None,
        known=Known(
            floor=floor,
            is_first_topic=is_first_topic(
                topic_folder, boundary.at, beside, topic.identity.cluster
            ),
        ),
    )
    return proof is not None


def last_proved(folder: DatasetFolder, topic: Topic, at: datetime, partition: int) -> int:
    """Return the offset of the last proved boundary before ``at``; 0 when there is none."""
    earlier = EarlierBoundaries(folder.boundaries(topic.identity.topic, topic.identity.uuid), at)
    proved = (each for each in earlier if each.is_proved_alone(partition))
    return next((each.offset(partition) for each in proved), 0)


def reasons(
    windows: Sequence[TopicWindow], inputs: Mapping[str, Planned], allowed: str | None = None
) -> dict[str, str]:
    """Return, by source string, why nothing is read of the source.

    Args:
        windows: The topics.
        inputs: The planned ranges, without the offsets that are lost.
        allowed: The reason given for an empty interval without proof, or None.

    Returns:
        An empty mapping if any source has offsets to read. Else ``no_offset``, ``log_end``,
        ``later_record``, ``deleted`` (by retention, and accepted) or ``unproven``, which is
        followed by ``, allowed: `` and the reason if one was given.
    """
    if any(planned.start < planned.end for planned in inputs.values()):
        return {}
    found = {
        source: _DELETED if planned.start < planned.end else _reason(window, planned.partition)
        for window, source, planned in _planned_ranges(windows)
    }
    if allowed is None:
        return found
    return {
        source: f"{why}, allowed: {allowed}" if why == UNPROVEN else why
        for source, why in found.items()
    }


def require_empty_proved(
    windows: Sequence[TopicWindow], inputs: Mapping[str, PlannedInput]
) -> None:
    """Refuse an interval that has no offsets to read, if nothing proves that it has no records.

    Raises:
        EmptyUnprovenError: A partition lacks the proof; the message names all such partitions.
    """
    why = reasons(windows, inputs)
    lines = [
        _line(window, source, planned.partition)
        for window, source, planned in _planned_ranges(windows)
        if why.get(source) == UNPROVEN
    ]
    if lines:
        raise EmptyUnprovenError(
            "the interval has no offset to read, and records with stamps of it may lie on the"
            f" wrong side of its boundaries: {first_few(lines)}; nothing was read or published;"
            " 'trainfeed boundaries check' says which boundary file is wrong; or publish the"
            " interval as empty with --allow-gap WHY (Airflow: parameter 'allow_gap')"
        )


def _planned_ranges(
    windows: Sequence[TopicWindow],
) -> Iterator[tuple[TopicWindow, str, PlannedInput]]:
    for window in windows:
        for source, planned in window.inputs():
            yield window, source, planned


def _reason(window: TopicWindow, partition: int) -> str:
    end = window.end.partitions[partition]
    if end.offset == end.log_end and end.is_settled:
        return _LOG_END
    if end.evidence is not None and end.evidence.method == "between":
        return _NO_OFFSET
    next_ms = _next_ms(end)
    is_later = next_ms is not None and next_ms >= milliseconds(window.end.at)
    return _LATER_RECORD if is_later else UNPROVEN


def _next_ms(end: PartitionBoundary) -> int | None:
    """Return the stamp of the next record with evidence, or None."""
    first = None if end.evidence is None else end.evidence.right.first
    return None if first is None else first[1]


def _line(window: TopicWindow, source: str, partition: int) -> str:
    end = window.end.partitions[partition]
    return (
        f"{source}: both boundaries are offset {end.offset}, expected the next record to be"
        f" stamped at or after {format_time(window.end.at)} or the log to end there, got"
        f" {_next_record(end)} and the log end {end.log_end}"
    )


def _next_record(end: PartitionBoundary) -> str:
    next_ms = _next_ms(end)
    return "no next record" if next_ms is None else f"the stamp {next_ms} ms"
