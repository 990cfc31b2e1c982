"""Files of other programs: opened without waiting, read without trusting."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from trainfeed.dataset.canonical import MAX_BYTES as MAX_JSON_BYTES
from trainfeed.paths import FilePath, open_plain, read_plain

__all__ = ["MAX_LINE_BYTES", "Line", "iter_lines", "open_input", "read_small"]

MAX_LINE_BYTES: Final = 16 << 20
_BUFFER_BYTES: Final = 1 << 20


def open_input(path: FilePath) -> AbstractContextManager[BinaryIO]:
    """Open a file for reading; an ``OSError`` of the block is raised as what it means for ``path``.

    Raises:
        NotFoundError: Nothing has the name.
        FormatError: A folder, a pipe or a device has it.
        StorageError: The file system refused or failed.
    """
    return open_plain(path, follow=True, buffering=_BUFFER_BYTES)


def read_small(path: Path) -> bytes:
    """Return what a file of JSON holds, if it is no larger than such files are.

    Raises:
        NotFoundError: Nothing has the name.
        FormatError: Something else than a file has it, or it is larger.
    """
    return read_plain(path, follow=False, max_bytes=MAX_JSON_BYTES)


class Line(NamedTuple):
    """A line of a file.

    Attributes:
        number: From 1.
        offset_bytes: Where it starts.
        data: Without the end of line; None where the line is longer than allowed.
    """

    number: int
    offset_bytes: int
    data: bytes | None


def iter_lines(file: BinaryIO, *, max_line_bytes: int = MAX_LINE_BYTES) -> Iterator[Line]:
    """Yield the lines of a file, in memory for the longest one that is allowed.

    The mark that some programs put before text in UTF-8 is no part of the first line.
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
