"""Boundaries of a topic at a point in time: the offset of every partition, with evidence.

One boundary file is shared by the intervals on both sides. Boundary files also prove that retention
had deleted nothing, or that an interval is really empty.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter

from trainfeed.core import canonical_json
from trainfeed.core.intervals import format_time
from trainfeed.errors import ConflictError, EmptyUnprovenError, FormatError, TransactionOpenError
from trainfeed.files import listed, make_folders, os_errors, read_plain
from trainfeed.files.records import ONCE_UNSEALED, RecordFile
from trainfeed.files.stores import posix
from trainfeed.pipeline.plans import Planned, PlannedInput, first_few
from trainfeed.sources import (
    Known,
    PartitionBoundary,
    Proof,
    Topic,
    TopicIdentity,
    View,
    find_boundaries,
    prove,
)
from trainfeed.versions import DatasetFolder
from trainfeed.versions.order import kafka_source

# --- Boundary files: the offset of every partition of a topic at a point in time, with evidence

_PARTITION: Final = TypeAdapter(PartitionBoundary)
_OFFSETS: Final = 1 << 63
_TIME: Final = "%Y-%m-%dT%H:%M:%SZ"
_STEM: Final = "%Y%m%dT%H%M%SZ"
# A file that was moved aside because its boundary is wrong has this behind its name.
WRONG: Final = ".wrong"


@dataclass(frozen=True)
class Boundary:
    """The offset of every partition of a topic at the time ``at``.

    Attributes:
        at: Aware UTC time.
        partitions: Partition number → offset and evidence. A partition that was added later is
            not in it: its boundary is offset 0.
        found_ms: When the boundary was found, milliseconds since 1970.
    """

    at: datetime
    partitions: dict[int, PartitionBoundary]
    found_ms: int

    def offset(self, partition: int) -> int:
        """Return the first offset of a partition that belongs after the boundary."""
        known = self.partitions.get(partition)
        return known.offset if known is not None else 0

    def is_proved(self, partition: int) -> bool:
        """Return whether the file alone shows that retention had deleted nothing of a partition.

        A partition that was added later began at offset 0. A file without evidence is proof if the
        log began at 0, or if the record at the boundary has exactly the time of the boundary.
        """
        known = self.partitions.get(partition)
        if known is None:
            return True
        if known.evidence is not None:
            return known.evidence.proof is not None
        # Files without evidence do not tell whether the topic was deleted and created again.
        return known.log_start == 0 or known.record_timestamp_ms == milliseconds(self.at)


def known_boundaries(folder: DatasetFolder, topic: str, topic_uuid: str) -> list[Boundary]:
    """Return the boundaries of all files of a topic, in order of time."""
    paths = dict(boundary_files(folder.boundaries(topic, topic_uuid)))
    return [read_boundary(paths[at]) for at in sorted(paths)]


def boundary_files(folder: Path) -> Iterator[tuple[datetime, Path]]:
    """Yield time and path of every boundary file in the folder of a topic.

    Raises:
        StorageError: The folder cannot be listed.
    """
    for path in listed(folder, "*Z.json"):
        yield _time_of(path), path


def folders_of_others(folder: Path) -> list[Path]:
    """Return the folders of boundary files of other topics with the same name, sorted.

    Raises:
        StorageError: The folder above cannot be listed.
    """
    with os_errors(folder.parent):
        if not folder.parent.is_dir():
            return []
        return sorted(path for path in folder.parent.iterdir() if path != folder and path.is_dir())


@dataclass(frozen=True)
class _Stored:
    """The content of a boundary file; ``dataset`` is None in a file that is not sealed."""

    dataset: str | None
    topic: str
    topic_uuid: str
    cluster: str
    boundary: Boundary

    @property
    def at(self) -> datetime:
        return self.boundary.at


def write_boundary(path: Path, topic: TopicIdentity, boundary: Boundary) -> None:
    """Write a boundary file, unless there is one.

    Raises:
        StorageError: The publication root refused or failed.
    """
    _FILE.write_once(path, _stored(path, topic, boundary))


def replace_boundary(path: Path, topic: TopicIdentity, boundary: Boundary) -> None:
    """Write a boundary file in place of a damaged one.

    Raises:
        StorageError: The publication root refused or failed.
    """
    _FILE.replace(path, _stored(path, topic, boundary))


def read_boundary(path: Path, cluster: str | None = None) -> Boundary:
    """Read a boundary file, also one without evidence, and compare it with its path.

    Args:
        path: The file. It is also read where it was moved aside, as ``….json.wrong``.
        cluster: The cluster of the open topic; None if no topic is open.

    Raises:
        NotFoundError: There is no such file.
        FormatError: The file is damaged, or it is that of another data set, topic or time.
    """
    # Links are followed: the folder of a dry run has links to the boundary files of the root.
    data = read_plain(path, follow=True, max_bytes=canonical_json.MAX_BYTES)
    path = path.with_name(path.name.removesuffix(WRONG))
    expected: dict[str, Any] = {} if cluster is None else {"cluster": cluster}
    return _FILE.parse(
        data,
        path,
        dataset=_dataset_of(path),
        topic=path.parent.parent.name,
        topic_uuid=path.parent.name,
        at=_time_of(path),
        **expected,
    ).boundary


def _stored(path: Path, topic: TopicIdentity, boundary: Boundary) -> _Stored:
    return _Stored(_dataset_of(path), topic.topic, topic.uuid, topic.cluster, boundary)


def _dataset_of(path: Path) -> str:
    return path.parts[-5]


def _time_of(path: Path) -> datetime:
    return _parsed(path.stem, _STEM)


def _parsed(text: str, time_format: str) -> datetime:
    # Unlike ``strptime`` it is fast: a planner has the names of all boundaries of a topic.
    found = datetime.fromisoformat(text)
    if found.strftime(time_format) != text:
        raise ValueError(f"expected a time like 2024-03-01T00:00:00Z, got {text!r}")
    return found


def _to_json(stored: _Stored) -> dict[str, Any]:
    boundary = stored.boundary
    return {
        "dataset": stored.dataset,
        "at": f"{boundary.at:{_TIME}}",
        "found_at": f"{_utc(boundary.found_ms):{_TIME}}",
        "topic": stored.topic,
        "topic_uuid": stored.topic_uuid,
        "cluster": stored.cluster,
        "partitions": {str(p): asdict(b) for p, b in boundary.partitions.items()},
    }


def _from_json(value: Any) -> _Stored:
    at, found_at = (_parsed(value[name], _TIME) for name in ("at", "found_at"))
    partitions = {int(p): _partition(b) for p, b in value["partitions"].items()}
    if not partitions or sorted(partitions) != list(range(len(partitions))):
        raise ValueError(f"expected partitions from 0 on without a hole, got {sorted(partitions)}")
    # The file has whole seconds; its last millisecond is the latest time that is possible.
    found_ms = milliseconds(found_at) + 999
    names = (value["topic"], value["topic_uuid"], value["cluster"])
    return _Stored(value.get("dataset"), *names, Boundary(at, partitions, found_ms))


def _partition(value: dict[str, Any]) -> PartitionBoundary:
    # Only JSON makes dataclasses in strict mode.
    found = _PARTITION.validate_json(json.dumps(value), strict=True)
    if not 0 <= found.offset < _OFFSETS:
        raise ValueError(f"offset {found.offset}")
    found.require_evidence_agrees()
    return found


_FILE: Final = RecordFile(
    _Stored,
    "a boundary file",
    "nothing was read or published; offsets of published intervals that start or end there are also"
    " in their manifests: 'trainfeed boundaries restore NAME' writes the file again from these; if"
    " no such interval is published, move the file aside, and the next build finds the boundary"
    " again",
    max_bytes=canonical_json.MAX_BYTES,
    place=ONCE_UNSEALED["boundary"],
    follow=True,
    to_json=_to_json,
    from_json=_from_json,
)


def _utc(time_ms: int) -> datetime:
    return datetime.fromtimestamp(time_ms // 1000, UTC)


def milliseconds(at: datetime) -> int:
    """Return an aware time as milliseconds since 1970."""
    return int(at.timestamp() * 1000)


@dataclass(frozen=True)
class TopicWindow:
    """An open topic, and its boundaries at both ends of the interval."""

    topic: Topic
    connection: str
    start: Boundary
    end: Boundary

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


# --- Proofs from boundary files: retention had deleted nothing, or an interval is really empty

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


# --- The boundary of a topic at a point in time: one file, shared by the intervals on both sides

logger = logging.getLogger(__name__)

# The search for a boundary reads some thousand records of every partition.
_LOCK_TIMEOUT_S: Final = 600.0


def resolve_boundary(
    folder: DatasetFolder,
    topic: Topic,
    at: datetime,
    *,
    skew_ms: int,
    clock_ms: int | None = None,
    require: Callable[[Boundary], None] | None = None,
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
        require: Called with the known boundaries between which a new one is found; raises for one
            that is wrong, before another follows from it.

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
        with deciding(path.parent):
            # Again under the lock: another process may have written the file meanwhile.
            if not path.exists():
                found = _find(path.parent, topic, at, skew_ms, clock_ms, require)
                _require_settled(topic, found)
                write_boundary(path, topic.identity, found)
            return read_boundary(path, cluster)
    return read_boundary(path, cluster)


def deciding(folder: Path) -> AbstractContextManager[object]:
    """Return the lock of the boundary files of a topic: nobody else writes or removes one.

    Args:
        folder: The folder of the topic, which is there.
    """
    return posix.file_lock(folder / ".lock", timeout_s=_LOCK_TIMEOUT_S)


def keep_boundaries(folder: DatasetFolder, windows: Collection[TopicWindow]) -> None:
    """Write boundary files again that went before the plan was written which was made from them.

    Retention looks at the plans, and removes files, while it holds the lock of the topic. So it has
    seen the plan, or the file is found to be gone here.

    Args:
        folder: The data set.
        windows: The topics, with the boundaries of the plan.

    Raises:
        ConflictError: A boundary was decided again in between, with other offsets.
        StorageError: The publication root refused or failed.
    """
    for window in windows:
        _keep(folder, window.topic.identity, window.start)
        _keep(folder, window.topic.identity, window.end)


def _keep(folder: DatasetFolder, topic: TopicIdentity, boundary: Boundary) -> None:
    path = folder.boundary(topic.topic, topic.uuid, boundary.at)
    with deciding(path.parent):
        if not path.exists():
            write_boundary(path, topic, boundary)
        found = read_boundary(path, topic.cluster)
    if found != boundary:
        raise ConflictError(
            f"boundary file {path} was removed with a retired interval and decided again with other"
            " offsets while this plan was made from it; nothing was read or published; run the"
            " build again"
        )


def look_for_boundary(
    folder: DatasetFolder, topic: Topic, at: datetime, *, skew_ms: int, clock_ms: int
) -> Boundary:
    """Return the boundary from its file, or as it would be found now; nothing is written.

    Args:
        folder: The data set, which keeps boundary files.
        topic: The open topic.
        at: Aware UTC time, already settled.
        skew_ms: As of ``resolve_boundary``.
        clock_ms: Likewise.
    """
    path = folder.boundary(topic.identity.topic, topic.identity.uuid, at)
    if path.exists():
        return read_boundary(path, topic.identity.cluster)
    return _find(path.parent, topic, at, skew_ms, clock_ms)


def _find(
    folder: Path,
    topic: Topic,
    at: datetime,
    skew_ms: int,
    clock_ms: int | None,
    require: Callable[[Boundary], None] | None = None,
) -> Boundary:
    clock_ms = milliseconds(datetime.now(UTC)) if clock_ms is None else clock_ms
    lower, upper = _neighbours(folder, at)
    for each in (lower, upper):
        if each is not None and require is not None:
            require(each)
    earlier, is_first = Earlier(folder, at), is_first_topic(folder, at)
    known = {
        partition: Known(
            floor=lower.offset(partition) if lower else None,
            # A partition that is missing in a later boundary was added after that one was found.
            ceiling=upper.offset(partition) if upper else None,
            earlier=partial(earlier.shown, partition),
            is_first_topic=is_first,
        )
        for partition in topic.partitions()
    }
    found = find_boundaries(
        topic,
        milliseconds(at),
        skew_ms=skew_ms,
        clock_ms=clock_ms,
        known=known,
    )
    return Boundary(at, found, clock_ms)


def _require_settled(topic: Topic, boundary: Boundary) -> None:
    places = tuple(
        f"topic {topic.identity.topic!r} partition {partition} at"
        f" {boundary.at:%Y-%m-%dT%H:%M:%SZ}: last stable offset {found.log_end}, high watermark"
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
        place = folder.boundaries(identity.topic, identity.uuid)
        before, after = _beside(place, window.start.at, window.end.at)
        window.require_order([_undamaged(before), window.start, window.end, _undamaged(after)])


def _undamaged(path: Path | None) -> Boundary | None:
    """Return a boundary; a damaged file is left out here, and stops those who need it."""
    try:
        return None if path is None else read_boundary(path)
    except FormatError as error:
        logger.warning("boundaries are not compared with a damaged file: %s", error)
        return None


def _neighbours(folder: Path, at: datetime) -> tuple[Boundary | None, Boundary | None]:
    """Return the nearest known boundaries below and above ``at``."""
    before, after = _beside(folder, at, at)
    return (
        None if before is None else read_boundary(before),
        None if after is None else read_boundary(after),
    )


def _beside(folder: Path, start: datetime, end: datetime) -> tuple[Path | None, Path | None]:
    """Return the nearest files before a time and behind another one."""
    # Names of files are times, which sort as text.
    first, last = (f"{at:%Y%m%dT%H%M%SZ}.json" for at in (start, end))
    paths = {path.name: path for path in listed(folder, "*Z.json")}
    before = max((name for name in paths if name < first), default="")
    after = min((name for name in paths if name > last), default="")
    return paths.get(before), paths.get(after)
