"""Which version is repaired, from what."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from trainfeed.config import Environment
from trainfeed.dataset import DatasetFolder
from trainfeed.dataset.layout import generation_name
from trainfeed.specification import DatasetSpec

__all__ = ["RepairOrder"]


@dataclass(frozen=True)
class RepairOrder:
    """A version, and where its files may come from.

    Attributes:
        spec: The data set, as it is now.
        env: Folders and connections.
        folder: The data set below the publication root.
        interval: Name of the interval.
        generation: Number of the generation.
        backup: A folder with a copy of the version, or None.
    """

    spec: DatasetSpec
    env: Environment
    folder: DatasetFolder
    interval: str
    generation: int
    backup: Path | None

    @property
    def path(self) -> Path:
        """Folder of the version."""
        return self.folder.version(self.interval, self.generation)

    @property
    def target(self) -> str:
        """``<data set>/<interval>/<generation>``, as commands take it."""
        return f"{self.folder.name}/{self.interval}/{generation_name(self.generation)}"

    def offers(self) -> tuple[str, ...]:
        """Return what a person can do about files that could not be repaired, with commands."""
        code = self.folder.path / "code"
        build = f"trainfeed build {self.folder.name} --interval {self.interval} --rebuild WHY"
        backup = f"trainfeed repair {self.target} --from FOLDER"
        return (
            f"take the files from a snapshot or backup of the version: {backup}",
            f"put code, lookups and libraries of the plan back (text: {code}), and repair again",
            f"build a new generation: {build}",
        )
