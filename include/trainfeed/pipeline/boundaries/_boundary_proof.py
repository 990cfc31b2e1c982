"""What shows, beside its own file, that retention had deleted nothing before a boundary."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from trainfeed.dataset import DatasetFolder
from trainfeed.pipeline.boundaries._boundary_file import (
    Boundary,
    boundary_files,
    folders_of_others,
    milliseconds,
    read_boundary,
)
from trainfeed.sources import Known, Proof, Topic, View, prove

__all__ = ["Earlier", "is_first_topic", "is_proved", "last_proved"]


def is_proved(
    folder: DatasetFolder, topic: Topic, boundary: Boundary, partition: int, log_start: int
) -> bool:
    """Return whether retention had deleted nothing before a boundary when it was found.

    What its own file does not show, an earlier boundary may. Records that are still there are asked
    for files without evidence only: with it, all that were left then have been looked at, and what
    retention has left of them since may be those that came late.

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
        # Of what is left, with what an old file of a log that began at 0 says.
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
    """Return whether no other topic of that name held the records of ``at``, as far as is known.

    Boundaries of another topic id were written here: the topic was created again. It was there
    since its first boundary was found, at the latest.
    """
    if not any(True for path in folders_of_others(folder) for _ in boundary_files(path)):
        return True
    return any(
        read_boundary(path).found_ms <= milliseconds(at) for _, path in boundary_files(folder)
    )


class Earlier:
    """The boundaries before a time that are written down, the last one first; each is read once.

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
        """Return what they show of a log start; see ``Known``."""
        for boundary in self:
            known = boundary.partitions.get(partition)
            if known is None or known.log_end < log_start:
                return None
            if known.offset >= log_start and boundary.is_proved(partition):
                return "earlier_boundary"
            if boundary.found_ms <= milliseconds(self._at):
                return "appended_before"
        return None
