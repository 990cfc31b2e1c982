"""The jobs whose models an alias points to."""

from __future__ import annotations

from pathlib import Path

from trainfeed.models import ModelsFolder, current

__all__ = ["promoted_jobs"]


def promoted_jobs(root: Path) -> dict[str, str]:
    """Return identity of the job → the alias, of every alias of every model.

    Raises:
        FormatError: An alias or its model is damaged: which jobs are promoted cannot be told.
        NotFoundError: A model that an alias points to is gone, likewise.
        StorageError: The publication root refused or failed.
    """
    models, found = ModelsFolder(root), {}
    for name in models.names():
        folder = models.model(name)
        for alias in folder.aliases():
            model = current(folder, alias)
            if model is not None:
                found[model.manifest.job.identity] = f"{alias} of model {name} is its model"
    return found
