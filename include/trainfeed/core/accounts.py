"""Who decides something and why: the account of this process, the person, and the reason."""

from __future__ import annotations

import os
import pwd
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from trainfeed.core.canonical_json import JsonFields, Time
from trainfeed.errors import ConfigError

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


def require_decision(why: str | None = None, **names: str) -> None:
    """Refuse a decision without a reason or a name.

    Args:
        why: The reason; None for a decision that needs none.
        **names: Persons and accounts.

    Raises:
        ConfigError: One of them is missing, too long, or not printable.
    """
    reason = None if why is None else reason_problem(why)
    for problem in filter(None, (reason, *(name_problem(*each) for each in names.items()))):
        raise ConfigError(f"{problem}; nothing was changed")


@dataclass(frozen=True, kw_only=True)
class Decided(JsonFields):
    """The members that every record of a decision has: who decided, why, and when.

    Attributes:
        who: The person, or the schedule of a DAG; the name is not proved.
        account: The account of the process, or the run of a scheduler, that acts for the person.
        why: The reason of the person, or the rule, as ``keep_days: 30``.
        at: Time, UTC, as ``2026-03-08T00:00:00Z``.
    """

    who: str
    account: str
    why: str
    at: Time

    @property
    def by(self) -> str:
        """The person, and the account if it has another name."""
        return person(self.who, self.account)


# What is known of the decision in a file that cannot be read.
NOBODY: Final = {"who": "", "account": "", "why": "", "at": ""}


@dataclass(frozen=True, kw_only=True)
class Decision(Decided):
    """A decision that was asked for.

    Attributes:
        request: Name of the request, such as a run of a DAG: it is carried out once. None for a
            command.
    """

    request: str | None = None

    @classmethod
    def now(
        cls,
        why: str,
        *,
        who: str | None = None,
        account: str | None = None,
        request: str | None = None,
    ) -> Decision:
        """Return a decision at this time.

        Args:
            why: The reason, 3 to 500 printable characters on one line.
            who: The person; None for the account.
            account: The account; None for that of this process.
            request: Name of the request, if it has one.

        Raises:
            ConfigError: A text is empty, too long, or not printable.
        """
        # Not at the top: most commands that name an account need no calendar.
        from trainfeed.core.intervals import format_time

        account = account or account_name()
        who = account if who is None else who
        require_decision(why, who=who, account=account)
        at = format_time(datetime.now(UTC))
        return Decision(who=who, account=account, why=why.strip(), at=at, request=request)


def _problem(name: str, text: str, least: int) -> str | None:
    if least <= len(text.strip()) <= _MOST_CHARS and text.isprintable():
        return None
    return (
        f"expected {name} of {least} to {_MOST_CHARS} printable characters on one line, got"
        f" {text[:80]!r}"
    )
