"""The error of readers that ask for an interval of which people decided that it has no version."""

from __future__ import annotations

from trainfeed.dataset.layout import DatasetFolder
from trainfeed.dataset.retirements._missing_remedies import missing_remedies
from trainfeed.dataset.retirements._told_retirements import told_missing
from trainfeed.errors import NotFoundError

__all__ = ["generation_for_readers"]


def generation_for_readers(folder: DatasetFolder, interval: str) -> int:
    """Return the generation for readers; where there is none, say who retired or withdrew it.

    Raises:
        NotFoundError: The interval has no readable version.
    """
    try:
        return folder.require_generation(interval)
    except NotFoundError as error:
        told = told_missing(folder, [interval])
        if not told:
            raise
        raise NotFoundError(
            f"data set {folder.name!r} has no version of {interval} for readers{told};"
            f" {'; '.join(missing_remedies(folder, [interval]))}"
        ) from error
