"""Excerpts of records for messages, reports and logs: short, printable, without secrets.

Records come from outside, and messages reach logs, the database of a scheduler and browsers. The
quarantine itself keeps the raw bytes, and only the account that builds may read it.
"""

from __future__ import annotations

from typing import Final

from trainfeed.printable_text import printable, without_secrets

__all__ = ["MOST_CHARS", "excerpt", "plain"]

MOST_CHARS: Final = 160

# So many times the shown characters are searched: a secret that begins in the shown part may end
# behind it.
_LOOKED_AT: Final = 4


def plain(text: str, most_chars: int = MOST_CHARS) -> str:
    """Return text as one printable line, cut, with secrets replaced by ``***``."""
    head = without_secrets(text[: _LOOKED_AT * most_chars])
    shown = printable(head)
    if len(shown) <= most_chars and len(head) <= len(text) <= _LOOKED_AT * most_chars:
        return shown
    return f"{shown[:most_chars]}… ({len(text)} characters)"


def excerpt(data: bytes | None, most_chars: int = MOST_CHARS) -> str:
    """Return the beginning of a value: text as text, other bytes in hexadecimal, None as ``null``.

    Args:
        data: The value of a record, or the beginning of it.
        most_chars: Characters to show; a longer value says how long it is.
    """
    if data is None:
        return "null"
    if (text := _decoded(data)) is not None:
        return plain(text, most_chars)
    head = data[: most_chars // 2]
    more = "…" if len(head) < len(data) else ""
    return f"0x{head.hex()}{more} ({len(data)} bytes, not text)"


def _decoded(data: bytes) -> str | None:
    """Return UTF-8 as text, also if the last character is cut; None for bytes with NUL."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        is_cut = error.end == len(data) and "unexpected end of data" in error.reason
        if not is_cut:
            return None
        text = data[: error.start].decode()
    return None if "\0" in text else text
