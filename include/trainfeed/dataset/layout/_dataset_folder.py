"""What is in the folder of one data set: intervals, plans, and the generations of an interval."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from trainfeed.dataset.layout._dataset_paths import DatasetPaths
from trainfeed.dataset.layout._entry_names import (
    CURRENT,
    CURRENT_BYTES,
    GENERATION,
    MANIFEST,
    is_name,
)
from trainfeed.errors import FormatError, NotFoundError, StorageError
from trainfeed.paths import is_there, listed_folder, read_plain
from trainfeed.storage.posix import map_errors

__all__ = ["DatasetFolder"]

_PLAN_FILE: Final = re.compile(r"([0-9a-f]{16}-g[0-9]{4,})\.json")


class DatasetFolder(DatasetPaths):
    """The folder of one data set: its paths, and what is there. Nothing is created.

    Attributes:
        root: The publication root.
        name: The data set.
    """

    def names_in(self, folder: Path, *, strictly: bool = False) -> list[str]:
        """Names in a folder of the data set, in any order; none if there is no such folder.

        Args:
            folder: The folder.
            strictly: Whether something else in the place of the folder is an error.

        Raises:
            FormatError: Something else is in the place of the folder.
            StorageError: The folder cannot be listed.
        """
        if strictly:
            return [path.name for path in listed_folder(folder)]
        with map_errors(folder):
            try:
                return [path.name for path in folder.iterdir()]
            except (FileNotFoundError, NotADirectoryError):
                return []

    def unpublished_intervals(self) -> list[str]:
        """Names of the intervals with such a file, sorted."""
        names = self.names_in(self.path / "unpublished")
        stems = (name.removesuffix(".json") for name in names if name.endswith(".json"))
        return sorted(stem for stem in stems if is_name(stem))

    def plan_ids(self, interval: str) -> list[str]:
        """Names of the plans of an interval, published or not, sorted.

        Raises:
            FormatError: Something else than a folder is in the place of the plans.
            StorageError: The plans cannot be listed.
        """
        names = self.names_in(self.plans(interval), strictly=True)
        return sorted(match[1] for match in map(_PLAN_FILE.fullmatch, names) if match)

    def planned_intervals(self) -> list[str]:
        """Names of the intervals that have plans, sorted; raises as ``plan_ids`` does."""
        return sorted(filter(is_name, self.names_in(self.path / "plans", strictly=True)))

    def intervals(self) -> list[str]:
        """Names of the intervals that have a folder, sorted."""
        return sorted(name for name in self.names_in(self.path / "versions") if is_name(name))

    def generations(self, interval: str) -> list[int]:
        """The generations that are neither withdrawn nor removed, ascending."""
        entries = self._entries(interval)
        gone = {number for number, suffix in entries if suffix}
        return sorted({number for number, suffix in entries if not suffix} - gone)

    def last_generation(self, interval: str) -> int:
        """The largest number ever used, also of withdrawn and removed generations; 0 if none."""
        return max((number for number, _ in self._entries(interval)), default=0)

    def current_generation(self, interval: str) -> int | None:
        """The newest generation that is neither withdrawn nor removed, or None; for writers.

        The method lists the interval's folder and does not use CURRENT, which may be behind.
        """
        return max(self.generations(interval), default=None)

    def is_removed(self, interval: str, generation: int) -> bool:
        """Whether retention has deleted the generation, for good."""
        mark = self.removal_mark(interval, generation)
        with map_errors(mark):
            return mark.exists()

    def has_folder(self, interval: str, generation: int) -> bool:
        """Whether the folder of the generation is there, marked or not."""
        path = self.version(interval, generation)
        with map_errors(path):
            return path.is_dir()

    def readable_generation(self, interval: str) -> int | None:
        """The generation for readers: the one that CURRENT names; None if there is none.

        CURRENT is only a hint. If it is missing, torn, or names a generation that is gone, the
        newest existing generation is used.
        """
        return self._pointed(interval) or self.current_generation(interval)

    def require_generation(self, interval: str) -> int:
        """The generation for readers, as from ``readable_generation``.

        Raises:
            NotFoundError: The interval has no readable version.
        """
        generation = self.readable_generation(interval)
        if generation is None:
            raise NotFoundError(
                f"data set {self.name!r} has no published version of interval {interval}"
                f" in {self.interval(interval)}; build it: trainfeed build {self.name}"
                f" --interval {interval}"
            )
        return generation

    def _pointed(self, interval: str) -> int | None:
        folder = self.interval(interval)
        try:
            match = GENERATION.fullmatch(
                read_plain(folder / CURRENT, follow=False, max_bytes=CURRENT_BYTES).decode().strip()
            )
        except (FormatError, StorageError, UnicodeDecodeError):
            return None
        if match is None or match[2]:
            return None
        # The pointer may be behind: its generation must have a manifest, and no mark.
        marks = (folder / f"{match[0]}.withdrawn", folder / f"{match[0]}.removed")
        manifest = folder / match[0] / MANIFEST
        with map_errors(manifest):
            gone = any(map(is_there, marks)) or not manifest.is_file()
        return None if gone else int(match[1])

    def _entries(self, interval: str) -> list[tuple[int, str]]:
        matches = map(GENERATION.fullmatch, self.names_in(self.interval(interval)))
        return [(int(m[1]), m[2] or "") for m in matches if m]
