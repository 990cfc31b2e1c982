"""Boundary files: the offset of every partition of a topic at a point in time, with evidence.

One file is shared by the intervals on both sides of the time.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter

from trainfeed.core import canonical_json
from trainfeed.errors import FormatError
from trainfeed.files import listed, os_errors, read_plain
from trainfeed.files.records import ONCE_UNSEALED, RecordFile
from trainfeed.sources import PartitionBoundary, Proof, TopicIdentity
from trainfeed.versions import DatasetFolder

_PARTITION: Final = TypeAdapter(PartitionBoundary)
_OFFSET_LIMIT: Final = 1 << 63
TEXT_TIME: Final = "%Y-%m-%dT%H:%M:%SZ"
FILE_TIME: Final = "%Y%m%dT%H%M%SZ"
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

    def is_proved_alone(self, partition: int) -> bool:
        """Return whether this file alone proves that the boundary is right for a partition.

        Then retention had not yet deleted any record before the boundary when it was found.

        A partition that was added later began at offset 0. A file without evidence is proof if the
        log began at 0.
        """
        known = self.partitions.get(partition)
        if known is None:
            return True
        if known.evidence is not None:
            return known.evidence.proof is not None
        # Proves only that nothing was deleted from this topic: without evidence it may be one that
        # was created again.
        return known.log_start == 0


def known_boundaries(folder: DatasetFolder, topic: str, topic_uuid: str) -> list[Boundary]:
    """Return the boundaries of all files of a topic, in order of time."""
    return [read_boundary(path) for _, path in boundary_files(folder.boundaries(topic, topic_uuid))]


def boundary_files(folder: Path) -> Iterator[tuple[datetime, Path]]:
    """Yield time and path of every boundary file in the folder of a topic, in order of time.

    Raises:
        FormatError: The name of a file is no time.
        StorageError: The folder cannot be listed.
    """
    for path in listed(folder, "*Z.json"):
        yield _time_of(path), path


def folders_of_namesakes(folder: Path) -> list[Path]:
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
        """The time, which ``RecordFile`` compares with the name of the file."""
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
    # DATASET/…/TOPIC/UUID/TIME.json
    return path.parts[-5]


def _time_of(path: Path) -> datetime:
    try:
        return _parsed(path.stem, FILE_TIME)
    except ValueError as error:
        raise FormatError(
            "expected the name of a boundary file, a time like 20240301T000000Z.json; move the file"
            " out of the folder of the topic",
            path=str(path),
        ) from error


def _parsed(text: str, time_format: str) -> datetime:
    # ``strptime`` is too slow: a planner reads the names of all boundary files of a topic.
    found = datetime.fromisoformat(text)
    if found.strftime(time_format) != text:
        raise ValueError(f"expected a time like 2024-03-01T00:00:00Z, got {text!r}")
    return found


def _to_json(stored: _Stored) -> dict[str, Any]:
    boundary = stored.boundary
    return {
        "dataset": stored.dataset,
        "at": f"{boundary.at:{TEXT_TIME}}",
        "found_at": f"{_utc(boundary.found_ms):{TEXT_TIME}}",
        "topic": stored.topic,
        "topic_uuid": stored.topic_uuid,
        "cluster": stored.cluster,
        "partitions": {str(p): asdict(b) for p, b in boundary.partitions.items()},
    }


def _from_json(value: Any) -> _Stored:
    at, found_at = (_parsed(value[name], TEXT_TIME) for name in ("at", "found_at"))
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
    if not 0 <= found.offset < _OFFSET_LIMIT:
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


def is_first_topic(
    folder: Path, at: datetime, beside: Collection[TopicIdentity] = (), cluster: str = ""
) -> bool:
    """Return whether the topic existed at ``at``, as far as is known.

    It did if no folder of a namesake shows that the topic was deleted and created again, or if its
    first boundary had been found by then.

    Args:
        folder: The folder of boundary files of the topic.
        at: Aware UTC time.
        beside: Topics of the other members of a union, which have folders of their own.
        cluster: Id of the cluster of the topic.
    """
    elsewhere = {each.cluster for each in beside} - {cluster}
    namesakes = set(folders_of_namesakes(folder)) - {folder.parent / each.uuid for each in beside}
    files = (file for path in namesakes for _, file in boundary_files(path))
    if not any(not elsewhere or _cluster_of(file) not in elsewhere for file in files):
        return True
    return any(
        read_boundary(path).found_ms <= milliseconds(at) for _, path in boundary_files(folder)
    )


def _cluster_of(path: Path) -> str:
    found = _FILE.read(path)
    return "" if found is None else found.cluster


class EarlierBoundaries:
    """The boundaries of files before a time, latest first; each file is read once.

    Args:
        folder: The folder of boundary files of the topic.
        at: Aware UTC time.
    """

    def __init__(self, folder: Path, at: datetime) -> None:
        self._at = at
        paths = [path for moment, path in boundary_files(folder) if moment < at]
        self._paths = paths[::-1]
        self._read: list[Boundary] = []

    def __iter__(self) -> Iterator[Boundary]:
        for index, path in enumerate(self._paths):
            if index == len(self._read):
                self._read.append(read_boundary(path))
            yield self._read[index]

    def proof_for(self, partition: int, log_start: int) -> Proof | None:
        """Return the proof of these boundaries for a log start, or None; see ``Known.earlier``."""
        for boundary in self:
            known = boundary.partitions.get(partition)
            if known is None or known.log_end < log_start:
                return None
            if known.offset >= log_start and boundary.is_proved_alone(partition):
                return "earlier_boundary"
            if boundary.found_ms <= milliseconds(self._at):
                return "appended_before"
        return None
