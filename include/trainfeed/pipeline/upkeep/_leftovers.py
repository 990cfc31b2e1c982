"""Files that killed and abandoned builds leave behind, and their removal.

Nothing refers to these files any more. Only their age tells them from the files of a running build:
a task touches its folders every few minutes, and the youngest entry of a folder decides. If such a
build continues after all, because its run is cleared days later, it reports the missing files and
makes them again.

================================ ================================================================
place                            removed files
================================ ================================================================
``<root>/<data set>/_staging``   unfinished files of one attempt; folders of plans that were
                                 never published; in ``<root>/models`` those of models; places
                                 of repairs that were killed, also in ``<work>/spill``
``plans``, ``boundaries``,       temporary files: of all that is written there, only these can be
``training``, ``receipts``,      incomplete
``unpublished``, ``_leases``
``history``, ``tags``, ``code``
``lookups``; beside versions
and ``SCHEDULE.json``; aliases;
landing
``versions``; ``<root>``         what the look at a file system left, with which builds begin
``<work>/spill``                 folders of plans that were never published
``<work>/previews``              quarantined records of previews that were killed
``<work>/attempts``              marks of attempts that were killed
``_trash``, ``+trash``           the rest of a sweep, or of retention, that was killed
================================ ================================================================

No version is looked into, and no landing file that is complete is touched.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from trainfeed import faults
from trainfeed.attempts import ATTEMPTS
from trainfeed.config import Environment
from trainfeed.dataset.layout import MODELS, is_name
from trainfeed.errors import NotFoundError
from trainfeed.paths import is_unfinished
from trainfeed.storage import FileInfo, Location

__all__ = [
    "LANDING_TRASH",
    "OLD",
    "REPAIR",
    "RETENTION",
    "TRASH",
    "Leftover",
    "discard",
    "leftover_spills",
    "leftovers",
    "leftovers_of_dataset",
]

OLD: Final = timedelta(days=3)

_UUID: Final = "[0-9a-f]{8}(-?[0-9a-f]{4}){3}-?[0-9a-f]{12}"
# Begins the names of the places in which a repair makes files again.
REPAIR: Final = "repair-"
_PROBE: Final = re.compile(rf"\.probe-{_UUID}(\.moved)?")
_ABANDONED: Final = re.compile(
    rf"[0-9a-f]{{16}}-[gv][0-9]{{4,}}|{REPAIR}{_UUID}|{_PROBE.pattern}"
)
_PREVIEW: Final = re.compile(r"trainfeed-[a-z0-9_]{8}")
_MARK: Final = re.compile(r"[0-9a-f]{16}-g[0-9]{4,}\.[a-z0-9-]+\.json")
# Begins the names of what retention throws away: its next run deletes what a kill left.
RETENTION: Final = "retention-"
_TRASHED: Final = re.compile(rf"({RETENTION})?{_UUID}")
TRASH: Final = "_trash"
# In the landing area, whose folders are topics: no topic has such a name.
LANDING_TRASH: Final = "+trash"
# Folder → levels of folders between it and its files.
_DEPTHS: Final = {
    "": 0,
    "_staging/tmp": 0,
    "versions": 1,
    "history": 1,
    "tags": 1,
    "code": 0,
    "lookups": 0,
    "plans": 1,
    "unpublished": 0,
    "boundaries": 2,
    "training": 2,
    "receipts": 1,
    "_leases": 0,
}
_LANDING_DEPTH: Final = 3


@dataclass(frozen=True)
class Leftover:
    """A file or folder that a killed or abandoned build may have left.

    Attributes:
        place: Where it is.
        size_bytes: Size of its files.
        modified_ms: Time of its last change, in milliseconds since 1970.
        trash: Folder to which it is renamed before the deletion; None to delete it at once.
    """

    place: Location
    size_bytes: int
    modified_ms: int
    trash: Location | None = None

    def remove(self) -> None:
        """Remove it; does nothing if it is gone."""
        if self.trash is None:
            self.place.delete(recursive=True)
        else:
            discard(self.place, self.trash)


def discard(place: Location, trash: Location, *, prefix: str = "") -> None:
    """Remove a folder: one rename for its readers, then the deletion; does nothing if it is gone.

    Args:
        place: The folder.
        trash: Folder for the rename. After a kill, the next sweep deletes the rest there.
        prefix: Begin of the name that the folder has there.
    """
    trash.make_dir()
    moved = trash / f"{prefix}{uuid.uuid4().hex}"
    try:
        place.rename(moved)
    except NotFoundError:
        return  # published, or discarded by another run
    faults.point("discard.after_rename")
    moved.delete(recursive=True)


def leftovers(env: Environment) -> Iterator[Leftover]:
    """Yield what may be a leftover, of all data sets; its age decides.

    Raises:
        StorageError: A place cannot be read.
    """
    yield from _folders(root := Location.parse(env.root), _PROBE)
    for info in _listed(root):
        # ``is_name`` excludes folders of the file system itself, such as lost+found, which only
        # root may list.
        if info.is_dir and is_name(info.name) and (root / info.name / "_staging").exists():
            yield from leftovers_of_dataset(root / info.name)
    for model in _listed(models := root / MODELS):
        yield from _files(models / model.name / "aliases", 1)
        yield from _files(models / model.name / "removed", 0)
    work = Location.parse(env.work)
    yield from leftover_spills(work)
    yield from _folders(work / "previews", _PREVIEW, work / TRASH)
    yield from _files(work / ATTEMPTS, 0, _is_mark)
    yield from _folders(work / TRASH, _TRASHED)
    landing = Location.parse(env.landing)
    yield from _files(landing, _LANDING_DEPTH)
    yield from _folders(landing / LANDING_TRASH, _TRASHED)


def leftovers_of_dataset(dataset: Location) -> Iterator[Leftover]:
    """Yield what may be a leftover in the folder of one data set; its age decides.

    Raises:
        StorageError: A place cannot be read.
    """
    for folder, depth in _DEPTHS.items():
        yield from _files(dataset / folder if folder else dataset, depth)
    yield from _folders(dataset / "_staging", _ABANDONED, dataset / TRASH)
    yield from _folders(dataset / "versions", _PROBE, dataset / TRASH)
    yield from _folders(dataset / TRASH, _TRASHED)


def leftover_spills(work: Location) -> Iterator[Leftover]:
    """Yield folders with spill files, which have the names of plans of all data sets.

    Raises:
        StorageError: A place cannot be read.
    """
    yield from _folders(work / "spill", _ABANDONED, work / TRASH)


def _is_mark(name: str) -> bool:
    return _MARK.fullmatch(name) is not None or is_unfinished(name)


def _files(
    folder: Location, depth: int, is_left: Callable[[str], bool] = is_unfinished
) -> Iterator[Leftover]:
    for info in _listed(folder):
        if info.is_dir and depth:
            yield from _files(folder / info.name, depth - 1, is_left)
        elif not info.is_dir and is_left(info.name):
            yield Leftover(folder / info.name, info.size_bytes, info.modified_ms)


def _folders(
    folder: Location, names: re.Pattern[str], trash: Location | None = None
) -> Iterator[Leftover]:
    for info in _listed(folder):
        if info.is_dir and names.fullmatch(info.name):
            place = folder / info.name
            inside = list(_inside(place))
            newest_ms = max(each.modified_ms for each in [info, *inside])
            yield Leftover(place, sum(each.size_bytes for each in inside), newest_ms, trash)


def _inside(folder: Location) -> Iterator[FileInfo]:
    for info in _listed(folder):
        yield info
        if info.is_dir:
            yield from _inside(folder / info.name)


def _listed(folder: Location) -> list[FileInfo]:
    try:
        return folder.list()
    except NotFoundError:
        return []
