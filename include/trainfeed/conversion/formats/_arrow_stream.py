"""Arrow IPC in its stream format, which ``save_to_disk`` of Hugging Face and Arrow Flight write.

A stream has no footer: it is a schema, batches, and a mark at the end. A file of it that was cut
between two batches still reads like a whole one, so the mark is required here, and nothing may
follow it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, BinaryIO, Final

import pyarrow as pa

from trainfeed.errors import FormatError, TruncatedError

__all__ = ["ArrowStream", "begins_stream"]

_CONTINUES: Final = b"\xff\xff\xff\xff"
# The description of columns is a few bytes a column.
_MAX_SCHEMA_BYTES: Final = 64 << 20


def begins_stream(head: bytes) -> bool:
    """Return whether a file begins as a stream does: a mark, then the length of its schema."""
    num_bytes = int.from_bytes(head[4:8], "little")
    return head[:4] == _CONTINUES and 0 < num_bytes <= _MAX_SCHEMA_BYTES and not num_bytes % 8


class ArrowStream:
    """An open file of a stream.

    Args:
        file: Read from its start on.

    Attributes:
        schema: Of the columns.

    Raises:
        TruncatedError: The file ends within the schema.
        FormatError: It begins with no schema.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = _Rest(file)
        self._reader = self._told(0, lambda: pa.ipc.open_stream(self._file))
        self.schema: pa.Schema = self._reader.schema

    def iter_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the batches, once; one is in memory at a time.

        Raises:
            TruncatedError: The file ends within a batch, or before the mark at the end.
            FormatError: A batch is damaged, or something follows the mark. Both say where.
        """
        while True:
            start = self._file.tell()
            batch = self._told(start, lambda: next(self._reader, None))
            if batch is None:
                self._require_end()
                return
            yield batch

    def _told(self, start: int, read: Any) -> Any:
        """Return what ``read`` gives; an error of pyarrow says where the message begins."""
        try:
            return read()
        except (pa.ArrowException, OSError, EOFError) as error:
            kind = TruncatedError if self._file.is_at_end() else FormatError
            what = "ends within" if kind is TruncatedError else "is damaged in"
            raise kind(
                f"the Arrow stream {what} the message that begins here: {error}", offset_bytes=start
            ) from error

    def _require_end(self) -> None:
        end = self._file.tell()
        # The length 0, which stands alone in streams of before 0.15. Told by how it is read: the
        # data of a dictionary before it may hold the same bytes.
        if self._file.last_read != bytes(4):
            raise TruncatedError(
                "expected the mark at the end of the Arrow stream, got the end of the file: batches"
                " may be missing; write it again, and close the writer",
                offset_bytes=end,
            )
        if not self._file.is_at_end():
            raise FormatError(
                "expected the end of the file after the end of the Arrow stream; one file holds one"
                " stream",
                offset_bytes=end,
            )


class _Rest:
    """A file of which no more is asked for than is there: lengths in a stream may say anything."""

    closed = False

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._num_bytes = os.fstat(file.fileno()).st_size
        self.last_read = b""

    def read(self, num_bytes: int) -> bytes:
        self.last_read = self._file.read(max(0, min(num_bytes, self._num_bytes - self.tell())))
        return self.last_read

    def tell(self) -> int:
        return self._file.tell()

    def is_at_end(self) -> bool:
        return self.tell() >= self._num_bytes

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def writable(self) -> bool:
        return False
