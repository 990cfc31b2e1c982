"""The error of readers that ask for a retired interval."""

from __future__ import annotations

from trainfeed.dataset.layout import DatasetFolder
from trainfeed.dataset.retirements._retirement_file import retirement_of
from trainfeed.dataset.withdrawals import told_withdrawals
from trainfeed.errors import NotFoundError

__all__ = ["generation_for_readers"]


def generation_for_readers(folder: DatasetFolder, interval: str) -> int:
    """Return the generation for readers; where there is none, say who retired the interval.

    Raises:
        NotFoundError: The interval has no readable version.
    """
    try:
        return folder.require_generation(interval)
    except NotFoundError as error:
        retired = retirement_of(folder, interval)
        if retired is None and (told := told_withdrawals(folder, interval)):
            raise NotFoundError(
                f"data set {folder.name!r} has no version of {interval} for readers: {told}; build"
                " it when the cause is corrected, or take a withdrawal back with trainfeed restore"
            ) from error
        if retired is None:
            raise
        raise NotFoundError(
            f"{folder.name}/{retired.told}; a build with a reason makes it again: trainfeed build"
            f" {folder.name} --interval {interval} --rebuild 'WHY'"
        ) from error
