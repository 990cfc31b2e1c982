"""What killed and abandoned builds leave behind, and how it is removed.

Nothing ever refers to it again, so only age tells it from what a build is at work on: everything in
a folder counts, and a task touches its folders every few minutes. Should a build come back after
all, to a run that was cleared days later, it misses files, says so, and makes them again.

================================ ================================================================
place                            what is removed
================================ ================================================================
``<root>/<data set>/_staging``   unfinished files of single tries; folders of plans that were
                                 never published; in ``<root>/models`` those of models
``plans``, ``boundaries``,       temporary files: of all that is written there, only these can be
``training``, aliases; landing   incomplete
``<work>/spill``                 folders of plans that were never published
``<work>/attempts``              marks of attempts that were killed
``_trash``                       what an earlier sweep was killed at
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
from trainfeed.dataset import require_root
from trainfeed.dataset.layout import MODELS, is_name
from trainfeed.errors import NotFoundError
from trainfeed.paths import is_unfinished
from trainfeed.storage import FileInfo, Location

__all__ = ["OLD", "TRASH", "discard", "sweep"]

logger = logging.getLogger(__name__)

OLD: Final = timedelta(days=3)

_UUID: Final = "[0-9a-f]{8}(-?[0-9a-f]{4}){3}-?[0-9a-f]{12}"
_ABANDONED: Final = re.compile(rf"[0-9a-f]{{16}}-[gv][0-9]{{4,}}|\.probe-{_UUID}")
_MARK: Final = re.compile(r"[0-9a-f]{16}-g[0-9]{4,}\.[a-z0-9-]+\.json")
_TRASHED: Final = re.compile(_UUID)
TRASH: Final = "_trash"
# How deep the files of a folder lie.
_DEPTHS: Final = {"_staging/tmp": 0, "plans": 1, "boundaries": 2, "training": 2}
_LANDING_DEPTH: Final = 3


@dataclass(frozen=True)
class _Leftover:
    place: Location
    size_bytes: int
    modified_ms: int
    trash: Location | None = None  # where it goes first, in one step

    def remove(self) -> None:
        if self.trash is None:
            self.place.delete(recursive=True)
        else:
            discard(self.place, self.trash)


@dataclass(frozen=True)
class Swept:
    """What was left behind and is removed, or would be.

    Attributes:
        place: Where it was.
        bytes: Size of its files.
        modified: When it was last touched, an ISO 8601 time.
    """

    place: str
    bytes: int
    modified: str


def discard(place: Location, trash: Location) -> None:
    """Remove a folder in one step for readers, then its files; fine if it is gone.

    Args:
        place: The folder.
        trash: Where it goes first; what a kill leaves there, the next sweep deletes.
    """
    trash.make_dir()
    moved = trash / uuid.uuid4().hex
    try:
        place.rename(moved)
    except NotFoundError:
        return  # published, or discarded by another run
    faults.point("discard.after_rename")
    moved.delete(recursive=True)


def sweep(env: Environment, *, older_than: timedelta = OLD, dry_run: bool = False) -> list[Swept]:
    """Remove what nobody has touched for ``older_than``.

    It may run beside builds and other sweeps, and be killed: the next one finishes its work.

    Args:
        env: Where things are, of all data sets.
        older_than: Less than a day takes files from under builds that pause: those fail, with a
            message, and are to be started again.
        dry_run: Whether to remove nothing.

    Returns:
        What was removed, or would be.

    Raises:
        RootError: Nobody has made the publication root.
        StorageError: A place cannot be read, or not be written. What was removed is removed.
    """
    require_root(Path(env.root), env.root_setting)
    now = datetime.now(UTC)
    before_ms = (now - older_than).timestamp() * 1000
    removed = []
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
        # Of a file system's own folders, lost+found for one, nobody but root sees the inside.
        if info.is_dir and is_name(info.name) and (dataset / "_staging").exists():
            for folder, depth in _DEPTHS.items():
                yield from _files(dataset / folder, depth)
            yield from _folders(dataset / "_staging", _ABANDONED, dataset / TRASH)
            yield from _folders(dataset / TRASH, _TRASHED)
    for model in _listed(models := root / MODELS):
        yield from _files(models / model.name / "aliases", 1)
    work = Location.parse(env.work)
    yield from _folders(work / "spill", _ABANDONED, work / TRASH)
    yield from _files(work / ATTEMPTS, 0, _is_mark)
    yield from _folders(work / TRASH, _TRASHED)
    yield from _files(Location.parse(env.landing), _LANDING_DEPTH)


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
