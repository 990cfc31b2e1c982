"""The options of a decision: the reason, which only a dry run does without, and the person."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from trainfeed.errors import ConfigError

__all__ = ["Who", "Why", "reason_or_dry_run"]

Why = Annotated[str | None, typer.Option(help="The reason, which the history keeps.")]
Who = Annotated[str | None, typer.Option(help="By default the account.")]

# Stands where a decision has its reason; a dry run writes it nowhere.
_DRY_RUN: Final = "a dry run"


def reason_or_dry_run(why: str | None, *, dry_run: bool) -> str:
    """Return the reason of a decision.

    Raises:
        ConfigError: There is none, and this is no dry run.
    """
    if why is None and not dry_run:
        raise ConfigError("expected --why, or --dry-run; nothing was changed")
    return _DRY_RUN if why is None else why
