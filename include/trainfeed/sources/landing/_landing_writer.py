"""Writes landing files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import BinaryIO

import pyarrow as pa

from trainfeed.sources.landing._landing_format import (
    BATCH_ROWS,
    CONTENT,
    LANDING_SCHEMA,
    ContentDigest,
)

__all__ = ["LandingWriter"]


class LandingWriter:
    """Writes one landing file; without ``close`` it is torn, and readers say so.

    Args:
        file: Where to write. The caller closes it, after ``close``.
    """

    def __init__(self, file: BinaryIO) -> None:
        options = pa.ipc.IpcWriteOptions(compression=pa.Codec("zstd", compression_level=1))
        self._writer = pa.ipc.new_file(file, LANDING_SCHEMA, options=options)
        self._digest = ContentDigest()

    @property
    def content(self) -> str:
        """Digest of the records written so far, as 64 hex digits."""
        return self._digest.hexdigest()

    def write(self, batch: pa.RecordBatch) -> None:
        """Append records; ``batch`` has ``LANDING_SCHEMA``.

        Raises:
            ValueError: It has another schema.
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
            metadata: What is known only now, such as the ledger; ``content`` is added.
        """
        trailer = pa.RecordBatch.from_pylist([], schema=LANDING_SCHEMA)
        entries = {**metadata, CONTENT: self.content}
        self._writer.write_batch(trailer, custom_metadata=entries)
        self._writer.close()
