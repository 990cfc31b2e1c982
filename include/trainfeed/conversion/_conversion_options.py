"""What the files of a conversion are, and what the conversion may take."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, BinaryIO, Final, TypeAlias

from trainfeed.errors import ConfigError
from trainfeed.recordio import Codec, RecordWriter
from trainfeed.tfrecord import Compression, TFRecordWriter

__all__ = ["AnyCodec", "ConvertOptions", "FileFormat", "OnProgress", "RecordSink", "ShardFormat"]

AnyCodec: TypeAlias = Codec | Compression | str
OnProgress: TypeAlias = Callable[[int, int], None]
RecordSink: TypeAlias = RecordWriter | TFRecordWriter

_LEAST_MEMORY_BYTES: Final = 1 << 16


class FileFormat(StrEnum):
    """The container of records."""

    RECORDIO = "recordio"
    TFRECORD = "tfrecord"


@dataclass(frozen=True)
class ConvertOptions:
    """What is seldom changed about a conversion; none of it changes which sample is where.

    Attributes:
        file_format: RecordIO or TFRecord files.
        level: Of the compression; None for the codec's default.
        max_chunk_bytes: Record bytes at which a chunk of RecordIO is closed.
        memory_bytes: Records held in memory at a time, about; the process takes about as much
            again as it has before, and one record may take more.
        work_dir: Folder for the samples between reading and writing, which take as much as all of
            them encoded; None for the file system of the output. They have no name there.
        on_progress: Called now and then with the samples read and the samples written so far.

    Raises:
        ConfigError: A number is out of range.
    """

    file_format: FileFormat = FileFormat.RECORDIO
    level: int | None = None
    max_chunk_bytes: int = 1 << 20
    memory_bytes: int = 128 << 20
    work_dir: str | os.PathLike[str] | None = None
    on_progress: OnProgress | None = None

    def __post_init__(self) -> None:
        if self.memory_bytes < _LEAST_MEMORY_BYTES:
            raise ConfigError(
                f"expected memory_bytes from {_LEAST_MEMORY_BYTES}, got {self.memory_bytes}"
            )
        if self.file_format not in set(FileFormat):
            known = ", ".join(FileFormat)
            raise ConfigError(f"expected file_format as one of {known}, got {self.file_format!r}")


@dataclass(frozen=True)
class ShardFormat:
    """How the records of a shard are stored; part of the manifest.

    Attributes:
        file_format: The container.
        codec: Name of the compression, in lower case.
        level: Its level, None for the default.
        max_chunk_bytes: Of RecordIO; 0 for TFRecord, which has no chunks.
    """

    file_format: FileFormat
    codec: str
    level: int | None
    max_chunk_bytes: int

    @classmethod
    def of(cls, codec: AnyCodec, options: ConvertOptions) -> ShardFormat:
        """Return the format for a codec, given as such or by name.

        Raises:
            ConfigError: The container has no such codec, the codec no such level, or the chunk size
            is out of range.
        """
        name = codec.name.lower() if isinstance(codec, Codec | Compression) else codec.lower()
        is_recordio = options.file_format == FileFormat.RECORDIO
        known = [each.name.lower() for each in (Codec if is_recordio else Compression)]
        if name not in known:
            raise ConfigError(
                f"expected a codec of {options.file_format} ({', '.join(known)}), got {codec!r}"
            )
        chunk_bytes = options.max_chunk_bytes if is_recordio else 0
        found = cls(FileFormat(options.file_format), name, options.level, chunk_bytes)
        # Refuses level and chunk size now, not after all samples were read.
        found.open_sink(io.BytesIO())
        return found

    def open_sink(self, file: BinaryIO) -> RecordSink:
        """Return a writer of records to a binary file, which stays open.

        Raises:
            ConfigError: The codec has no such level, or the chunk size is out of range.
        """
        if self.file_format is FileFormat.RECORDIO:
            return RecordWriter(
                file,
                codec=Codec[self.codec.upper()],
                level=self.level,
                max_chunk_bytes=self.max_chunk_bytes,
            )
        return TFRecordWriter(file, Compression[self.codec.upper()], level=self.level)

    @classmethod
    def from_json(cls, value: Any) -> ShardFormat:
        """Read what ``to_json`` gives; KeyError, TypeError or ValueError for anything else."""
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
