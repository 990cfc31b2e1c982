"""The model that a command names, and the limits of the process that predicts with it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trainfeed.cli._known_datasets import readable_environment
from trainfeed.models import ChosenModel, Model, ModelsFolder
from trainfeed.prediction import ModelPlace, PredictionLimits
from trainfeed.specification import check_name, load_spec

__all__ = ["AcceptOtherCode", "Target", "TimeLimit", "chosen_place", "limits_of"]

Target = Annotated[
    str,
    typer.Argument(
        metavar="MODEL", help="NAME@prod, NAME@candidate or NAME/vNNNN; NAME alone is NAME@prod."
    ),
]
AcceptOtherCode = Annotated[
    bool,
    typer.Option(
        "--accept-other-code",
        help="Predict although today's preprocessing differs from that of the model's data; every"
        " prediction says so.",
    ),
]
TimeLimit = Annotated[
    float,
    typer.Option(
        "--time-limit", min=0.1, help="Seconds for the records that are predicted at once."
    ),
]


def chosen_place(target: str, *, accepts_other_code: bool) -> tuple[ChosenModel, ModelPlace]:
    """Return the named model, and the place of its version of today.

    Raises:
        ConfigError: ``target`` names no model.
        NotFoundError: There is no such model, or the alias points to none.
    """
    env = readable_environment()
    chosen = ChosenModel.parse(ModelsFolder(Path(env.root)), target)
    name = chosen.folder.name
    place = ModelPlace(Path(env.root), env.datasets, name, chosen.now(), accepts_other_code)
    return chosen, place


def limits_of(place: ModelPlace, time_s: float) -> PredictionLimits:
    """Return the limits of the process: its memory is that of a worker of the data set.

    Raises:
        NotFoundError: There is no such model or data set.
        SpecError: The specification of the data set is wrong.
    """
    model = Model.open(ModelsFolder(place.root).model(place.model), place.number)
    spec = load_spec(place.datasets / check_name(model.manifest.job.dataset))
    return PredictionLimits(time_s, spec.resources.worker_memory_bytes)
