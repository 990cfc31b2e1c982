"""The landing files that are there, by the path that plans name; each folder is listed once."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from trainfeed.errors import NotFoundError
from trainfeed.storage import Location

__all__ = ["LandedFile", "LandingListing"]


@dataclass(frozen=True)
class LandedFile:
    """A landing file.

    Attributes:
        name: Path below the landing area.
        num_bytes: Size.
        modified: Time of the last change, by the clock of the store.
    """

    name: str
    num_bytes: int
    modified: datetime


class LandingListing:
    """The landing files of a landing area, at the time at which their folder was first asked for.

    Args:
        area: The landing area.
    """

    def __init__(self, area: Location) -> None:
        self._area = area
        self._folders: dict[str, dict[str, LandedFile]] = {}

    def find(self, name: str) -> LandedFile | None:
        """Return a file by its path below the area, None if it is not there.

        Raises:
            StorageError: The store refused or does not answer, which says nothing about the file.
        """
        folder = name.rpartition("/")[0]
        if folder not in self._folders:
            self._folders[folder] = self._listed(folder)
        return self._folders[folder].get(name)

    def _listed(self, folder: str) -> dict[str, LandedFile]:
        try:
            infos = (self._area / folder).list()
        except NotFoundError:
            return {}
        files = (
            LandedFile(
                f"{folder}/{info.name}",
                info.size_bytes,
                datetime.fromtimestamp(info.modified_ms / 1000, UTC),
            )
            for info in infos
            if not info.is_dir
        )
        return {file.name: file for file in files}
