"""Names a model and its data set for a process that predicts, and says what was opened."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from trainfeed.core.datacenters import local_source
from trainfeed.errors import ConfigError
from trainfeed.specification import DatasetSpec, ModelSpec


@dataclass(frozen=True)
class ModelPlace:
    """A version of a model, and the folders that it needs.

    Attributes:
        root: The publication root.
        datasets: The folder of data sets.
        model: Name of the model.
        number: Number of the version.
        accepts_other_code: Whether a difference of the preprocessing is accepted.
    """

    root: Path
    datasets: Path
    model: str
    number: int
    accepts_other_code: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "root", Path(local_source(self.root)))
        object.__setattr__(self, "datasets", Path(local_source(self.datasets)))


@dataclass(frozen=True)
class ModelFacts:
    """A model that was opened for predictions.

    Attributes:
        model: Name of the model.
        version: The version, such as ``v0003``.
        manifest_sha256: SHA-256 of the model's manifest, which has the digests of its files.
        dataset: The data set whose preprocessing is applied.
        data: The versions that the model was trained on, as interval/generation.
        fingerprints: Their fingerprints; None for one that was removed before the promotion.
        code: Digest of the preprocessing code that is applied.
        lookups: Digests of the lookups that are applied.
        training_code: Digest of all Python files of the data set when the model was trained.
        predicting_code: The same of now: the code of the function that predicts.
        other_code: Parts of the preprocessing that differ from those of the model's data, and were
            accepted; empty as a rule.
        unproven: Versions of the model's data that were removed, so that nothing is known of them.
    """

    model: str
    version: str
    manifest_sha256: str
    dataset: str
    data: tuple[str, ...]
    fingerprints: tuple[str | None, ...]
    code: str
    lookups: dict[str, str]
    training_code: str
    predicting_code: str
    other_code: tuple[str, ...]
    unproven: tuple[str, ...]

    @property
    def name(self) -> str:
        """``<model>/<version>``."""
        return f"{self.model}/{self.version}"

    def mark(self) -> dict[str, Any]:
        """Return what every prediction says of its model; accepted differences included."""
        told = {"other_code": list(self.other_code)} if self.other_code else {}
        return {"model": self.name, **told}

    def to_json(self) -> dict[str, Any]:
        """Return all facts as JSON values."""
        return asdict(self)

    def warnings(self) -> list[str]:
        """Return one sentence for each fact that a person should know of."""
        told = []
        if self.other_code:
            told.append(f"{self.name}: other preprocessing was accepted: {self.other_code}")
        if self.training_code != self.predicting_code:
            told.append(
                f"{self.name} was trained with the Python files {self.training_code[:16]}…, the"
                f" function that predicts is of {self.predicting_code[:16]}…"
            )
        if self.unproven:
            told.append(f"{self.name}: data that cannot be compared any more: {self.unproven}")
        return told


def predicting_model(spec: DatasetSpec) -> tuple[ModelSpec, str]:
    """Return ``train.model`` of a data set, and its function that predicts.

    Raises:
        ConfigError: The data set has none.
    """
    model = None if spec.train is None else spec.train.model
    if model is None or model.predict is None:
        raise ConfigError(
            f"expected train.model.predict in dataset.yaml of {spec.name!r}, got none; no"
            " prediction was made; add it: predict: module:name of a function that opens the"
            " model's folder and returns the function that predicts"
        )
    return model, model.predict
