"""``trainfeed build --training``: which of the intervals that are built count as untrained."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

from trainfeed.cli._printing import print_message
from trainfeed.cli._range_build import IntervalBuild
from trainfeed.config import Environment
from trainfeed.dataset import DatasetFolder, TrainingMarks, Untrained
from trainfeed.dataset.layout import parse_generation
from trainfeed.errors import ConfigError
from trainfeed.specification import DatasetSpec

__all__ = ["Training", "TrainingWish", "declines", "require_training", "settle"]


# The command of one interval of a range knows no other interval.
_WHY: Final = "built with --training none, or with last and a later interval"


class TrainingWish(StrEnum):
    """Which intervals of a build are wanted by a training."""

    EACH = "each"
    LAST = "last"
    NONE = "none"


Training = Annotated[
    TrainingWish | None,
    typer.Option(
        help="Which of the built intervals the next run in Airflow, or train --catch-up, trains on:"
        " each (the default), the last of the range, or none."
    ),
]


def require_training(spec: DatasetSpec, wish: TrainingWish | None) -> None:
    """Refuse ``--training`` for a data set that has none.

    Raises:
        ConfigError: There is nothing to wish for.
    """
    if wish is not None and spec.train is None:
        raise ConfigError(
            f"expected no --training, {spec.name} has no training; nothing was built; leave it out,"
            " or add 'train' to dataset.yaml"
        )


def declines(wish: TrainingWish | None, names: Sequence[str], name: str) -> str | None:
    """Return why no training of ``name`` is wanted; None when one is.

    Args:
        wish: What was asked for.
        names: The intervals of the range, in order.
        name: One of them.
    """
    is_before = wish is TrainingWish.LAST and name != names[-1]
    return _WHY if is_before or wish is TrainingWish.NONE else None


def settle(
    spec: DatasetSpec,
    env: Environment,
    wish: TrainingWish | None,
    results: Sequence[IntervalBuild],
) -> None:
    """Want the training of the newest interval that has a version, where the last has none.

    Args:
        spec: The data set.
        env: Where things are.
        wish: What was asked for.
        results: Of every interval of the range, in order.
    """
    built = [each for each in results if "generation" in each.report]
    if wish is not TrainingWish.LAST or not built or built[-1] is results[-1]:
        return
    newest = built[-1]
    version = Untrained(newest.interval, parse_generation(newest.report["generation"]))
    TrainingMarks(DatasetFolder(Path(env.root), spec.name)).accept(version)
    print_message(
        f"training: {results[-1].interval} has no version, so {newest.interval} is the last that"
        " counts as untrained"
    )
