"""Boundary files: where the partitions of a topic stood at a point in time, and why.

Two of them say which offsets of an open topic an interval covers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter

from trainfeed.dataset import DatasetFolder, canonical
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
        # Old files say nothing of a topic that was created again.
        return known.log_start == 0 or known.record_timestamp_ms == milliseconds(self.at)


def known_boundaries(folder: DatasetFolder, topic: str, topic_uuid: str) -> list[Boundary]:
    """Return all boundaries of a topic that are written down, in order of time."""
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
    """Return the folders of boundary files of other topics of the name, sorted.

    Raises:
        StorageError: They cannot be listed.
    """
    with os_errors(folder.parent):
        if not folder.parent.is_dir():
            return []
        return sorted(path for path in folder.parent.iterdir() if path != folder and path.is_dir())


def to_json(topic: TopicIdentity, boundary: Boundary) -> dict[str, Any]:
    """Return what the file of a boundary holds."""
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
        IngestError: It is damaged.
    """
    # A dry run has links to the files of the root.
    value = canonical.loads(
        read_plain(path, follow=True, max_bytes=canonical.MAX_BYTES), path=str(path)
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
    # Of the file's seconds the last moment: what was found is not older than the file says.
    found_ms = milliseconds(found_at) + 999
    return Boundary(at, partitions, found_ms)


def _partition(value: dict[str, Any]) -> PartitionBoundary:
    evidence = value.get("evidence")
    known = None if evidence is None else Evidence.from_json(evidence)
    found = PartitionBoundary(**{**value, "evidence": known})
    # Types too: an offset that is a text would surface in the middle of a plan.
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
    """An open topic, and where it stood at both ends of the interval."""

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
