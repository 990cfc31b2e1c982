"""What a plan says of inputs, ranges and shards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from pydantic import BaseModel, ConfigDict

from trainfeed.dataset import Manifest

__all__ = [
    "PlanPart",
    "Planned",
    "PlannedFile",
    "PlannedInput",
    "PlannedRange",
    "PlannedShard",
    "first_few",
    "replaced_inputs",
]

# Of a message that somebody has to read.
_SHOWN_LINES: Final = 10


class PlanPart(BaseModel):
    """Frozen, strict and closed."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class PlannedInput(PlanPart):
    """One topic partition: the half-open range of offsets, and what identifies the topic."""

    connection: str
    topic: str
    topic_uuid: str
    cluster: str
    partition: int
    start: int
    end: int

    @property
    def label(self) -> str:
        """What late records are counted under."""
        return self.topic

    def fingerprint(self) -> Any:
        """What of it determines the content."""
        return [self.start, self.end]

    def replaced(self, old: Mapping[str, Any]) -> str | None:
        """Say how the topic differs from the one that the published version was built from."""
        if (old["topic_uuid"], old["cluster"]) == (self.topic_uuid, self.cluster):
            return None
        return (
            f"{self.topic}: {old['topic_uuid']} in cluster {old['cluster']} → {self.topic_uuid}"
            f" in cluster {self.cluster}"
        )


class PlannedFile(PlanPart):
    """One log file, and what identifies it.

    Attributes:
        path: Where it is, below the place of the connection.
        compression: none, gzip or zstd.
        timestamp_ms: What every record of it is stamped with: the start of the interval.
        start: First byte, as stored: 0.
        end: Its length, as stored.
        modified_ms: Milliseconds since 1970, by the store's clock.
        file_id: What the store calls it, where the protocol tells.
        checksum: What the store knows of its content, where the protocol tells.
    """

    connection: str
    path: str
    compression: str
    timestamp_ms: int
    start: int
    end: int
    modified_ms: int
    file_id: int | None
    checksum: str | None

    @property
    def label(self) -> str:
        """What late records are counted under; a line has no time, so none is late."""
        return "logs"

    def fingerprint(self) -> Any:
        """What of it determines the content."""
        if self.checksum is None:
            return {"length": self.end}
        return {"length": self.end, "checksum": self.checksum}

    def changes(self, old: Mapping[str, Any]) -> list[str]:
        """Return what differs from another state of it, as far as both sides know."""
        return [
            f"{what} {old[name]} → {value}"
            for name, what in _FILE_IDENTITY.items()
            if None not in {old[name], value := getattr(self, name)} and old[name] != value
        ]

    def replaced(self, old: Mapping[str, Any]) -> str | None:
        """Say how the file differs from the one that the published version was built from."""
        # Of equal length and checksum: somebody has set its time, or put the same bytes there.
        is_same = self.checksum is not None and (
            (self.end, self.checksum) == (old["end"], old["checksum"])
        )
        changes = [] if is_same else self.changes(old)
        return f"{self.path}: {', '.join(changes)}" if changes else None


_FILE_IDENTITY: Final = {
    "file_id": "file id",
    "end": "length",
    "modified_ms": "modification time",
    "checksum": "checksum",
}

Planned: TypeAlias = PlannedInput | PlannedFile


class PlannedRange(PlanPart):
    """A piece of an input: one landing file, or what is read of a log file at once.

    ``start`` and ``end`` are offsets of a topic, or bytes of a log file as it is stored. A
    compressed file is one range; the offsets of its records count what comes out of it.
    """

    source: str
    start: int
    end: int


class PlannedShard(PlanPart):
    """One shard to write."""

    split: str
    index: int


def first_few(lines: Sequence[str]) -> str:
    """Return lines as part of a message; of very many the first ones, and how many more."""
    more = len(lines) - _SHOWN_LINES
    return "; ".join([*lines[:_SHOWN_LINES], *([f"and {more} more"] if more > 0 else [])])


def replaced_inputs(current: Manifest, inputs: Mapping[str, Planned]) -> list[str]:
    """Return one line per source of the published version that is another one now."""
    lines = {
        line
        for source, planned in inputs.items()
        if (old := current.inputs.get(source)) is not None
        and (line := planned.replaced(old)) is not None
    }
    return sorted(lines)
