"""The arguments [NAME] [RANGE] of commands that look at all data sets by default."""

from __future__ import annotations

from typing import Annotated

import typer

from trainfeed.cli._known_datasets import complete_target
from trainfeed.errors import ConfigError

__all__ = ["NameOrAll", "RangeOrAll", "name_and_range"]

NameOrAll = Annotated[
    str | None,
    typer.Argument(
        help="NAME or NAME/RANGE; by default all data sets.", autocompletion=complete_target
    ),
]
RangeOrAll = Annotated[
    str | None,
    typer.Argument(metavar="[RANGE]", help="2013-01-01, 2013-01, a/b; by default all."),
]


def name_and_range(name: str, asked: str | None) -> tuple[str, str | None]:
    """Return the data set, and the range that stands in one of the two arguments.

    Raises:
        ConfigError: The range stands in both.
    """
    name, _, rest = name.partition("/")
    if rest and asked:
        raise ConfigError(
            f"expected the range once, as NAME/RANGE or NAME RANGE, got {rest!r} and {asked!r}"
        )
    return name, rest or asked
