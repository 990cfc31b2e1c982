"""Boundaries of a topic: each is found once, and kept as a file for the intervals on both sides."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Final

from trainfeed.errors import ConflictError, FormatError, TransactionOpenError
from trainfeed.files import listed, make_folders
from trainfeed.files.stores import posix
from trainfeed.pipeline.inputs.boundary_files import (
    FILE_TIME,
    TEXT_TIME,
    Boundary,
    EarlierBoundaries,
    is_first_topic,
    milliseconds,
    read_boundary,
    write_boundary,
)
from trainfeed.pipeline.plans import PlannedInput
from trainfeed.sources import Known, Topic, TopicIdentity, find_boundaries
from trainfeed.versions import DatasetFolder
from trainfeed.versions.order import kafka_source

logger = logging.getLogger(__name__)

# The search for a boundary reads some thousand records of every partition.
_LOCK_TIMEOUT_S: Final = 600.0


@dataclass(frozen=True)
class TopicWindow:
    """An open topic, and its boundaries at both ends of the interval.

    Attributes:
        topic: The topic.
        connection: Its connection string in a plan.
        start: The boundary at the start.
        end: The boundary at the end.
        beside: Topics of the other members of a union that have its name.
    """

    topic: Topic
    connection: str
    start: Boundary
    end: Boundary
    beside: tuple[TopicIdentity, ...] = ()

    def inputs(self) -> Iterator[tuple[str, PlannedInput]]:
        """Yield source string and planned range of every partition."""
        identity = self.topic.identity
        self.require_order([self.start, self.end])
        for partition in sorted(self.end.partitions):
            first, last = self.start.offset(partition), self.end.offset(partition)
            yield (
                kafka_source(identity.topic, partition),
                PlannedInput(
                    connection=self.connection,
                    topic=identity.topic,
                    topic_uuid=identity.uuid,
                    cluster=identity.cluster,
                    partition=partition,
                    start=first,
                    end=last,
                ),
            )

    def require_order(self, boundaries: Sequence[Boundary | None]) -> None:
        """Refuse boundaries of which a later one has a smaller offset.

        Args:
            boundaries: In order of time; None for one that is not known.

        Raises:
            ConflictError: They are in the wrong order.
        """
        for earlier, later in pairwise(each for each in boundaries if each is not None):
            for partition in sorted(earlier.partitions):
                first, last = earlier.offset(partition), later.offset(partition)
                if first > last:
                    raise ConflictError(
                        f"boundaries of topic {self.topic.identity.topic!r} partition {partition}"
                        f" are in the wrong order: {first} at {earlier.at}, {last} at {later.at};"
                        " nothing was read or published; a boundary file was changed: 'trainfeed"
                        " boundaries restore NAME' writes those of published intervals again, and"
                        " 'trainfeed boundaries check NAME' says which one is wrong"
                    )


def resolve_boundary(  # noqa: PLR0913 - what the search for a boundary takes into account
    folder: DatasetFolder,
    topic: Topic,
    at: datetime,
    *,
    skew_ms: int,
    clock_ms: int | None = None,
    require: Callable[[Boundary], None] | None = None,
    beside: Collection[TopicIdentity] = (),
) -> Boundary:
    """Return the boundary of ``topic`` at ``at`` from its file; find and write it if needed.

    Args:
        folder: The data set, which keeps boundary files.
        topic: The open topic.
        at: Aware UTC time, already settled.
        skew_ms: How far the stamps of records around the boundary usually are from ``at``,
            in milliseconds.
        clock_ms: Time of planning, milliseconds since 1970; the present time by default. Records
            that are stamped later are no evidence.
        require: Called with each neighbouring boundary before the search; raises if that one is
            wrong.
        beside: Topics of the other members of a union: they are no earlier ones of this name.

    Raises:
        TransactionOpenError: An open transaction may hide records that come before the boundary;
            no file was written. The message names all such partitions of the topic.
        IngestError: The source does not answer.
        FormatError: A boundary file is damaged, or is not the one of this topic and time.
    """
    cluster = topic.identity.cluster
    path = folder.boundary(topic.identity.topic, topic.identity.uuid, at)
    if not path.exists():
        with posix.map_errors(path.parent):
            make_folders(path.parent)
        # The lock lets one search run at a time: a search takes the neighbouring boundaries
        # into account, and two searches at the same time would not see each other's.
        with topic_lock(path.parent):
            # Again under the lock: another process may have written the file meanwhile.
            if not path.exists():
                found = _find(
                    path.parent, topic, at, skew_ms, clock_ms, require=require, beside=beside
                )
                _require_settled(topic, found)
                write_boundary(path, topic.identity, found)
            return read_boundary(path, cluster)
    return read_boundary(path, cluster)


def topic_lock(folder: Path) -> AbstractContextManager[object]:
    """Return the lock of the boundary files of a topic: nobody else writes or removes one.

    Args:
        folder: The folder of the topic, which must exist.
    """
    return posix.file_lock(folder / ".lock", timeout_s=_LOCK_TIMEOUT_S)


def keep_boundaries(folder: DatasetFolder, windows: Collection[TopicWindow]) -> None:
    """Write the boundary files of a plan again if retention removed them before it was written.

    Retention looks at the plans, and removes files, while it holds the lock of the topic. So it has
    seen the plan, or the file is found to be gone here.

    Args:
        folder: The data set.
        windows: The topics, with the boundaries of the plan.

    Raises:
        ConflictError: A boundary was decided again in between.
        StorageError: The publication root refused or failed.
    """
    for window in windows:
        _keep(folder, window.topic.identity, window.start)
        _keep(folder, window.topic.identity, window.end)


def _keep(folder: DatasetFolder, topic: TopicIdentity, boundary: Boundary) -> None:
    path = folder.boundary(topic.topic, topic.uuid, boundary.at)
    with topic_lock(path.parent):
        if not path.exists():
            write_boundary(path, topic, boundary)
        found = read_boundary(path, topic.cluster)
    if found != boundary:
        raise ConflictError(
            f"boundary file {path} was removed with a retired interval, and decided again while"
            " this plan was made from it; nothing was read or published; run the build again"
        )


def look_for_boundary(
    folder: DatasetFolder,
    topic: Topic,
    at: datetime,
    *,
    skew_ms: int,
    clock_ms: int,
    beside: Collection[TopicIdentity] = (),
) -> Boundary:
    """Return the boundary from its file, or as it would be found now; nothing is written.

    Args:
        folder: The data set, which keeps boundary files.
        topic: The open topic.
        at: Aware UTC time, already settled.
        skew_ms: As of ``resolve_boundary``.
        clock_ms: Likewise.
        beside: Likewise.
    """
    path = folder.boundary(topic.identity.topic, topic.identity.uuid, at)
    if path.exists():
        return read_boundary(path, topic.identity.cluster)
    return _find(path.parent, topic, at, skew_ms, clock_ms, beside=beside)


def _find(  # noqa: PLR0913 - as ``resolve_boundary``
    folder: Path,
    topic: Topic,
    at: datetime,
    skew_ms: int,
    clock_ms: int | None,
    *,
    require: Callable[[Boundary], None] | None = None,
    beside: Collection[TopicIdentity] = (),
) -> Boundary:
    clock_ms = milliseconds(datetime.now(UTC)) if clock_ms is None else clock_ms
    lower, upper = _neighbours(folder, at)
    for each in (lower, upper):
        if each is not None and require is not None:
            require(each)
    earlier = EarlierBoundaries(folder, at)
    is_first = is_first_topic(folder, at, beside, topic.identity.cluster)
    hints = {
        partition: Known(
            floor=lower.offset(partition) if lower else None,
            # A partition that is missing in a later boundary was added after that one was found.
            ceiling=upper.offset(partition) if upper else None,
            earlier=partial(earlier.proof_for, partition),
            is_first_topic=is_first,
        )
        for partition in topic.partitions()
    }
    found = find_boundaries(
        topic,
        milliseconds(at),
        skew_ms=skew_ms,
        clock_ms=clock_ms,
        known=hints,
    )
    return Boundary(at, found, clock_ms)


def _require_settled(topic: Topic, boundary: Boundary) -> None:
    places = tuple(
        f"topic {topic.identity.topic!r} partition {partition} at"
        f" {boundary.at:{TEXT_TIME}}: last stable offset {found.log_end}, high watermark"
        f" {found.evidence.high_watermark}"
        for partition, found in sorted(boundary.partitions.items())
        if found.evidence is not None and not found.is_settled
    )
    if places:
        raise transaction_open(places)


def transaction_open(places: Collection[str]) -> TransactionOpenError:
    """Return the error that names all partitions where a transaction is open.

    Args:
        places: One text per partition: its name, last stable offset and high watermark.
    """
    error = TransactionOpenError(
        f"transaction open: {'; '.join(places)}; expected a high watermark equal to the last"
        " stable offset, because records behind it may come before the boundary; no boundary of"
        " these was written and nothing was read; run again when the transactions have ended, or"
        " find and abort the one that hangs (kafka-transactions.sh find-hanging)"
    )
    error.places = tuple(places)
    return error


def require_in_order(folder: DatasetFolder, windows: Collection[TopicWindow]) -> None:
    """Refuse boundaries that contradict the nearest files of earlier and later times.

    Raises:
        ConflictError: An offset is larger than that of a later time.
    """
    for window in windows:
        identity = window.topic.identity
        topic_folder = folder.boundaries(identity.topic, identity.uuid)
        before, after = _nearest_files(topic_folder, window.start.at, window.end.at)
        window.require_order(
            [_read_unless_damaged(before), window.start, window.end, _read_unless_damaged(after)]
        )


def _read_unless_damaged(path: Path | None) -> Boundary | None:
    """Return a boundary; a damaged file is left out here, and those who need it fail."""
    try:
        return None if path is None else read_boundary(path)
    except FormatError as error:
        logger.warning("boundaries are not compared with a damaged file: %s", error)
        return None


def _neighbours(folder: Path, at: datetime) -> tuple[Boundary | None, Boundary | None]:
    """Return the nearest known boundaries below and above ``at``."""
    before, after = _nearest_files(folder, at, at)
    return (
        None if before is None else read_boundary(before),
        None if after is None else read_boundary(after),
    )


def _nearest_files(folder: Path, start: datetime, end: datetime) -> tuple[Path | None, Path | None]:
    """Return the nearest files before a time and behind another one."""
    # Names of files are times, which sort as text.
    first, last = (f"{at:{FILE_TIME}}.json" for at in (start, end))
    paths = {path.name: path for path in listed(folder, "*Z.json")}
    before = max((name for name in paths if name < first), default="")
    after = min((name for name in paths if name > last), default="")
    return paths.get(before), paths.get(after)
