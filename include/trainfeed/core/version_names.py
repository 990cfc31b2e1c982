"""Names of tags and aliases, which stand for versions, and ``NAME@TAG`` of data.

Tags and aliases are two namespaces: the messages of a caller say which of them it searched.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from trainfeed.errors import ConfigError

_NAME: Final = re.compile(r"[a-z][a-z0-9._-]{0,62}")
# The form of numbers of generations and versions: no tag or alias may look like one.
_NUMBERED: Final = re.compile(r"[gv][0-9]+")
_RULE: Final = (
    "lower-case letters, digits, '.', '_' and '-', a letter first, at most 63 characters, and not"
    " the form of a generation or version such as g0001 or v0001"
)
_CHANGE: Final = re.compile(r"[0-9]{1,8}")


class NamedVersion(NamedTuple):
    """The two sides of ``NAME@TAG``.

    Attributes:
        name: The data set or model.
        version: The tag or alias; None without ``@``.
        change: Number of the change of the tag, 3 in ``flights@prod#3``; None for the newest.
    """

    name: str
    version: str | None
    change: int | None


def check_version_name(text: str, *, what: str) -> str:
    """Return ``text`` if a tag or an alias may have that name.

    Args:
        text: The name.
        what: ``tag`` or ``alias``, for the message.

    Raises:
        ConfigError: The name is not valid, or looks like that of a version.
    """
    if _NAME.fullmatch(text) is None or _NUMBERED.fullmatch(text) is not None:
        raise ConfigError(f"expected the name of a {what} ({_RULE}), got {text[:80]!r}")
    return text


def split_version_name(text: str) -> NamedVersion:
    """Split ``NAME``, ``NAME@TAG`` or ``NAME@TAG#3``; names are neither checked nor looked up.

    Raises:
        ConfigError: ``@`` has nothing before or behind it, or ``#`` no number behind it.
    """
    name, at, rest = text.partition("@")
    if not at:
        return NamedVersion(name, None, None)
    version, sign, change = rest.partition("#")
    if not name or not version or (sign and not _CHANGE.fullmatch(change)):
        raise ConfigError(f"expected NAME@TAG, or NAME@TAG#3 for a change of it, got {text[:80]!r}")
    return NamedVersion(name, version, int(change) if sign else None)
