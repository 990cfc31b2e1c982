"""Arrow IPC in its stream format, which ``save_to_disk`` of Hugging Face and Arrow Flight write.

A stream has no footer: it consists of a schema, batches, and an end mark. Readers accept a file
that was truncated between two batches. So the end mark is required here, and no bytes may follow
it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, BinaryIO, Final

import pyarrow as pa

from trainfeed.errors import FormatError, TruncatedError

__all__ = ["ArrowStream", "begins_stream"]

_CONTINUES: Final = b"\xff\xff\xff\xff"
# A schema takes a few bytes per column; a larger number is not a length.
_MAX_SCHEMA_BYTES: Final = 64 << 20


def begins_stream(head: bytes) -> bool:
    """Return whether a file begins like a stream: a mark, then the length of the schema."""
    num_bytes = int.from_bytes(head[4:8], "little")
    return head[:4] == _CONTINUES and 0 < num_bytes <= _MAX_SCHEMA_BYTES and not num_bytes % 8


class ArrowStream:
    """An open file in the stream format.

    Args:
        file: The file; read from its start.

    Attributes:
        schema: Schema of the columns.

    Raises:
        TruncatedError: The file ends inside the schema.
        FormatError: The file does not begin with a schema.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = _Rest(file)
        self._reader = self._told(0, lambda: pa.ipc.open_stream(self._file))
        self.schema: pa.Schema = self._reader.schema

    def iter_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the batches, once; one batch is in memory at a time.

        Raises:
            TruncatedError: The file ends inside a batch, or before the end mark; has the offset.
            FormatError: A batch is damaged, or bytes follow the end mark; has the offset.
        """
        while True:
            start = self._file.tell()
            batch = self._told(start, lambda: next(self._reader, None))
            if batch is None:
                self._require_end()
                return
            yield batch

    def _told(self, start: int, read: Any) -> Any:
        """Return the result of ``read``; errors of pyarrow get the offset of the message."""
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
        # The end mark is the length 0, without a mark before it in streams of Arrow before 0.15.
        # The last read shows it; the last bytes of the file would not do, because the data of a
        # dictionary batch may end with the same bytes.
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
    """A file that limits reads to its size: a damaged length must not allocate memory."""

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
