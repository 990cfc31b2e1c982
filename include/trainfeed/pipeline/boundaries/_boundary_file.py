"""Boundary files: the offset of every partition of a topic at a point in time, with evidence.

Two boundaries give the range of offsets that an interval reads of an open topic.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter

from trainfeed import canonical_json
from trainfeed.dataset import DatasetFolder
from trainfeed.dataset.identity import kafka_source
from trainfeed.errors import IngestError
from trainfeed.paths import listed, os_errors, read_plain
from trainfeed.pipeline.plans import PlannedInput
from trainfeed.sources import Evidence, PartitionBoundary, Topic, TopicIdentity

__all__ = [
    "Boundary",
    "TopicWindow",
    "boundary_files",
    "folders_of_others",
    "known_boundaries",
    "milliseconds",
    "read_boundary",
    "to_json",
]

_PARTITION: Final = TypeAdapter(PartitionBoundary)
_OFFSETS: Final = 1 << 63


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
        yield datetime.strptime(path.stem, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC), path


def folders_of_others(folder: Path) -> list[Path]:
    """Return the folders of boundary files of other topics with the same name, sorted.

    Raises:
        StorageError: The folder above cannot be listed.
    """
    with os_errors(folder.parent):
        if not folder.parent.is_dir():
            return []
        return sorted(path for path in folder.parent.iterdir() if path != folder and path.is_dir())


def to_json(topic: TopicIdentity, boundary: Boundary) -> dict[str, Any]:
    """Return the content of a boundary file."""
    return {
        "at": f"{boundary.at:%Y-%m-%dT%H:%M:%SZ}",
        "found_at": f"{_utc(boundary.found_ms):%Y-%m-%dT%H:%M:%SZ}",
        "topic": topic.topic,
        "topic_uuid": topic.uuid,
        "cluster": topic.cluster,
        "partitions": {str(p): asdict(b) for p, b in boundary.partitions.items()},
    }


def read_boundary(path: Path) -> Boundary:
    """Read a boundary file, also one without evidence.

    Raises:
        IngestError: The file is damaged.
    """
    # Links are followed: the folder of a dry run has links to the boundary files of the root.
    value = canonical_json.loads(
        read_plain(path, follow=True, max_bytes=canonical_json.MAX_BYTES), path=str(path)
    )
    try:
        at, found_at = (
            datetime.strptime(value[name], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
            for name in ("at", "found_at")
        )
        partitions = {int(p): _partition(b) for p, b in value["partitions"].items()}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise IngestError(
            f"boundary file {path} is damaged ({error}); restore or remove it"
        ) from error
    # The file has whole seconds; its last millisecond is the latest time that is possible.
    found_ms = milliseconds(found_at) + 999
    return Boundary(at, partitions, found_ms)


def _partition(value: dict[str, Any]) -> PartitionBoundary:
    evidence = value.get("evidence")
    known = None if evidence is None else Evidence.from_json(evidence)
    found = PartitionBoundary(**{**value, "evidence": known})
    # Types are checked too: an offset that is a text would fail in the middle of planning.
    _PARTITION.validate_json(json.dumps(asdict(found)), strict=True)
    if not 0 <= found.offset < _OFFSETS:
        raise ValueError(f"offset {found.offset}")
    return found


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
        self._require_order()
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

    def _require_order(self) -> None:
        for partition in sorted({*self.start.partitions, *self.end.partitions}):
            first, last = self.start.offset(partition), self.end.offset(partition)
            if first > last:
                raise IngestError(
                    f"boundaries of topic {self.topic.identity.topic!r} partition {partition} are"
                    f" in the wrong order: {first} at {self.start.at}, {last} at {self.end.at};"
                    " nothing was read or published; 'trainfeed boundaries check' says which"
                    " boundary file is wrong"
                )
