"""Files that killed and abandoned builds leave behind, and their removal by age."""

from __future__ import annotations

import logging
import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, TypeAlias

from trainfeed.core import faults
from trainfeed.core.config import Environment
from trainfeed.errors import NotFoundError, SnapshotError
from trainfeed.files import is_unfinished
from trainfeed.files.attempts import ATTEMPTS
from trainfeed.files.stores import FileInfo, Location, present, require_store_clock
from trainfeed.files.stores.folder_transfer import is_temporary
from trainfeed.versions import DatasetFolder, require_writable_root
from trainfeed.versions.bucket_root import bucket_mark
from trainfeed.versions.bucket_sweep import sweep_bucket
from trainfeed.versions.layout import MODELS, is_name
from trainfeed.versions.lease import remove_ended
from trainfeed.versions.root import data_sets_of

# --- Files that killed and abandoned builds leave behind, and their removal

OLD: Final = timedelta(days=3)

_UUID: Final = "[0-9a-f]{8}(-?[0-9a-f]{4}){3}-?[0-9a-f]{12}"
# Begins the names of the places in which a repair makes files again.
REPAIR: Final = "repair-"
_ABANDONED: Final = re.compile(rf"[0-9a-f]{{16}}-[gv][0-9]{{4,}}|{REPAIR}{_UUID}")
_PROBE: Final = re.compile(rf"\.probe-{_UUID}(\.moved)?")
_PREVIEW: Final = re.compile(r"trainfeed-[a-z0-9_]{8}")
_MARK: Final = re.compile(r"[0-9a-f]{16}-g[0-9]{4,}\.[a-z0-9-]+\.json")
# Begins the names of what retention throws away: its next run deletes what a kill left.
RETENTION: Final = "retention-"
_TRASHED: Final = re.compile(rf"({RETENTION})?{_UUID}")
TRASH: Final = "_trash"
# In the landing area, whose folders are topics: no topic has such a name.
LANDING_TRASH: Final = "+trash"
# Name of a folder, or * for any other → the folders in it where files are written, likewise.
_Folders: TypeAlias = Mapping[str, "_Folders"]
_JOB: Final[_Folders] = {"attempts": {}}
_DATASET: Final[_Folders] = {
    "_leases": {},
    "_staging": {"tmp": {}},
    "boundaries": {"*": {"*": {}}},
    "code": {},
    "history": {"*": {}},
    "holes": {},
    "layouts": {},
    "lists": {},
    "lookups": {},
    "parameters": {"*": {}},
    "plans": {"*": {}},
    "receipts": {"*": {}},
    "tags": {"*": {"requests": {}}},
    "training": {"*": {"*": {**_JOB, "checkpoints": {}, "evaluations": {"*": _JOB}}}},
    "unpublished": {},
    "versions": {"*": {}},
}
_MODELS: Final[_Folders] = {
    "_staging": {"tmp": {}},
    "_start": {},
    "*": {"aliases": {"*": {}}, "removed": {}},
}
_LANDING: Final[_Folders] = {"*": {"*": {"*": {}}}}


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

    In a store without a rename it is deleted where it is; after a kill, the next sweep finds the
    rest under its name.

    Args:
        place: The folder.
        trash: Folder for the rename. After a kill, the next sweep deletes the rest there.
        prefix: Begin of the name that the folder has there.
    """
    if not place.has_rename:
        place.delete(recursive=True)
        return
    trash.make_dir()
    moved = trash / f"{prefix}{uuid.uuid4().hex}"
    try:
        place.renaming("a removal").rename(moved)
    except NotFoundError:
        return  # published, or discarded by another run
    faults.point("discard.after_rename")
    moved.delete(recursive=True)


def leftovers(env: Environment) -> Iterator[Leftover]:
    """Yield what may be a leftover, of all data sets; its age decides.

    Raises:
        StorageError: A place cannot be read.
    """
    yield from _unfinished(root := Location.parse(env.root), {})
    for info in _listed(root):
        # ``is_name`` excludes folders of the file system itself, such as lost+found, which only
        # root may list.
        is_whole = info.name == MODELS or (root / info.name / "_staging").exists()
        if info.is_dir and is_name(info.name) and is_whole:
            yield from leftovers_of_dataset(root / info.name)
    work = Location.parse(env.work)
    yield from leftover_spills(work)
    yield from _folders(work / "previews", _PREVIEW, work / TRASH)
    yield from _unfinished(work / ATTEMPTS, {}, _is_mark)
    yield from _folders(work / TRASH, _TRASHED)
    landing = Location.parse(env.landing)
    yield from _unfinished(landing, _LANDING)
    yield from _folders(landing / LANDING_TRASH, _TRASHED)


def leftovers_of_dataset(dataset: Location) -> Iterator[Leftover]:
    """Yield what may be a leftover in the folder of one data set; its age decides.

    Raises:
        StorageError: A place cannot be read.
    """
    yield from _unfinished(dataset, _MODELS if dataset.name == MODELS else _DATASET)
    yield from _folders(dataset / "_staging", _ABANDONED, dataset / TRASH)
    yield from _folders(dataset / TRASH, _TRASHED)


def leftover_spills(work: Location) -> Iterator[Leftover]:
    """Yield folders with spill files, which have the names of plans of all data sets.

    Raises:
        StorageError: A place cannot be read.
    """
    yield from _folders(work / "spill", _ABANDONED, work / TRASH)


def _is_mark(name: str) -> bool:
    return _MARK.fullmatch(name) is not None or is_unfinished(name)


def _has_no_name_yet(name: str) -> bool:
    return is_unfinished(name) or _PROBE.fullmatch(name) is not None or is_temporary(name)


def _unfinished(
    folder: Location, below: _Folders, is_left: Callable[[str], bool] = _has_no_name_yet
) -> Iterator[Leftover]:
    # Each look at a file takes a while on CephFS, and complete files are of no interest.
    def wanted(name: str) -> bool:
        return "*" in below or name in below or is_left(name)

    for info in _listed(folder, wanted):
        inner = below.get(info.name, below.get("*"))
        if is_left(info.name):
            yield _leftover(folder, info)
        elif info.is_dir and inner is not None:
            yield from _unfinished(folder / info.name, inner, is_left)


def _folders(
    folder: Location, names: re.Pattern[str], trash: Location | None = None
) -> Iterator[Leftover]:
    for info in _listed(folder):
        if info.is_dir and names.fullmatch(info.name):
            yield _leftover(folder, info, trash)


def _leftover(folder: Location, info: FileInfo, trash: Location | None = None) -> Leftover:
    place = folder / info.name
    entries = [info, *(_inside(place) if info.is_dir and not info.is_link else ())]
    newest_ms = max(each.modified_ms for each in entries)
    return Leftover(place, sum(each.size_bytes for each in entries), newest_ms, trash)


def _inside(folder: Location) -> Iterator[FileInfo]:
    for info in _listed(folder):
        yield info
        if info.is_dir and not info.is_link:
            yield from _inside(folder / info.name)


def _listed(folder: Location, wanted: Callable[[str], bool] | None = None) -> list[FileInfo]:
    try:
        return folder.list(wanted)
    except NotFoundError:
        return []


# --- The removal of leftovers of all data sets by their age

logger = logging.getLogger(__name__)


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
        StorageError: A place cannot be read or written, or its store has another time than this
            machine. Earlier removals of this call stand.
    """
    require_writable_root(env)
    if not dry_run:
        _require_clocks(env)
    now = present()
    before_ms = (now - older_than).timestamp() * 1000
    removed = [
        Swept(str(lease.path), lease.num_bytes, lease.renewed.isoformat(timespec="seconds"))
        for name in data_sets_of(Path(env.root))
        for lease in remove_ended(DatasetFolder(Path(env.root), name), now, dry_run=dry_run)
    ]
    for name in data_sets_of(Path(env.root)):
        folder = DatasetFolder(Path(env.root), name)
        for left in sweep_bucket(folder, now - older_than, dry_run=dry_run):
            touched = left.modified.isoformat(timespec="seconds")
            removed.append(Swept(left.place.uri, left.num_bytes, touched))
    for leftover in leftovers(env):
        if leftover.modified_ms > before_ms:
            continue
        modified = datetime.fromtimestamp(leftover.modified_ms / 1000, UTC)
        if not dry_run:
            try:
                leftover.remove()
            except SnapshotError as error:
                logger.warning("%s stays: %s", leftover.place.uri, error)
                continue
            logger.info("removed %s, last touched %s", leftover.place.uri, modified)
        touched = modified.isoformat(timespec="seconds")
        removed.append(Swept(leftover.place.uri, leftover.size_bytes, touched))
    return removed


def _require_clocks(env: Environment) -> None:
    """Compare the clock with those of the stores; the landing area is on that of the work files."""
    work = Location.parse(env.work)
    places = [
        Location.parse(str(DatasetFolder(Path(env.root), name).staging / "tmp"))
        for name in data_sets_of(Path(env.root))[:1]
    ]
    if (mark := bucket_mark(Path(env.root))) is not None:
        places += [mark.place / name / "_leases" for name in data_sets_of(Path(env.root))[:1]]
    for place in (*places, *([work / ATTEMPTS] if work.exists() else [])):
        require_store_clock(place, "nothing was removed")
