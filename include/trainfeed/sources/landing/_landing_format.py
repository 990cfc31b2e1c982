"""Landing files: the records of one planned range, unchanged from the source.

A landing file is an Arrow IPC file of ``LANDING_SCHEMA`` compressed with zstd level 1::

    file     := batch* trailer          (and Arrow's own footer)
    batch    := 1 to BATCH_ROWS records, offsets ascending
    trailer  := batch of 0 rows; custom_metadata {trailer: 2, content: <32 hex digits>, …}

``content`` is the digest over all records; see ``_content_digest``. Files of earlier releases have
no number of the trailer, and another digest; they are read as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import BinaryIO, Final

import pyarrow as pa

from trainfeed.sources._topic import check_topic_name
from trainfeed.sources.landing._content_digest import CONTENT, KIND, TRAILER, ContentDigest

__all__ = [
    "BATCH_ROWS",
    "LANDING_SCHEMA",
    "LandingWriter",
    "landing_folder",
    "landing_name",
    "partition_folder",
]

LANDING_SCHEMA: Final = pa.schema(
    [
        ("offset", pa.int64()),
        ("timestamp", pa.int64()),  # milliseconds since 1970 UTC
        ("timestamp_type", pa.int8()),  # 0 none, 1 set by the producer, 2 set by the broker
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(pa.struct([("key", pa.utf8()), ("value", pa.binary())]))),
    ]
)
BATCH_ROWS: Final = 16_384


def landing_name(start: int, end: int) -> str:
    """Return the file name of the records of offsets ``[start, end)``."""
    return f"{start:020d}-{end:020d}.arrow"


def landing_folder(topic: str, uuid: str, partition: int) -> str:
    """Return the folder of a partition's landing files, relative to the landing area.

    Raises:
        ConfigError: ``topic`` or ``uuid`` could lead out of that area.
    """
    return f"{check_topic_name(topic)}/{check_topic_name(uuid)}/{partition_folder(partition)}"


def partition_folder(partition: int) -> str:
    """Return the name of the folder that holds a partition's files."""
    return f"p={partition}"


class LandingWriter:
    """Writes one landing file; without ``close`` the file is torn, and readers refuse it.

    Args:
        file: The file to write. The caller closes it, after ``close``.
    """

    def __init__(self, file: BinaryIO) -> None:
        options = pa.ipc.IpcWriteOptions(compression=pa.Codec("zstd", compression_level=1))
        self._writer = pa.ipc.new_file(file, LANDING_SCHEMA, options=options)
        self._digest = ContentDigest()

    @property
    def content(self) -> str:
        """Digest of the records written so far, as 32 hex digits."""
        return self._digest.hexdigest()

    def write(self, batch: pa.RecordBatch) -> None:
        """Append records; ``batch`` has ``LANDING_SCHEMA``.

        Raises:
            ValueError: The batch has another schema.
        """
        if not batch.schema.equals(LANDING_SCHEMA):
            raise ValueError(f"expected the schema of landing files, got {batch.schema}")
        for start in range(0, batch.num_rows, BATCH_ROWS):
            piece = batch.slice(start, BATCH_ROWS)
            self._digest.update(piece)
            self._writer.write_batch(piece)

    def close(self, metadata: Mapping[str, str]) -> None:
        """Write the trailer and Arrow's footer; the caller then closes its file.

        Args:
            metadata: Texts known only at the end, such as the ledger; number and digest are added.
        """
        trailer = pa.RecordBatch.from_pylist([], schema=LANDING_SCHEMA)
        entries = {**metadata, TRAILER: KIND, CONTENT: self.content}
        self._writer.write_batch(trailer, custom_metadata=entries)
        self._writer.close()
