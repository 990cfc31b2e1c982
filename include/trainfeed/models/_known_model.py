"""A version of a model, or the record of one that retention removed."""

from __future__ import annotations

from trainfeed.models._model import Model
from trainfeed.models._models_folder import ModelFolder
from trainfeed.models._removed_model import RemovedModel

__all__ = ["known_model"]


def known_model(folder: ModelFolder, number: int) -> Model | RemovedModel:
    """Return a version, or its record if it was removed.

    Raises:
        NotFoundError: There was never a version of that number.
        FormatError: The manifest, or the record, is damaged.
        StorageError: The publication root refused or failed.
    """
    return RemovedModel.read(folder, number) or Model.open(folder, number)
