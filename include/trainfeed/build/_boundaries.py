"""Where a topic stood at a point in time: one file for both neighbours of the boundary.

Window ``[t0, t1)`` is the offset range ``[B(t0), B(t1))``. A boundary file is created exclusively
and re-read by whoever comes second, so neighbouring windows share it: they cannot overlap or leave
a hole, in whatever order and at whatever time they are built.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

from trainfeed.dataset import DatasetFolder, canonical
from trainfeed.errors import IngestError, TransactionOpenError
from trainfeed.sources import (
    Evidence,
    Known,
    PartitionBoundary,
    Proof,
    Topic,
    View,
    find_boundaries,
    prove,
)
from trainfeed.storage import posix

__all__ = [
    "Boundary",
    "is_proved",
    "known_boundaries",
    "last_proved",
    "milliseconds",
    "resolve_boundary",
    "transaction_open",
]

# Finding one takes some thousand records of every partition.
_LOCK_TIMEOUT_S: Final = 600.0


@dataclass(frozen=True)
class Boundary:
    """Where every partition of a topic stood at ``at``.

    Attributes:
        at: Aware UTC time.
        partitions: By partition number. A partition that came later is not in it: it began at 0.
        found_ms: When it was found, milliseconds since 1970.
    """

    at: datetime
    partitions: dict[int, PartitionBoundary]
    found_ms: int

    def offset(self, partition: int) -> int:
        """Return the first offset at or after the boundary."""
        known = self.partitions.get(partition)
        return known.offset if known is not None else 0

    def is_proved(self, partition: int) -> bool:
        """Return whether it shows by itself that retention had deleted nothing before it.

        A partition that came later began at 0. Files without evidence are proved where the log
        began at 0, or where the record at the boundary is stamped exactly at its time.
        """
        known = self.partitions.get(partition)
        if known is None:
            return True
        if known.evidence is not None:
            return known.evidence.proof is not None
        # Old files say nothing of a topic that was created anew.
        return known.log_start == 0 or known.record_timestamp_ms == milliseconds(self.at)


def resolve_boundary(
    folder: DatasetFolder,
    topic: Topic,
    at: datetime,
    *,
    skew_ms: int,
    clock_ms: int | None = None,
) -> Boundary:
    """Read the boundary of ``topic`` at ``at``, or find it and write it down first.

    Args:
        folder: The data set, which keeps boundary files.
        topic: The open topic.
        at: Aware UTC time, already settled.
        skew_ms: How far from ``at`` the records around it are usually stamped, in milliseconds.
        clock_ms: Time of planning, milliseconds since 1970: what is stamped later is no evidence.
            Now, when it is not given.

    Raises:
        TransactionOpenError: An open transaction may hide records that come before the boundary;
            nothing was written. It names all such partitions of the topic.
        IngestError: The source does not answer, or a boundary file is damaged.
    """
    path = folder.boundary(topic.identity.topic, topic.identity.uuid, at)
    if not path.exists():
        with posix.map_errors(path.parent):
            path.parent.mkdir(parents=True, exist_ok=True)
        # One at a time: two neighbours found side by side would not know of each other.
        with posix.file_lock(path.parent / ".lock", timeout_s=_LOCK_TIMEOUT_S):
            if not path.exists():
                found = _find(path.parent, topic, at, skew_ms, clock_ms)
                _require_settled(topic, found)
                posix.create_exclusive(path, canonical.dumps(_to_json(topic, found)))
    return _read(path)


def known_boundaries(folder: DatasetFolder, topic: str, topic_uuid: str) -> list[Boundary]:
    """Return all boundaries of a topic that are written down, in order of time."""
    paths = dict(_known(folder.boundaries(topic, topic_uuid)))
    return [_read(paths[at]) for at in sorted(paths)]


def is_proved(
    folder: DatasetFolder, topic: Topic, boundary: Boundary, partition: int, log_start: int
) -> bool:
    """Return whether retention had deleted nothing before a boundary when it was found.

    What its own file does not show, an earlier boundary may, or records that are still there.

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
    earlier = _Earlier(paths, boundary.at)
    if earlier.shown(partition, known.log_start) is not None:
        return True
    is_first = _is_first_topic(paths, boundary.at)
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
    proved = (each for each in _Earlier(paths, at) if each.is_proved(partition))
    return next((each.offset(partition) for each in proved), 0)


