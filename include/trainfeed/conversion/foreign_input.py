"""Input files of other programs: opened without blocking on a pipe, read with limits."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from trainfeed.core.canonical_json import MAX_BYTES as MAX_JSON_BYTES
from trainfeed.files import FilePath, open_plain, read_plain

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
