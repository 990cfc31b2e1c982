"""A model with the preprocessing of its data set: records in, predictions out, in their order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Self

import numpy as np

from trainfeed.dataset import DatasetFolder, Manifest
from trainfeed.errors import CodeChangedError, ConfigError, PredictionError
from trainfeed.models import Model, ModelsFolder, model_version
from trainfeed.prediction._opened_model import ModelFacts, ModelPlace, predicting_model
from trainfeed.prediction._record_outcome import Outcome, OutcomeKind
from trainfeed.prediction._records import RawRecord
from trainfeed.prediction._samples import SampleMaker
from trainfeed.prediction._skew import (
    Preprocessing,
    find_skew,
    preprocessing_of,
    preprocessing_today,
)
from trainfeed.prediction._user_predictor import Arrays, UserPredictor
from trainfeed.specification import DatasetSpec, check_name, load_spec
from trainfeed.usercode import digest_of_texts, load_training_function, training_texts

__all__ = ["Predictor"]

_PREDICTED: Final = OutcomeKind.PREDICTED


class Predictor:
    """A model that predicts, and the preprocessing that makes its samples.

    Runs the code of users in this process; ``ModelWorker`` has it in a process of its own. One
    process opens one model: the modules of the data set are imported once.

    Args:
        facts: Description of the model.
        maker: Makes samples of records; None for a predictor that gets samples only.
        predictor: The function that predicts.
    """

    def __init__(
        self, facts: ModelFacts, maker: SampleMaker | None, predictor: UserPredictor
    ) -> None:
        self.facts = facts
        self._maker = maker
        self._predictor = predictor

    @classmethod
    def open(cls, place: ModelPlace) -> Self:
        """Open a model for raw records.

        Raises:
            NotFoundError: There is no such model or data set.
            ChecksumError: A file of the model differs from its manifest.
            SkewError: Today's preprocessing is not that of the model's data.
            ConfigError: The data set has no ``train.model.predict``, or cannot be loaded.
            CodeChangedError: A file of the data set changed while it was opened.
            PredictionError: The model cannot be opened by its function.
            FormatError: A manifest is damaged.
            StorageError: The publication root refused or failed.
        """
        model, spec = _opened(place)
        today = preprocessing_today(place.root, spec, model)
        code = training_texts(spec.folder)
        _require_alike(model, today.texts, code)
        facts, predictor = _loaded(place, spec, model, today, code)
        complete = predicting_model(spec)[0].complete
        function = complete and load_training_function(spec.folder, spec.name, complete, code)
        maker = SampleMaker(spec, today, function or None)
        return cls(facts, maker, predictor)

    @classmethod
    def open_for_samples(cls, place: ModelPlace, manifest: Manifest, interval: str) -> Self:
        """Open a model for the samples of a published version, which its own code has made.

        Args:
            place: The model.
            manifest: Manifest of the version.
            interval: Name of the version's interval.

        Raises:
            ConfigError: The version is of another data set than the model; and as for ``open``,
                where the version's preprocessing takes the place of today's.
        """
        model, spec = _opened(place)
        if manifest.dataset != spec.name:
            raise ConfigError(
                f"expected a version of data set {spec.name!r}, on which {model.name} was trained,"
                f" got one of {manifest.dataset!r}; no prediction was made"
            )
        used = preprocessing_of(DatasetFolder(place.root, spec.name), manifest, interval)
        facts, predictor = _loaded(place, spec, model, used, training_texts(spec.folder))
        return cls(facts, None, predictor)

    def predict(self, records: Sequence[RawRecord]) -> list[Outcome]:
        """Return the outcome of every record, in their order.

        Raises:
            PredictionError: The function that predicts raised, or returned no predictions.
        """
        if self._maker is None:
            raise PredictionError(
                "expected samples, got records: open the model with Predictor.open"
            )
        made = self._maker.make(records)
        of_samples = self.predict_samples(made.columns, len(made.rows))
        # Rows ascend, so the samples of record i are at first[i] to first[i + 1].
        first = np.searchsorted(made.rows, np.arange(len(records) + 1)).tolist()
        return [
            made.turned[number]
            if number in made.turned
            else _joined(of_samples[first[number] : first[number + 1]])
            for number in range(len(records))
        ]

    def predict_samples(self, columns: Arrays, num_samples: int) -> list[Outcome]:
        """Return the prediction of every sample; labels among the columns are not passed on.

        Args:
            columns: Field → array of shape ``(num_samples, *S)``.
            num_samples: Number of samples.

        Raises:
            PredictionError: The function that predicts raised, or returned no predictions.
        """
        return self._predictor.predict(columns, num_samples) if num_samples else []


def _opened(place: ModelPlace) -> tuple[Model, DatasetSpec]:
    model = Model.open(ModelsFolder(place.root).known(place.model), place.number)
    model.verify()
    return model, load_spec(place.datasets / check_name(model.manifest.job.dataset))


def _loaded(
    place: ModelPlace,
    spec: DatasetSpec,
    model: Model,
    used: Preprocessing,
    code: Mapping[str, bytes],
) -> tuple[ModelFacts, UserPredictor]:
    chosen, entry = predicting_model(spec)
    skew = find_skew(place.root, spec, model, used)
    if not place.accepts_other_code:
        skew.refuse(model.name)
    facts = ModelFacts(
        model=model.manifest.model,
        version=model_version(model.manifest.version),
        manifest_sha256=model.manifest_sha256,
        dataset=spec.name,
        data=tuple(f"{each.interval}/{each.generation}" for each in model.manifest.data),
        fingerprints=tuple(each.fingerprint for each in model.manifest.data),
        code=used.code,
        lookups=dict(used.lookups),
        training_code=model.manifest.job.code,
        predicting_code=digest_of_texts(code),
        other_code=skew.differs,
        unproven=skew.gone,
    )
    return facts, UserPredictor(spec, code, entry, model.path, chosen.labels)


def _require_alike(model: Model, code: Mapping[str, bytes], whole: Mapping[str, bytes]) -> None:
    """Refuse a preprocessing and a predicting function of two states of the folder."""
    changed = sorted(name for name, text in code.items() if whole.get(name) != text)
    if changed:
        raise CodeChangedError(
            f"{', '.join(changed)} of data set {model.manifest.job.dataset!r} changed while"
            f" {model.name} was opened; no prediction was made; predict again"
        )


def _joined(samples: Sequence[Outcome]) -> Outcome:
    """Return the outcome of a record from those of its samples: the first failure counts."""
    for sample in samples:
        if sample.kind is not _PREDICTED:
            return sample
    return Outcome(_PREDICTED, tuple(each for sample in samples for each in sample.predictions))
