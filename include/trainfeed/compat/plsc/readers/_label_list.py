"""``label.txt``: the images of a folder and their labels, checked line by line before a training.

A line is ``path label`` with blanks between them. The path is relative to the folder and may have
blanks itself. Empty lines are left out.
"""

from __future__ import annotations

import os
import re
from array import array
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trainfeed.errors import FormatError
from trainfeed.paths import listed, open_plain

__all__ = ["LABEL_LIST", "LabelList", "Row", "read_label_list"]

LABEL_LIST: Final = "label.txt"
_MAX_LINE_BYTES: Final = 1 << 16
_BUFFER_BYTES: Final = 1 << 20
# Folders whose names are kept while the lines are checked: lists are usually in order of folders.
_KEPT_FOLDERS: Final = 64
_LABEL: Final = re.compile(rb"[+-]?[0-9]{1,18}")


class Row(NamedTuple):
    """A line of the list.

    Attributes:
        number: Number of the line, from 1.
        path: Path of the image, relative to the folder.
        label: Number of the class.
    """

    number: int
    path: str
    label: int


class LabelList:
    """All lines of a list, in arrays: millions of lines take little more memory than the file."""

    def __init__(self) -> None:
        self._paths = bytearray()
        self._ends = array("q", [0])
        self._numbers = array("q")
        self._labels = array("q")

    def __len__(self) -> int:
        return len(self._labels)

    def __getitem__(self, index: int) -> Row:
        path = self._paths[self._ends[index] : self._ends[index + 1]]
        return Row(self._numbers[index], os.fsdecode(bytes(path)), self._labels[index])

    @property
    def labels(self) -> NDArray[np.int64]:
        """The labels, shape ``(len(self),)``."""
        return np.array(self._labels, np.int64)

    def add(self, row: Row) -> None:
        """Add a line."""
        self._paths += os.fsencode(row.path)
        self._ends.append(len(self._paths))
        self._numbers.append(row.number)
        self._labels.append(row.label)


def read_label_list(folder: Path, num_classes: int | None) -> LabelList:
    """Read the list of a folder of images.

    Args:
        folder: The folder with ``label.txt``.
        num_classes: Labels must be from 0 to ``num_classes - 1``; None for any from 0 on.

    Raises:
        NotFoundError: There is no list.
        FormatError: A line is wrong, or its file is missing, or there is no line; the message has
            the number of the line.
    """
    path, found = folder / LABEL_LIST, LabelList()
    names = lru_cache(_KEPT_FOLDERS)(_names_in)
    with open_plain(path, follow=True, buffering=_BUFFER_BYTES) as file:
        for number, line in enumerate(iter(lambda: file.readline(_MAX_LINE_BYTES), b""), 1):
            try:
                if line.strip():
                    row = _row(line, number, num_classes)
                    _require_file(folder, row.path, names)
                    found.add(row)
            except FormatError as error:
                raise FormatError(f"line {number}: {error}", path=str(path)) from None
    if not len(found):
        raise FormatError("expected lines 'path label', got none", path=str(path))
    return found


def _row(line: bytes, number: int, num_classes: int | None) -> Row:
    if not line.endswith(b"\n") and len(line) == _MAX_LINE_BYTES:
        raise FormatError(f"expected a line of at most {_MAX_LINE_BYTES} bytes, got more")
    columns = line.rsplit(None, 1)
    if len(columns) != 2 or not _LABEL.fullmatch(columns[1]):
        raise FormatError(f"expected 'path label' with a whole number, got {_shown(line)}")
    path, label = os.fsdecode(columns[0].strip()), int(columns[1])
    if path.startswith("/") or "\0" in path or {"", ".."} & set(path.split("/")):
        raise FormatError(f"expected a path inside the folder, got {_shown(columns[0])}")
    if label < 0 or (num_classes is not None and label >= num_classes):
        most = "on" if num_classes is None else f"to {num_classes - 1}"
        raise FormatError(f"expected a label from 0 {most}, got {label}; see set_class_num()")
    return Row(number, path, label)


def _require_file(folder: Path, path: str, names: Callable[[str], frozenset[str]]) -> None:
    above, _, name = f"{folder}/{path}".rpartition("/")
    if name not in names(above):
        raise FormatError(f"expected an image {folder / path}, there is none")


def _names_in(folder: str) -> frozenset[str]:
    # A listing per folder instead of a question per file: lists have millions of lines.
    return frozenset(path.name for path in listed(folder))


def _shown(text: bytes) -> str:
    return repr(text[:100].decode("utf-8", "backslashreplace"))
