"""Rows of base64 image files: ``base64<TAB>label`` or ``label<TAB>base64``."""

from __future__ import annotations

import base64
import binascii
import json
import re
from typing import Final, NamedTuple

__all__ = ["BadRow", "GoodRow", "Row", "parse_row"]

_LABEL: Final = re.compile(rb"[+-]?[0-9]{1,19}")
_INT64: Final = 1 << 63
_SHOWN_BYTES: Final = 256


class GoodRow(NamedTuple):
    """A valid row.

    Attributes:
        image: Base64 text.
        label: A number that fits an int64.
    """

    image: bytes
    label: int

    def dump(self) -> bytes:
        """Return the row as the tool writes it, with the end of line."""
        return b"%s\t%d\n" % (self.image, self.label)


class BadRow(NamedTuple):
    """An invalid row, for the quarantine."""

    reason: str
    data: bytes

    def dump(self, file: str, number: int) -> bytes:
        """Return a line of the quarantine: place of the row, reason, and its first bytes."""
        raw = self.data[:_SHOWN_BYTES].decode("utf-8", "backslashreplace")
        value = {"file": file, "line": number, "reason": self.reason, "raw": raw}
        return json.dumps(value).encode() + b"\n"


Row = GoodRow | BadRow


def parse_row(data: bytes | None) -> Row:
    """Parse a row.

    The label is the column that is an integer; the other column must be base64. If both columns
    could be either, the first one is the image.

    Args:
        data: The line without its end; None for a line that is too long.
    """
    if data is None:
        return BadRow("the line is too long", b"")
    columns = data.strip(b" ").split(b"\t")
    if len(columns) != 2:
        return BadRow(f"expected 2 columns, got {len(columns)}", data)
    first, second = (column.strip(b" ") for column in columns)
    for image, label in ((first, second), (second, first)):
        if _is_label(label) and _is_base64(image):
            return GoodRow(image, int(label))
    if not (_is_label(first) or _is_label(second)):
        return BadRow("no column is an integer label", data)
    return BadRow("the column beside the label is no base64", data)


def _is_label(text: bytes) -> bool:
    return _LABEL.fullmatch(text) is not None and -_INT64 <= int(text) < _INT64


def _is_base64(text: bytes) -> bool:
    try:
        return bool(base64.b64decode(text, validate=True))
    except binascii.Error:
        return False
