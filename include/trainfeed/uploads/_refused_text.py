"""Reasons of refusals: messages about a file, with at most the first characters of its cells.

Refusals stand in logs, in Airflow and in files that every account can read; cells may be personal.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

__all__ = ["short_reason"]

_MAX_CHARS: Final = 2000
_MAX_CELL_CHARS: Final = 20
# A text in quotes, also one without its end quote, which a message has cut; can't has none.
_QUOTED: Final = re.compile(
    r"""(?<![^\Wb])(?:'(?P<one>(?:[^'\\]|\\.)*)(?:'|\\?$)|"(?P<two>(?:[^"\\]|\\.)*)(?:"|\\?$))""",
    re.DOTALL,
)


def short_reason(message: str, names: Collection[str]) -> str:
    """Return a message with texts in quotes cut behind 20 characters.

    Args:
        message: The message about a file.
        names: Names of fields, which are never cut.
    """

    def cut(found: re.Match[str]) -> str:
        text = found["one"] if found["one"] is not None else found["two"]
        if len(text) <= _MAX_CELL_CHARS or text in names:
            return found[0]
        quote = found[0][0]
        return f"{quote}{text[:_MAX_CELL_CHARS]}…{quote}"

    return _QUOTED.sub(cut, message)[:_MAX_CHARS].encode("utf-8", "replace").decode()
