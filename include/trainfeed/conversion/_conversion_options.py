"""Options of a conversion: the format of its files, and the memory and folders that it may use."""

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
    """Options that are seldom changed; none of them changes the place of a sample.

    Attributes:
        file_format: RecordIO or TFRecord files.
        level: Level of compression; None for the default of the codec.
        max_chunk_bytes: Bytes of records at which a chunk of RecordIO is closed.
        memory_bytes: Approximate bytes of records that are in memory at a time. The process grows
            by about twice this number; a single record may take more.
        work_dir: Folder for the encoded samples between reading and writing, in files without a
            name; None for the file system of the output. It needs room for all samples.
        on_progress: Called now and then with the numbers of samples read and written so far.

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
        """Return the format of shards for a codec or the name of one.

        Raises:
            ConfigError: The file format does not have the codec, or the codec does not have the
                level, or the chunk size is out of range.
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
        # Refuses a wrong level or chunk size now, not after all samples were read.
        open_sink(found, io.BytesIO())
        return found


def open_sink(shard_format: ShardFormat, file: BinaryIO) -> RecordSink:
    """Return a writer of records to a binary file, which stays open.

    Raises:
        ConfigError: The codec does not have the level, or the chunk size is out of range.
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
