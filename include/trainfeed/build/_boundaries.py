"""Where a topic stood at a point in time: one file for both neighbours of the boundary.

Window ``[t0, t1)`` is the offset range ``[B(t0), B(t1))``. A boundary file is created exclusively
and re-read by whoever comes second, so neighbouring windows share it: they cannot overlap or leave
a hole, in whatever order and at whatever time they are built.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from trainfeed.dataset import DatasetFolder, canonical
from trainfeed.errors import IngestError
from trainfeed.sources import PartitionBoundary, Topic, find_boundary
from trainfeed.storage import posix

__all__ = ["Boundary", "resolve_boundary"]

# Finding one takes a scan of some million records at worst.
_LOCK_TIMEOUT_S: Final = 600.0


@dataclass(frozen=True)
class Boundary:
    """Where every partition of a topic stood at ``at``.

    Attributes:
        at: Aware UTC time.
        partitions: By partition number. A partition that came later is not in it: it began at 0.
    """

    at: datetime
    partitions: dict[int, PartitionBoundary]

    def offset(self, partition: int) -> int:
        """Return the first offset at or after the boundary."""
        known = self.partitions.get(partition)
        return known.offset if known is not None else 0

    def unproven(self, partition: int) -> PartitionBoundary | None:
        """Return the partition's boundary when records before it may have been deleted unseen.

        The time index never answers below the log start. So an answer *at* a log start above 0
        proves nothing, unless the record there is stamped exactly at the boundary.
        """
        known = self.partitions.get(partition)
        if known is None or known.log_start == 0 or known.offset > known.log_start:
            return None
        exact = known.record_timestamp_ms == _milliseconds(self.at)
        return None if exact else known


def resolve_boundary(
    folder: DatasetFolder, topic: Topic, at: datetime, *, skew_ms: int
) -> Boundary:
    """Read the boundary of ``topic`` at ``at``, or find it and write it down first.

    Args:
        folder: The data set, which keeps boundary files.
        topic: The open topic.
        at: Aware UTC time, already settled.
        skew_ms: How far ahead of ``at`` a record's stamp is still believed, in milliseconds.
    """
    path = folder.boundary(topic.identity.topic, topic.identity.uuid, at)
    if not path.exists():
        with posix.map_errors(path.parent):
            path.parent.mkdir(parents=True, exist_ok=True)
        # One at a time: two neighbours found side by side would not know of each other.
        with posix.file_lock(path.parent / ".lock", timeout_s=_LOCK_TIMEOUT_S):
            if not path.exists():
                found = _find(path.parent, topic, at, skew_ms)
                posix.create_exclusive(path, canonical.dumps(_to_json(topic, found)))
    return _read(path)


def _find(known: Path, topic: Topic, at: datetime, skew_ms: int) -> Boundary:
    lower, upper = _neighbours(known, at)
    partitions = {}
    for partition in topic.partitions():
        floor = lower.partitions.get(partition) if lower else None
        ceiling = upper.partitions.get(partition) if upper else None
        partitions[partition] = find_boundary(
            topic,
            partition,
            _milliseconds(at),
            skew_ms=skew_ms,
            floor=floor.offset if floor else None,
            ceiling=ceiling.offset if ceiling else None,
        )
    return Boundary(at, partitions)


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
        "found_at": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
        "topic": topic.identity.topic,
        "topic_uuid": topic.identity.uuid,
        "cluster": topic.identity.cluster,
        "partitions": {str(p): asdict(b) for p, b in boundary.partitions.items()},
    }


def _read(path: Path) -> Boundary:
    value = canonical.loads(path.read_bytes(), path=str(path))
    try:
        at = datetime.strptime(value["at"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
        partitions = {int(p): PartitionBoundary(**b) for p, b in value["partitions"].items()}
    except (KeyError, TypeError, ValueError) as error:
        raise IngestError(
            f"boundary file {path} is damaged ({error}); restore or remove it"
        ) from error
    return Boundary(at, partitions)


def _milliseconds(at: datetime) -> int:
    return int(at.timestamp() * 1000)
