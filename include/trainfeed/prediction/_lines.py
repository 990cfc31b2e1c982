"""Lines of files, or of standard input, as records; read once, in bounded memory."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from itertools import chain
from pathlib import Path
from typing import BinaryIO, Final

from trainfeed.datacenters import local_source
from trainfeed.errors import FormatError
from trainfeed.paths import open_plain
from trainfeed.prediction._records import (
    RawRecord,
    RecordForm,
    WrongRecordError,
    read_json,
    record_of_json,
)

__all__ = ["STANDARD_INPUT", "read_lines"]

STANDARD_INPUT: Final = "-"
_MAX_LINE_BYTES: Final = 16 << 20
_COMPRESSED: Final = (".gz", ".zst", ".bz2", ".xz", ".zip")


def read_lines(names: Sequence[str], form: RecordForm) -> Iterator[RawRecord]:
    """Yield the record of every line, in the order of the files.

    A line ends with LF, and one CR before the LF belongs to the end; the last line may lack it. In
    the form ``value`` the bytes of a line are the value of a record; in the form ``record`` a line
    is a JSON object, see ``RecordForm``.

    Args:
        names: Paths of files; ``-`` for standard input.
        form: Form of the lines.

    Raises:
        NotFoundError: A file does not exist.
        FormatError: A line is too long, or no record of the form; a file is compressed.
        StorageError: A file cannot be read.
    """
    return chain.from_iterable(_of_file(name, form) for name in names)


def _of_file(name: str, form: RecordForm) -> Iterator[RawRecord]:
    if name.endswith(_COMPRESSED):
        raise FormatError(
            f"expected a file of plain lines, got the name {name!r}; no prediction of it was made;"
            " decompress it, such as: zcat FILE | trainfeed predict MODEL -",
            path=name,
        )
    is_input = name == STANDARD_INPUT
    opened = (
        nullcontext(sys.stdin.buffer)
        if is_input
        else open_plain(Path(local_source(name)), follow=True)
    )
    with opened as file:
        for number, line in enumerate(_lines(file, name), start=1):
            if form is RecordForm.VALUE:
                yield RawRecord(line)
                continue
            try:
                yield record_of_json(read_json(line), form)
            except WrongRecordError as error:
                raise FormatError(
                    f"line {number} is no record: {error}; no prediction of it and of later lines"
                    " was made; correct the line",
                    path=name,
                ) from error


def _lines(file: BinaryIO, name: str) -> Iterator[bytes]:
    number = 0
    while line := file.readline(_MAX_LINE_BYTES + 1):
        number += 1
        if len(line) > _MAX_LINE_BYTES:
            raise FormatError(
                f"line {number} is longer than {_MAX_LINE_BYTES} bytes; no prediction of it and of"
                " later lines was made; shorten it, or take it out",
                path=name,
            )
        yield line.removesuffix(b"\n").removesuffix(b"\r") if line.endswith(b"\n") else line
