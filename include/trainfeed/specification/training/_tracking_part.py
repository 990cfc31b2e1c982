"""``train.tracking`` of a specification: the tools that show the training's metrics."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, ValidationInfo, field_validator

from trainfeed.specification._spec_values import Connection, Part, Text, WrongValueError

__all__ = ["TrackingSpec"]


class TrackingSpec(Part):
    """The tools that get the metrics of the training, beside its metrics log.

    Attributes:
        tensorboard: Whether rank 0 writes event files of TensorBoard into the job's folder.
        mlflow: Id of the connection of an MLflow tracking server; by default there is none.
        experiment: Name of the experiment on that server; by default the name of the data set.
    """

    tensorboard: bool = False
    mlflow: Connection | None = None
    experiment: Annotated[Text, Field(max_length=200)] | None = None

    @field_validator("experiment")
    @classmethod
    def _has_a_server(cls, experiment: str | None, info: ValidationInfo) -> str | None:
        if experiment is not None and info.data.get("mlflow", "") is None:
            raise WrongValueError("a connection mlflow beside experiment", "name the connection")
        return experiment
