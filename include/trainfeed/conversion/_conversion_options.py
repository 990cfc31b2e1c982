"""What the files of a conversion are, and what the conversion may take."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import BinaryIO, Final, TypeAlias

from trainfeed.dataset.shards import FileFormat, ShardFormat
from trainfeed.errors import ConfigError
from trainfeed.recordio import Codec, RecordWriter
from trainfeed.tfrecord import Compression, TFRecordWriter

__all__ = ["AnyCodec", "ConvertOptions", "OnProgress", "RecordSink", "open_sink"]

AnyCodec: TypeAlias = Codec | Compression | str
OnProgress: TypeAlias = Callable[[int, int], None]
RecordSink: TypeAlias = RecordWriter | TFRecordWriter

_LEAST_MEMORY_BYTES: Final = 1 << 16


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

    def shard_format(self, codec: AnyCodec) -> ShardFormat:
        """Return the format of shards for a codec, given as such or by name.

        Raises:
            ConfigError: The container has no such codec, the codec no such level, or the chunk size
                is out of range.
        """
        name = codec.name.lower() if isinstance(codec, Codec | Compression) else codec.lower()
        is_recordio = self.file_format == FileFormat.RECORDIO
        known = [each.name.lower() for each in (Codec if is_recordio else Compression)]
        if name not in known:
            raise ConfigError(
                f"expected a codec of {self.file_format} ({', '.join(known)}), got {codec!r}"
            )
        chunk_bytes = self.max_chunk_bytes if is_recordio else 0
        found = ShardFormat(FileFormat(self.file_format), name, self.level, chunk_bytes)
        # Refuses level and chunk size now, not after all samples were read.
        open_sink(found, io.BytesIO())
        return found


def open_sink(shard_format: ShardFormat, file: BinaryIO) -> RecordSink:
    """Return a writer of records to a binary file, which stays open.

    Raises:
        ConfigError: The codec has no such level, or the chunk size is out of range.
    """
    if shard_format.file_format is FileFormat.RECORDIO:
        return RecordWriter(
            file,
            codec=Codec[shard_format.codec.upper()],
            level=shard_format.level,
            max_chunk_bytes=shard_format.max_chunk_bytes,
        )
    compression = Compression[shard_format.codec.upper()]
    return TFRecordWriter(file, compression, level=shard_format.level)
