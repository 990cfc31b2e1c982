"""Text from elsewhere, made safe to show: no terminal and no log acts on a character of it."""

from __future__ import annotations

__all__ = ["printable"]


def printable(text: str, *, keep: str = "") -> str:
    """Return text whose control and format characters are spelt out as escapes.

    Args:
        text: Any text, from a file, a record or the answer of a server.
        keep: Characters that stay as they are, such as the ends of lines.
    """
    return "".join(c if c.isprintable() or c in keep else ascii(c)[1:-1] for c in text)
