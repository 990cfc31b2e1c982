"""The data set of a model, for changes by hand, which name the model only."""

from __future__ import annotations

from pathlib import Path

from trainfeed.models._model import Model
from trainfeed.models._models_folder import ModelFolder
from trainfeed.specification import SPEC_FILE, DatasetSpec, load_spec

__all__ = ["spec_of_model"]


def spec_of_model(folder: ModelFolder, datasets: Path) -> DatasetSpec | None:
    """Return the data set whose training made the newest version of a model; None if not here.

    Args:
        folder: The model, which has a version.
        datasets: Folder of the data sets.

    Raises:
        FormatError: The manifest of the newest version is damaged.
        NotFoundError: The newest version has no manifest.
        SpecError: The data set's dataset.yaml is wrong.
    """
    newest = Model.open(folder, folder.versions()[-1])
    home = datasets / newest.manifest.job.dataset
    return load_spec(home) if (home / SPEC_FILE).is_file() else None
