"""The intervals that a command is asked for, as NAME/INTERVAL, NAME/FIRST/LAST or --interval."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from trainfeed.cli._known_datasets import complete_target
from trainfeed.config import Environment, environment_from_environ
from trainfeed.errors import ConfigError
from trainfeed.intervals import Interval
from trainfeed.specification import DatasetSpec, check_name, load_spec

__all__ = ["Intervals", "Json", "Name", "is_range", "open_asked"]

Name = Annotated[
    str,
    typer.Argument(
        help="NAME of a data set, NAME/INTERVAL or NAME/FIRST/LAST.", autocompletion=complete_target
    ),
]
Intervals = Annotated[
    str | None,
    typer.Option(
        "--interval",
        help="Interval or range, both ends included: 2013-01-01, 2013-01, 2013-01-01T05, a/b.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON; a list for a range.")]


def open_asked(name: str, interval: str | None) -> tuple[DatasetSpec, Environment, str]:
    """Return specification, environment, and the requested range."""
    name, _, place = name.partition("/")
    env = environment_from_environ()
    spec = load_spec(env.datasets / check_name(name))
    if (asked := interval or place) == "" or (interval and place):
        raise ConfigError(
            "expected the interval or range once, as NAME/INTERVAL, NAME/FIRST/LAST or --interval,"
            f" got {'both' if place else 'none'}; such as"
            f" {name} --interval {spec.schedule_model().first_name}"
        )
    return spec, env, asked


def is_range(chosen: Sequence[Interval], asked: str) -> bool:
    """Whether a range was asked for: results are lists then, even of one interval."""
    return "/" in asked or len(chosen) > 1
