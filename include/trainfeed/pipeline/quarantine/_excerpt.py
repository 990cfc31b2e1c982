"""Shows what a record holds in messages, reports and logs: short, printable, without secrets.

Records come from elsewhere, and messages travel: to logs, to the database of a scheduler, to a
browser. The quarantine itself keeps every byte, and only the account that builds may read it.
"""

from __future__ import annotations

from typing import Final

from trainfeed.printable_text import printable, without_secrets

__all__ = ["MOST_CHARS", "excerpt", "plain"]

MOST_CHARS: Final = 160

# A secret that begins within what is shown may end behind it.
_LOOKED_AT: Final = 4


def plain(text: str, most_chars: int = MOST_CHARS) -> str:
    """Return text on one line that no terminal acts on, shortened, with secrets replaced."""
    head = without_secrets(text[: _LOOKED_AT * most_chars])
    shown = printable(head)
    if len(shown) <= most_chars and len(head) <= len(text) <= _LOOKED_AT * most_chars:
        return shown
    return f"{shown[:most_chars]}… ({len(text)} characters)"


def excerpt(data: bytes | None, most_chars: int = MOST_CHARS) -> str:
    """Return what a value holds: text as text, other bytes in hexadecimal, ``null`` for none.

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
    """Return UTF-8 as text; the last character may be cut, and there is no NUL in text."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        is_cut = error.end == len(data) and "unexpected end of data" in error.reason
        if not is_cut:
            return None
        text = data[: error.start].decode()
    return None if "\0" in text else text
