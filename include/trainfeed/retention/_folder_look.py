"""One look at the folder of a data set: each folder is listed once, each plan is read once.

On CephFS every look at a file may be a call to another machine, and the kinds of a run ask for the
same folders. A look is for what a run finds and reports; it decides no removal. Before a kind
renames an item away, it writes the mark of the item and reads the folder again
(``Context.folder``, ``Context.fresh_uses``, ``Context.again``).
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from stat import S_ISDIR

from trainfeed.dataset.layout import DatasetFolder
from trainfeed.errors import NotFoundError
from trainfeed.pipeline import PlanRef
from trainfeed.pipeline.plans import Plan, load_plan
from trainfeed.storage import posix

__all__ = ["Look"]


@dataclass(frozen=True)
class Look(DatasetFolder):
    """The folder of a data set as it was when each part of it was first asked for."""

    _names: dict[Path, list[str]] = field(default_factory=dict, compare=False, repr=False)
    _status: dict[Path, os.stat_result] = field(default_factory=dict, compare=False, repr=False)
    _plans: dict[Path, Plan] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def at(cls, folder: DatasetFolder) -> Look:
        """Return a look that has seen nothing yet."""
        return cls(folder.root, folder.name)

    def names_in(self, folder: Path, *, strictly: bool = False) -> list[str]:
        """Names in a folder, listed at the first call."""
        if folder not in self._names:
            self._names[folder] = super().names_in(folder, strictly=strictly)
        return self._names[folder]

    def is_removed(self, interval: str, generation: int) -> bool:
        """Whether the list of the interval has the mark of a removal."""
        mark = self.removal_mark(interval, generation)
        return mark.name in self.names_in(mark.parent)

    def has_folder(self, interval: str, generation: int) -> bool:
        """Whether the list of the interval has the folder of the generation."""
        path = self.version(interval, generation)
        try:
            return path.name in self.names_in(path.parent) and S_ISDIR(self._stat(path).st_mode)
        except NotFoundError:
            return False  # renamed away since the list

    def published_at(self, interval: str, generation: int) -> datetime:
        """Return the modification time of a version, aware UTC: nothing changes it later.

        Raises:
            NotFoundError: It is gone.
            StorageError: The publication root refused or failed.
        """
        return datetime.fromtimestamp(self._stat(self.version(interval, generation)).st_mtime, UTC)

    def plan_of(self, interval: str, plan_id: str) -> Plan:
        """Return a plan, read at the first call; a plan file is never changed.

        Raises:
            NotFoundError: It is gone.
            FormatError: It is no plan.
            StorageError: The publication root refused or failed.
        """
        path = self.plan(interval, plan_id)
        if path not in self._plans:
            self._plans[path] = load_plan(self, PlanRef(self.name, interval, plan_id))
        return self._plans[path]

    def _stat(self, path: Path) -> os.stat_result:
        if path not in self._status:
            with posix.map_errors(path):
                self._status[path] = path.stat()
        return self._status[path]
