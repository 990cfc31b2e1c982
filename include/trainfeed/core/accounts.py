"""Who decides something and why: the account of this process, the person, and the reason."""

from __future__ import annotations

import os
import pwd
from typing import Final

_MOST_CHARS: Final = 500
_LEAST_REASON_CHARS: Final = 3


def account_name() -> str:
    """Return the name of the account that this process runs as, ``uid 1000`` if it has none."""
    number = os.geteuid()
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"uid {number}"


def person(who: str, account: str) -> str:
    """Return who decided, with the account if it has another name; a name is not proved."""
    return who if who == account else f"{who} ({account})"


def reason_problem(text: str) -> str | None:
    """Return what is wrong with the reason of a decision, or None.

    Reasons stand in marks, logs and messages: 3 to 500 printable characters on one line.
    """
    return _problem("why", text, _LEAST_REASON_CHARS)


def name_problem(name: str, text: str) -> str | None:
    """Return what is wrong with a person or an account, or None.

    Args:
        name: Name of the value, for the message.
        text: The value: 1 to 500 printable characters on one line.
    """
    return _problem(name, text, 1)


def _problem(name: str, text: str, least: int) -> str | None:
    if least <= len(text.strip()) <= _MOST_CHARS and text.isprintable():
        return None
    return (
        f"expected {name} of {least} to {_MOST_CHARS} printable characters on one line, got"
        f" {text[:80]!r}"
    )