def _find(folder: Path, topic: Topic, at: datetime, skew_ms: int, clock_ms: int | None) -> Boundary:
    clock_ms = milliseconds(datetime.now(UTC)) if clock_ms is None else clock_ms
    lower, upper = _neighbours(folder, at)
    earlier, is_first = _Earlier(folder, at), _is_first_topic(folder, at)
    known = {
        partition: Known(
            floor=lower.offset(partition) if lower else None,
            # A partition that a later boundary does not have, came after that one was found.
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


def _is_first_topic(folder: Path, at: datetime) -> bool:
    """Return whether no other topic of that name held the records of ``at``, as far as is known.

    Boundaries of another topic id were written here: the topic was created anew. It was there
    since its first boundary was found, at the latest.
    """
    others = (path for path in folder.parent.iterdir() if path != folder and path.is_dir())
    if not any(True for path in others for _ in _known(path)):
        return True
    return any(_read(path).found_ms <= milliseconds(at) for _, path in _known(folder))


class _Earlier:
    """The boundaries before a time that are written down, the last one first; each is read once.

    Args:
        folder: The folder of boundary files of the topic.
        at: Aware UTC time.
    """

    def __init__(self, folder: Path, at: datetime) -> None:
        self._at = at
        paths = {moment: path for moment, path in _known(folder) if moment < at}
        self._paths = [paths[moment] for moment in sorted(paths, reverse=True)]
        self._read: list[Boundary] = []

    def __iter__(self) -> Iterator[Boundary]:
        for index, path in enumerate(self._paths):
            if index == len(self._read):
                self._read.append(_read(path))
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
        places: Per partition which it is, its last stable offset and high watermark.
    """
    error = TransactionOpenError(
        f"transaction open: {'; '.join(places)}; expected a high watermark equal to the last"
        " stable offset, because records behind it may come before the boundary; no boundary of"
        " these was written and nothing was read; run again when the transactions have ended, or"
        " find and abort the one that hangs (kafka-transactions.sh find-hanging)"
    )
    error.places = tuple(places)
    return error


def _neighbours(folder: Path, at: datetime) -> tuple[Boundary | None, Boundary | None]:
    """Return the nearest known boundaries below and above ``at``."""
    paths = dict(_known(folder))
    before = max((moment for moment in paths if moment < at), default=None)
    after = min((moment for moment in paths if moment > at), default=None)
    return (
        _read(paths[before]) if before else None,
        _read(paths[after]) if after else None,
    )


def _known(folder: Path) -> Iterator[tuple[datetime, Path]]:
    for path in folder.glob("*Z.json"):
        yield datetime.strptime(path.stem, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC), path


def _to_json(topic: Topic, boundary: Boundary) -> dict[str, Any]:
    return {
        "at": f"{boundary.at:%Y-%m-%dT%H:%M:%SZ}",
        "found_at": f"{_utc(boundary.found_ms):%Y-%m-%dT%H:%M:%SZ}",
        "topic": topic.identity.topic,
        "topic_uuid": topic.identity.uuid,
        "cluster": topic.identity.cluster,
        "partitions": {str(p): asdict(b) for p, b in boundary.partitions.items()},
    }


def _read(path: Path) -> Boundary:
    value = canonical.loads(path.read_bytes(), path=str(path))
    try:
        at, found_at = (
            datetime.strptime(value[name], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
            for name in ("at", "found_at")
        )
        partitions = {int(p): _partition(b) for p, b in value["partitions"].items()}
    except (KeyError, TypeError, ValueError) as error:
        raise IngestError(
            f"boundary file {path} is damaged ({error}); restore or remove it"
        ) from error
    # Of the file's seconds the last moment: what was found is not older than the file says.
    found_ms = milliseconds(found_at) + 999
    return Boundary(at, partitions, found_ms)


def _partition(value: dict[str, Any]) -> PartitionBoundary:
    evidence = value.get("evidence")
    known = None if evidence is None else Evidence.from_json(evidence)
    return PartitionBoundary(**{**value, "evidence": known})


def _utc(time_ms: int) -> datetime:
    return datetime.fromtimestamp(time_ms // 1000, UTC)


def milliseconds(at: datetime) -> int:
    """Return an aware time as milliseconds since 1970."""
    return int(at.timestamp() * 1000)
