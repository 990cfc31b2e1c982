"""References of a plan: the published versions of earlier intervals that gates compare with.

They stand in the plan, so that every try at a plan compares with the same versions, and measures
the same values. They do not enter the fingerprint: they decide whether a result is published.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final

from pydantic import Field

from trainfeed.dataset import DatasetFolder, Version
from trainfeed.dataset.layout import generation_name
from trainfeed.errors import FormatError, NotFoundError
from trainfeed.paths import is_there
from trainfeed.pipeline.plans._planned import PlanPart

__all__ = ["PlannedReference", "read_statistics"]

_OF_STATISTICS: Final = frozenset({"drift"})


def read_statistics(quality: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether one of the gates reads the statistics of references."""
    return any(gate.get("check") in _OF_STATISTICS for gate in quality)


class PlannedReference(PlanPart):
    """One published version of an earlier interval.

    Attributes:
        interval: Name of the interval.
        generation: Number of the generation.
        manifest_sha256: SHA-256 of its manifest, in hex.
    """

    interval: str
    generation: Annotated[int, Field(ge=1)]
    manifest_sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]

    def open(self, folder: DatasetFolder) -> Version:
        """Open the version.

        Raises:
            NotFoundError: The version was removed, withdrawn or replaced since the plan was made.
            FormatError: The version is damaged.
            StorageError: The publication root refused or failed.
        """
        try:
            version = Version.open(folder.version(self.interval, self.generation))
        except NotFoundError as error:
            raise self._gone(folder, "is gone") from error
        if is_there(folder.withdrawal_mark(self.interval, self.generation)):
            raise self._gone(folder, "was withdrawn")
        if version.manifest_sha256 != self.manifest_sha256:
            raise self._gone(folder, "has another manifest")
        return version

    def is_usable(self, folder: DatasetFolder, *, statistics: bool) -> bool:
        """Whether the version can be opened.

        Args:
            folder: The data set below the publication root.
            statistics: Whether its statistics are read as well.

        Raises:
            StorageError: The publication root refused or failed, which says nothing about it.
        """
        try:
            version = self.open(folder)
            if statistics:
                version.statistics()
        except (FormatError, NotFoundError):
            return False
        return True

    def _gone(self, folder: DatasetFolder, what: str) -> NotFoundError:
        name = f"{folder.name}/{self.interval}/{generation_name(self.generation)}"
        return NotFoundError(
            f"{name}, with which gates of the plan compare, {what} since the plan was made; nothing"
            " was published; build the interval again (in Airflow: clear the run from plan on): it"
            " then compares with what is there"
        )
