"""Input files of other programs: opened without blocking on a pipe, read with limits."""

from __future__ import annotations

import codecs
import io
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, cast

import pyarrow as pa

from trainfeed.core.canonical_json import MAX_BYTES as MAX_JSON_BYTES
from trainfeed.errors import FormatError
from trainfeed.files import FilePath, open_plain, read_plain
from trainfeed.sources.compressed_logs import Stream, decompressed
from trainfeed.sources.log_folders import COMPRESSIONS, HEAD_BYTES, compression_of

MAX_LINE_BYTES: Final = 16 << 20
_BUFFER_BYTES: Final = 1 << 20


def open_input(path: FilePath) -> AbstractContextManager[BinaryIO]:
    """Open a file for reading; an ``OSError`` of the block becomes an error of trainfeed.

    Raises:
        NotFoundError: There is no file at the path.
        FormatError: The path is a folder, a pipe or a device.
        StorageError: The file system refused or failed.
    """
    return open_plain(path, follow=True, buffering=_BUFFER_BYTES)


@contextmanager
def open_content(path: FilePath) -> Iterator[BinaryIO]:
    """Open a file for reading; what it is compressed with is told by its first bytes, or its name.

    Yields:
        The file, or the stream of what it decompresses to.

    Raises:
        FormatError: The file does not decompress, here or in a later read; as of ``open_input``.
        NotFoundError, StorageError: As of ``open_input``.
    """
    with open_input(path) as file:
        compression = _compression(path, file.read(HEAD_BYTES))
        file.seek(0)
        if compression == "none":
            yield file
            return
        raw = _Decompressed(file, compression, str(path))
        with closing(raw), io.BufferedReader(raw, _BUFFER_BYTES) as content:
            yield cast("BinaryIO", content)


def _compression(path: FilePath, head: bytes) -> str:
    shown = {each.name for each in COMPRESSIONS if head.startswith(each.magic)}
    named = compression_of(Path(path).name)
    # Hadoop's blocks of lz4 and snappy have no first bytes of their own, and BZh may be a word.
    if named in shown | {"lz4", "snappy"}:
        return named
    return next(iter(shown - {"bz2"}), "none")


class _Decompressed(io.RawIOBase):
    """The content of a compressed file; what is wrong with the file is a ``FormatError``."""

    def __init__(self, file: BinaryIO, compression: str, path: str) -> None:
        self._compression = compression
        self._path = path
        with self._named():
            self._stream: Stream = decompressed(file, compression)

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, into: memoryview, /) -> int:  # type: ignore[override]
        """Fill ``into`` as far as the stream has content; return how many bytes."""
        with self._named():
            data = self._stream.read(len(into))
        into[: len(data)] = data
        return len(data)

    def close(self) -> None:
        """Release the stream."""
        if not self.closed:
            self._stream.close()
        super().close()

    @contextmanager
    def _named(self) -> Iterator[None]:
        try:
            yield
        except (pa.ArrowException, EOFError, OSError, ValueError, zlib.error) as error:
            # An error with errno comes from the operating system, and does not mean damaged bytes.
            if isinstance(error, OSError) and error.errno is not None:
                raise
            raise FormatError(
                f"expected {self._compression}, got data that do not decompress: {error}",
                path=self._path,
            ) from error


def read_small(path: Path) -> bytes:
    """Return the content of a file of JSON, up to a limit of size.

    Raises:
        NotFoundError: There is no file at the path.
        FormatError: The path is not a plain file, or the file is larger than the limit.
    """
    return read_plain(path, follow=False, max_bytes=MAX_JSON_BYTES)


class Line(NamedTuple):
    """A line of a file.

    Attributes:
        number: Number of the line, from 1.
        offset_bytes: Offset of the line in the file.
        data: The line without its end; None for a line that is longer than allowed.
    """

    number: int
    offset_bytes: int
    data: bytes | None


def iter_lines(file: BinaryIO, *, max_line_bytes: int = MAX_LINE_BYTES) -> Iterator[Line]:
    """Yield the lines of a file; memory is needed for the longest allowed line only.

    A byte order mark of UTF-8 at the start of the file is left out of the first line.
    """
    number = offset_bytes = 0
    while data := file.readline(max_line_bytes + 2):
        number += 1
        start, offset_bytes = offset_bytes, offset_bytes + len(data)
        text = data.removesuffix(b"\n").removesuffix(b"\r")
        if not start:
            text = text.removeprefix(codecs.BOM_UTF8)
        if len(text) <= max_line_bytes:
            yield Line(number, start, text)
            continue
        while data and not data.endswith(b"\n"):
            data = file.readline(_BUFFER_BYTES)
            offset_bytes += len(data)
        yield Line(number, start, None)
