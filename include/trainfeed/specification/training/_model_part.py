"""``train.model`` of a specification: the model's name, gate, promotion and transfers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field, ValidationInfo, field_validator, model_validator

from trainfeed.specification._spec_values import (
    Connection,
    EntryPoint,
    FieldName,
    Name,
    Number,
    Part,
    WrongValueError,
)

__all__ = ["MetricGate", "ModelSpec", "StoreFolderSpec"]

# Folders of a data set. A data set of an earlier trainfeed may be called "models", so its folders
# may lie beside those of models.
_RESERVED: Final = frozenset({"boundaries", "code", "plans", "training", "versions"})


def _store_path(text: str) -> str:
    first, *parts = text.split("/")
    if first or any(part in {"", ".", ".."} for part in parts):
        raise WrongValueError("an absolute path without '//', '.', '..' and a last '/'")
    if not text.isprintable() or "\\" in text:
        raise WrongValueError("a path without control characters and backslashes")
    return text


class MetricGate(Part):
    """The limits of one metric of a model.

    Attributes:
        min: Smallest allowed value.
        max: Largest allowed value.
        better: Whether ``higher`` or ``lower`` values are better.
        max_worse: Largest allowed difference by which the value may be worse than that of the
            promoted model on the same data.
    """

    min: Number | None = None
    max: Number | None = None
    better: Literal["higher", "lower"] = "higher"
    max_worse: Annotated[Number, Field(ge=0)] | None = None

    @model_validator(mode="after")
    def _has_a_limit(self) -> MetricGate:
        if self.min is None and self.max is None and self.max_worse is None:
            raise WrongValueError("min, max or max_worse, got none of them", shows_got=False)
        if self.min is not None and self.max is not None and self.min > self.max:
            raise WrongValueError(
                f"min at most max, got {self.min} and {self.max}", shows_got=False
            )
        return self


class StoreFolderSpec(Part):
    """A folder of a store, for the transfer of models.

    Attributes:
        path: Absolute path; the path begins at the root of the connection.
        connection: Name of the connection that has the store: HDFS, or a mounted file system.
    """

    path: Annotated[str, AfterValidator(_store_path)]
    connection: Connection = "hdfs_default"


class ModelSpec(Part):
    """The model that a training makes, and the gate that it must pass to be promoted.

    Attributes:
        name: Name of the model's folder, ``models/<name>`` of the publication root.
        metrics: Limits of each metric, by its name.
        evaluate: ``module:name`` of a function in the data set's folder that returns the metrics
            of the model in ``job.model``; without it the metrics are those of the training.
        predict: ``module:name`` of a function in the data set's folder that opens a model's folder
            and returns the function that predicts; see ``trainfeed.prediction``.
        labels: Fields of the schema that are unknown when a prediction is made: the function that
            predicts never gets them.
        complete: ``module:name`` of a function that makes a record without labels one that the
            preprocessing function takes.
        promote: Promotion of a model that passes its gate to ``prod``: ``automatic`` at once,
            ``approve`` after a person approves it in Airflow, ``by_hand`` by command or form only.
        download: Folder of the model from which the training starts. It is downloaded before the
            training, and its content belongs to the job's identity.
        upload: Folder of models. The DAG of the training uploads each version that it promotes, or
            with ``promote: by_hand`` each candidate, to ``<path>/<name>/<version>``. A promotion or
            rollback by command or form uploads nothing.
    """

    name: Name
    metrics: Annotated[Mapping[Name, MetricGate], Field(min_length=1)]
    evaluate: EntryPoint | None = None
    predict: EntryPoint | None = None
    labels: tuple[FieldName, ...] = ()
    complete: EntryPoint | None = None
    promote: Literal["automatic", "approve", "by_hand"] = "automatic"
    download: StoreFolderSpec | None = None
    upload: StoreFolderSpec | None = None

    @model_validator(mode="after")
    def _has_a_predictor(self) -> ModelSpec:
        for name, value in (("labels", self.labels), ("complete", self.complete)):
            if value and self.predict is None:
                raise WrongValueError(f"predict beside {name}, got only {name}", shows_got=False)
        return self

    @field_validator("name")
    @classmethod
    def _is_no_folder_of_a_data_set(cls, name: str, _: ValidationInfo) -> str:
        if name in _RESERVED:
            raise WrongValueError("a name that is not reserved", "choose another")
        return name
