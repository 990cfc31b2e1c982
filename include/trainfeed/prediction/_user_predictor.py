"""Calls the function that predicts, and checks everything that it returns."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from trainfeed.errors import JobRejectedError, PredictionError
from trainfeed.prediction._record_outcome import Outcome, OutcomeKind
from trainfeed.preprocessing.source_record import cut_message
from trainfeed.specification import DatasetSpec
from trainfeed.usercode import load_training_function

__all__ = ["Arrays", "UserPredictor"]

Arrays = Mapping[str, NDArray[Any]]

# Booleans, whole numbers, floats, texts: what JSON can hold without loss.
_KINDS: Final = "biufU"
_EXPECTED: Final = "return name → array with one row for each sample"


class UserPredictor:
    """The function of ``train.model.predict`` with an opened model.

    Args:
        spec: The data set.
        code: Its code, as ``training_texts`` has read it.
        entry: ``module:name``; called once with the model's folder, it returns the function that
            maps columns to predictions.
        folder: The model's folder.
        labels: Fields that the function never gets.

    Raises:
        PredictionError: There is no such function, or it raised, or it returned no function.
    """

    def __init__(
        self,
        spec: DatasetSpec,
        code: Mapping[str, bytes],
        entry: str,
        folder: Path,
        labels: tuple[str, ...],
    ) -> None:
        self._name = f"{entry} of data set {spec.name!r}"
        self._folder = spec.folder
        self._labels = frozenset(labels)
        try:
            predict = load_training_function(spec.folder, spec.name, entry, code)(folder)
        except JobRejectedError as error:
            raise PredictionError(str(error)) from error
        except BaseException as error:
            raise self._raised(f"opening {folder}", error) from error
        if not callable(predict):
            raise PredictionError(
                f"{self._name} returned a {type(predict).__name__} for {folder}; no prediction was"
                " made; return a function of name → array"
            )
        self._predict: Callable[[Arrays], Any] = predict

    def predict(self, columns: Arrays, num_samples: int) -> list[Outcome]:
        """Return the prediction of every sample.

        Args:
            columns: Field → values of all samples; labels are taken out here.
            num_samples: Number of samples, at least one.

        Raises:
            PredictionError: The function raised, or returned no predictions.
        """
        given = {name: values for name, values in columns.items() if name not in self._labels}
        try:
            found = self._predict(given)
        except BaseException as error:
            raise self._raised(f"{num_samples} samples", error) from error
        arrays = self._checked(found, num_samples)
        rows = zip(*(array.tolist() for array in arrays.values()), strict=True)
        outcomes = [
            Outcome(OutcomeKind.PREDICTED, (dict(zip(arrays, row, strict=True)),)) for row in rows
        ]
        for name, array in arrays.items():
            for row in _rows_not_finite(array):
                message = f"{name}: expected finite numbers, got {array[row].tolist()}"
                outcomes[row] = Outcome(
                    OutcomeKind.FAILED, reason="not_finite", message=cut_message(message)
                )
        return outcomes

    def _checked(self, found: Any, num_samples: int) -> dict[str, NDArray[Any]]:
        if not isinstance(found, Mapping) or not found:
            raise self._wrong(f"returned {_shown(found)}")
        arrays = {str(name): np.asarray(values) for name, values in found.items()}
        for name, array in arrays.items():
            if array.dtype.kind not in _KINDS:
                raise self._wrong(f"returned {name!r} with dtype {array.dtype}")
            if array.shape[:1] != (num_samples,):
                raise self._wrong(
                    f"returned {name!r} of shape {array.shape} for {num_samples} samples"
                )
        return arrays

    def _wrong(self, what: str) -> PredictionError:
        return PredictionError(
            f"{self._name} {what}; no prediction was made; {_EXPECTED}, of booleans, numbers or"
            " texts"
        )

    def _raised(self, where: str, error: BaseException) -> PredictionError:
        frames = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in frames if Path(frame.filename).parent == self._folder]
        line = f" ({Path(own[-1].filename).name}:{own[-1].lineno})" if own else ""
        text = cut_message(f"{type(error).__name__}: {error}")
        return PredictionError(
            f"{self._name} raised {text}{line} for {where}; no prediction was made; correct the"
            " function"
        )


def _rows_not_finite(array: NDArray[Any]) -> list[int]:
    if array.dtype.kind != "f":
        return []
    finite = np.isfinite(array).reshape(len(array), -1).all(axis=1)
    return [int(row) for row in np.flatnonzero(~finite)]


def _shown(value: Any) -> str:
    return "no column" if isinstance(value, Mapping) else f"a {type(value).__name__}"
