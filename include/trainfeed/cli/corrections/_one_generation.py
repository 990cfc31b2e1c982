"""``NAME/INTERVAL`` or ``NAME/INTERVAL/gNNNN``, as commands are given one version to correct."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import typer

from trainfeed.cli._known_datasets import complete_target
from trainfeed.cli._look_target import parse_target
from trainfeed.errors import ConfigError

__all__ = ["OneGeneration", "Target", "one_generation"]

Target = Annotated[
    str,
    typer.Argument(help="NAME/INTERVAL or NAME/INTERVAL/gNNNN.", autocompletion=complete_target),
]


class OneGeneration(NamedTuple):
    """Data set, interval, and number of a generation; None if the text names none."""

    name: str
    interval: str
    generation: int | None


def one_generation(text: str) -> OneGeneration:
    """Read the target of a known data set.

    Raises:
        ConfigError: It is another kind of target.
        NotFoundError: The data set is unknown; the message has the nearest name.
    """
    found = parse_target(text)
    if found.tag is not None or found.asked is None or "/" in found.asked:
        raise ConfigError(
            f"expected one interval, as NAME/INTERVAL or NAME/INTERVAL/gNNNN, got {text[:80]!r};"
            " nothing was changed"
        )
    return OneGeneration(found.folder.name, found.asked, found.generation)
