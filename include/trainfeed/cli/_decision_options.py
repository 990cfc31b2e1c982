"""The options of a decision: the reason, which only a dry run does without, and the person."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from trainfeed.accounts import account_name, name_problem
from trainfeed.errors import ConfigError

__all__ = ["Who", "Why", "named_person", "reason_or_dry_run"]

Why = Annotated[str | None, typer.Option(help="The reason, which the history keeps.")]
Who = Annotated[str | None, typer.Option(help="By default the account.")]

# Stands where a decision has its reason; a dry run writes it nowhere.
_DRY_RUN: Final = "a dry run"


def named_person(who: str | None) -> str:
    """Return the person who decides, by default the account.

    Raises:
        ConfigError: The name is empty, as that of a variable that is not set, or cannot be printed.
    """
    person = account_name() if who is None else who
    if problem := name_problem("who", person):
        raise ConfigError(f"{problem}; nothing was changed; name the person, or leave --who out")
    return person


def reason_or_dry_run(why: str | None, *, dry_run: bool) -> str:
    """Return the reason of a decision.

    Raises:
        ConfigError: There is none, and this is no dry run.
    """
    if why is None and not dry_run:
        raise ConfigError("expected --why, or --dry-run; nothing was changed")
    return _DRY_RUN if why is None else why
