"""Proofs from boundary files: retention had deleted nothing, or an interval is really empty.

An interval may be planned empty only with a proof. The reasons are a function of the boundary files
alone, so every plan of the interval has the same ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from trainfeed.dataset import DatasetFolder
from trainfeed.errors import EmptyUnprovenError
from trainfeed.intervals import format_time
from trainfeed.pipeline.boundaries._boundary_file import (
    Boundary,
    TopicWindow,
    boundary_files,
    folders_of_others,
    milliseconds,
    read_boundary,
)
from trainfeed.pipeline.plans import Planned, PlannedInput, first_few
from trainfeed.sources import Known, PartitionBoundary, Proof, Topic, View, prove

__all__ = [
    "UNPROVEN",
    "Earlier",
    "is_first_topic",
    "is_proved",
    "last_proved",
    "reasons",
    "require_empty_proved",
]

# Why nothing is read of a partition, in this order: no offset lies between the boundaries, the log
# ended before the interval's end, the next record with a believable stamp is later than the
# interval, retention deleted the records (and that was accepted), none of these is proved.
_NO_OFFSET: Final = "no_offset"
_LOG_END: Final = "log_end"
_LATER_RECORD: Final = "later_record"
_DELETED: Final = "deleted"
UNPROVEN: Final = "unproven"


def is_proved(
    folder: DatasetFolder, topic: Topic, boundary: Boundary, partition: int, log_start: int
) -> bool:
    """Return whether retention had deleted nothing before a boundary when the boundary was found.

    An earlier boundary may prove it if the file itself does not. The records that are left in the
    log are read only for files without evidence: evidence comes from all records that were there
    then, and retention may since have left only records that came late.

    Args:
        folder: The data set, which keeps boundary files.
        topic: The open topic.
        boundary: The boundary.
        partition: Number of the partition.
        log_start: First offset of the partition that can be read now.
    """
    known = boundary.partitions.get(partition)
    if known is None or boundary.is_proved(partition):
        return True
    paths = folder.boundaries(topic.identity.topic, topic.identity.uuid)
    earlier = Earlier(paths, boundary.at)
    if earlier.shown(partition, known.log_start) is not None:
        return True
    if known.evidence is not None:
        return False
    is_first = is_first_topic(paths, boundary.at)
    floor = next((each.offset(partition) for each in earlier), None)
    proof = prove(
        View(topic, partition, milliseconds(datetime.now(UTC))),
        offset=known.offset,
        at_ms=milliseconds(boundary.at),
        # The part of the log that can still be read and that the old file speaks of.
        log_start=max(log_start, known.log_start),
        stamp_ms=known.record_timestamp_ms,
        known=Known(floor=floor, is_first_topic=is_first),
    )
    return proof is not None


def last_proved(folder: DatasetFolder, topic: Topic, at: datetime, partition: int) -> int:
    """Return the offset of the last proved boundary before ``at``; 0 when there is none."""
    paths = folder.boundaries(topic.identity.topic, topic.identity.uuid)
    proved = (each for each in Earlier(paths, at) if each.is_proved(partition))
    return next((each.offset(partition) for each in proved), 0)


def is_first_topic(folder: Path, at: datetime) -> bool:
    """Return whether no other topic of the name is known that held the records of ``at``.

    Folders of other topic ids show that the topic was deleted and created again. The present topic
    exists at the latest since its first boundary was found.
    """
    if not any(True for path in folders_of_others(folder) for _ in boundary_files(path)):
        return True
    return any(
        read_boundary(path).found_ms <= milliseconds(at) for _, path in boundary_files(folder)
    )


class Earlier:
    """The boundaries of files before a time, latest first; each file is read once.

    Args:
        folder: The folder of boundary files of the topic.
        at: Aware UTC time.
    """

    def __init__(self, folder: Path, at: datetime) -> None:
        self._at = at
        paths = {moment: path for moment, path in boundary_files(folder) if moment < at}
        self._paths = [paths[moment] for moment in sorted(paths, reverse=True)]
        self._read: list[Boundary] = []

    def __iter__(self) -> Iterator[Boundary]:
        for index, path in enumerate(self._paths):
            if index == len(self._read):
                self._read.append(read_boundary(path))
            yield self._read[index]

    def shown(self, partition: int, log_start: int) -> Proof | None:
        """Return the proof of these boundaries for a log start, or None; see ``Known.earlier``."""
        for boundary in self:
            known = boundary.partitions.get(partition)
            if known is None or known.log_end < log_start:
                return None
            if known.offset >= log_start and boundary.is_proved(partition):
                return "earlier_boundary"
            if boundary.found_ms <= milliseconds(self._at):
                return "appended_before"
        return None


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
        ``later_record``, ``deleted`` (by retention, and accepted) or ``unproven``; the latter with
        the reason ``allowed``.
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
        _line(window, source, whole.partition)
        for window, source, whole in _wholes(windows)
        if why.get(source) == UNPROVEN
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
    # First, because with such a start no evidence at the end proves anything.
    if _is_by_index_alone(window.start.partitions.get(partition)):
        return UNPROVEN
    if end.offset == end.log_end and end.is_settled:
        return _LOG_END
    if end.evidence is not None and end.evidence.method == "between":
        return _NO_OFFSET
    next_ms = _next_ms(end)
    is_later = next_ms is not None and next_ms >= milliseconds(window.end.at)
    return _LATER_RECORD if is_later else UNPROVEN


def _is_by_index_alone(start: PartitionBoundary | None) -> bool:
    """Return whether the start boundary is one that may lie too far right.

    Earlier versions of trainfeed took the log end wherever the time index had no position. The
    index has no position either if the cleaner has emptied the first segments of the log; then
    records of the interval lie before the boundary.
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
