"""Who does something: the account of this process, and the person behind it."""

from __future__ import annotations

import os
import pwd

__all__ = ["account_name", "person"]


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
