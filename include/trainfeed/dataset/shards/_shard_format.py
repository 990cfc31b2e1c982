"""How the records of a shard are stored, as recorded in the manifest of its set."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

__all__ = ["FileFormat", "ShardFormat"]


class FileFormat(StrEnum):
    """The container of records."""

    RECORDIO = "recordio"
    TFRECORD = "tfrecord"


@dataclass(frozen=True)
class ShardFormat:
    """How the records of a shard are stored; part of the manifest.

    Attributes:
        file_format: The container.
        codec: Name of the compression, in lower case.
        level: Level of the compression, None for the default.
        max_chunk_bytes: Size limit of RecordIO's chunks; 0 for TFRecord, which has none.
    """

    file_format: FileFormat
    codec: str
    level: int | None
    max_chunk_bytes: int

    @classmethod
    def from_json(cls, value: Any) -> ShardFormat:
        """Read the JSON of ``to_json``; KeyError, TypeError or ValueError for other values."""
        return cls(
            FileFormat(value["file_format"]),
            str(value["codec"]),
            value["level"],
            int(value["max_chunk_bytes"]),
        )

    def to_json(self) -> dict[str, Any]:
        """Return the format for a manifest."""
        return {
            "file_format": str(self.file_format),
            "codec": self.codec,
            "level": self.level,
            "max_chunk_bytes": self.max_chunk_bytes,
        }
