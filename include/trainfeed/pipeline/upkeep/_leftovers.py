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
aliases; landing
``<work>/spill``                 folders of plans that were never published
``<work>/previews``              quarantined records of previews that were killed
``<work>/attempts``              marks of attempts that were killed
``_trash``, ``+trash``           the rest of a sweep, or of retention, that was killed
================================ ================================================================

Nothing below ``versions`` is looked at, and no landing file that is complete.
"""

from __future__ import annotations

import logging
import re
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from trainfeed import faults
from trainfeed.attempts import ATTEMPTS
from trainfeed.config import Environment
from trainfeed.dataset import DatasetFolder, require_writable_root
from trainfeed.dataset.layout import MODELS, is_name
from trainfeed.dataset.leases import remove_ended
from trainfeed.dataset.root import data_sets_of
from trainfeed.errors import NotFoundError
from trainfeed.paths import is_unfinished
from trainfeed.storage import FileInfo, Location

__all__ = ["LANDING_TRASH", "OLD", "REPAIR", "RETENTION", "TRASH", "Swept", "discard", "sweep"]

logger = logging.getLogger(__name__)

OLD: Final = timedelta(days=3)

_UUID: Final = "[0-9a-f]{8}(-?[0-9a-f]{4}){3}-?[0-9a-f]{12}"
# Begins the names of the places in which a repair makes files again.
REPAIR: Final = "repair-"
_ABANDONED: Final = re.compile(rf"[0-9a-f]{{16}}-[gv][0-9]{{4,}}|(\.probe-|{REPAIR}){_UUID}")
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
    "_staging/tmp": 0,
    "plans": 1,
    "unpublished": 0,
    "boundaries": 2,
    "training": 2,
    "receipts": 1,
    "_leases": 0,
}
_LANDING_DEPTH: Final = 3


@dataclass(frozen=True)
class _Leftover:
    place: Location
    size_bytes: int
    modified_ms: int
    trash: Location | None = None  # renamed to here before the deletion; None to delete at once

    def remove(self) -> None:
        if self.trash is None:
            self.place.delete(recursive=True)
        else:
            discard(self.place, self.trash)


@dataclass(frozen=True)
class Swept:
    """A leftover that was removed, or in a dry run would be.

    Attributes:
        place: URI of the file or folder.
        bytes: Size of its files.
        modified: Time of the last change, ISO 8601.
    """

    place: str
    bytes: int
    modified: str


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


def sweep(env: Environment, *, older_than: timedelta = OLD, dry_run: bool = False) -> list[Swept]:
    """Remove leftovers that have not changed for ``older_than``.

    A sweep may run beside builds and other sweeps. After a kill, the next sweep goes on.

    Args:
        env: Folders and connections, of all data sets.
        older_than: Age from which leftovers are removed. Less than a day may remove files of
            builds that pause: such a build fails with a message, and must be started again.
        dry_run: Whether to remove nothing.

    Returns:
        The leftovers that were removed, or would be.

    Raises:
        RootError: The publication root was not made by ``trainfeed init``.
        StorageError: A place cannot be read or written. Earlier removals of this call stand.
    """
    require_writable_root(env)
    now = datetime.now(UTC)
    before_ms = (now - older_than).timestamp() * 1000
    removed = [
        Swept(str(lease.path), lease.num_bytes, lease.renewed.isoformat(timespec="seconds"))
        for name in data_sets_of(Path(env.root))
        for lease in remove_ended(DatasetFolder(Path(env.root), name), now, dry_run=dry_run)
    ]
    for leftover in _leftovers(env):
        if leftover.modified_ms > before_ms:
            continue
        modified = datetime.fromtimestamp(leftover.modified_ms / 1000, UTC)
        if not dry_run:
            leftover.remove()
            logger.info("removed %s, last touched %s", leftover.place.uri, modified)
        touched = modified.isoformat(timespec="seconds")
        removed.append(Swept(leftover.place.uri, leftover.size_bytes, touched))
    return removed


def _leftovers(env: Environment) -> Iterator[_Leftover]:
    for info in _listed(root := Location.parse(env.root)):
        dataset = root / info.name
        # ``is_name`` excludes folders of the file system itself, such as lost+found, which only
        # root may list.
        if info.is_dir and is_name(info.name) and (dataset / "_staging").exists():
            for folder, depth in _DEPTHS.items():
                yield from _files(dataset / folder, depth)
            yield from _folders(dataset / "_staging", _ABANDONED, dataset / TRASH)
            yield from _folders(dataset / TRASH, _TRASHED)
    for model in _listed(models := root / MODELS):
        yield from _files(models / model.name / "aliases", 1)
    work = Location.parse(env.work)
    yield from _folders(work / "spill", _ABANDONED, work / TRASH)
    yield from _folders(work / "previews", _PREVIEW, work / TRASH)
    yield from _files(work / ATTEMPTS, 0, _is_mark)
    yield from _folders(work / TRASH, _TRASHED)
    landing = Location.parse(env.landing)
    yield from _files(landing, _LANDING_DEPTH)
    yield from _folders(landing / LANDING_TRASH, _TRASHED)


def _is_mark(name: str) -> bool:
    return _MARK.fullmatch(name) is not None or is_unfinished(name)


def _files(
    folder: Location, depth: int, is_left: Callable[[str], bool] = is_unfinished
) -> Iterator[_Leftover]:
    for info in _listed(folder):
        if info.is_dir and depth:
            yield from _files(folder / info.name, depth - 1, is_left)
        elif not info.is_dir and is_left(info.name):
            yield _Leftover(folder / info.name, info.size_bytes, info.modified_ms)


def _folders(
    folder: Location, names: re.Pattern[str], trash: Location | None = None
) -> Iterator[_Leftover]:
    for info in _listed(folder):
        if info.is_dir and names.fullmatch(info.name):
            place = folder / info.name
            inside = list(_inside(place))
            newest_ms = max(each.modified_ms for each in [info, *inside])
            yield _Leftover(place, sum(each.size_bytes for each in inside), newest_ms, trash)


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
