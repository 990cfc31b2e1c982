"""Makes text from outside safe to show: terminals and logs act on none of its characters."""

from __future__ import annotations

__all__ = ["printable"]


def printable(text: str, *, keep: str = "") -> str:
    """Return text with control and format characters replaced by escapes.

    Args:
        text: Any text, from a file, a record or the answer of a server.
        keep: Characters that stay unchanged, such as line ends.
    """
    return "".join(c if c.isprintable() or c in keep else ascii(c)[1:-1] for c in text)
