"""``trainfeed build --training``: the built intervals that count as untrained."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from trainfeed.cli._printing import print_message
from trainfeed.cli.build._range_build import IntervalBuild
from trainfeed.config import Environment
from trainfeed.dataset import DatasetFolder, TrainingMarks, Untrained
from trainfeed.dataset.layout import parse_generation
from trainfeed.errors import ConfigError
from trainfeed.specification import DatasetSpec, TrainingWish

__all__ = ["Training", "declines", "require_training", "settle"]


# Reason in the mark: it names both causes, because a build of one interval cannot tell them apart.
_WHY: Final = "built with --training none, or with last and a later interval"


Training = Annotated[
    TrainingWish | None,
    typer.Option(
        help="Which of the built intervals the next run in Airflow, or train --catch-up, trains on:"
        " each (the default), the last of the range, or none."
    ),
]


def require_training(spec: DatasetSpec, wish: TrainingWish | None) -> None:
    """Refuse ``--training`` for a data set without a training.

    Raises:
        ConfigError: The data set has no training.
    """
    if wish is not None and spec.train is None:
        raise ConfigError(
            f"expected no --training, {spec.name} has no training; nothing was built; leave it out,"
            " or add 'train' to dataset.yaml"
        )


def declines(wish: TrainingWish | None, names: Sequence[str], name: str) -> str | None:
    """Return the reason why no training of an interval is wanted; None when one is wanted.

    Args:
        wish: The value of ``--training``.
        names: Names of the intervals of the range, in order.
        name: Name of the interval.
    """
    is_before = wish is TrainingWish.LAST and name != names[-1]
    return _WHY if is_before or wish is TrainingWish.NONE else None


def settle(
    spec: DatasetSpec,
    env: Environment,
    wish: TrainingWish | None,
    results: Sequence[IntervalBuild],
) -> None:
    """With ``last``: mark the newest built interval as untrained if the last one has no version.

    Args:
        spec: The data set.
        env: The environment.
        wish: The value of ``--training``.
        results: Result of each interval of the range, in order.
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
