"""Makes text from outside safe to show: no terminal acts on it, and secrets are replaced."""

from __future__ import annotations

import re
from typing import Final

_HIDDEN: Final = "***"
_SECRET: Final = re.compile(
    r"""(?ix)
    ( [\w.-]* (?: passw(?:or)?d | passphrase | secret | api[_-]?key | private[_-]?key
                | access[_-]?key | credential | authorization | token(?!s|i[sz]) ) [\w.-]*
      \\?["']? \s* [:=] \s* )
    ( \\?"(?:[^"\\]|\\[^"])*(?:\\?"|$) | '[^']*(?:'|$) | (?:(?:bearer|basic)\s+)? [^\s,;&"'}\]]+ )
    """
)
# A password may have a slash; what begins with a port and a slash is a path that has an @.
_USER_OF_URL: Final = re.compile(
    r"(?i)(\b[a-z][a-z0-9+.-]*://[^\s/@:]*):(?:[^\s/@]+|(?![0-9]{1,5}/)[^\s@]{1,500})@"
)


def printable(text: str, *, keep: str = "") -> str:
    """Return text with control and format characters replaced by escapes.

    Args:
        text: Any text, from a file, a record or the answer of a server.
        keep: Characters that stay unchanged, such as line ends.
    """
    return "".join(c if c.isprintable() or c in keep else ascii(c)[1:-1] for c in text)


def url_as_shown(url: str) -> str:
    """Return a URL without a password, and without its query, where drivers take passwords, too."""
    return without_secrets(url).partition("?")[0]


def without_secrets(text: str) -> str:
    """Return text with ``***`` for the values of what is named as password, token or key."""
    return _SECRET.sub(rf"\1{_HIDDEN}", _USER_OF_URL.sub(rf"\1:{_HIDDEN}@", text))
