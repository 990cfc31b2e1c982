"""Trainings: outputs, checkpoints and logs go; job file and result stay."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from trainfeed.core import faults
from trainfeed.core.intervals import format_time
from trainfeed.errors import StorageError, TrainFeedError
from trainfeed.files import listed, walk
from trainfeed.files.stores import Location, posix
from trainfeed.pipeline.leftovers import RETENTION, TRASH, discard
from trainfeed.training.jobs import RESULT_FILE, JobRecord, JobRemoval
from trainfeed.training.models import ModelsFolder, current
from trainfeed.upkeep.retention.context import Context, Kind
from trainfeed.upkeep.retention.items import Expired, Found, Item, Kept, held_against

# --- The jobs whose models an alias points to


def promoted_jobs(root: Path) -> dict[str, str]:
    """Return identity of the job → the alias, of every alias of every model.

    Raises:
        FormatError: An alias or its model is damaged: which jobs are promoted cannot be told.
        NotFoundError: A model that an alias points to is gone, likewise.
        StorageError: The publication root refused or failed.
    """
    models, found = ModelsFolder(root), {}
    for name in models.names():
        folder = models.model(name)
        for alias in folder.aliases():
            model = current(folder, alias)
            if model is not None:
                found[model.manifest.job.identity] = f"{alias} of model {name} is its model"
    return found


# --- The kind ``trainings``: the large files of finished jobs

_FOLDERS: Final = ("output", "checkpoints", "tensorboard")
_BEGUN: Final = "a removal that was begun"


@dataclass(frozen=True)
class _JobItem(Item):
    home: Path


class Trainings(Kind[_JobItem]):
    """Files of finished trainings, by the rule ``trainings``."""

    name = "trainings"

    def find(self, context: Context) -> Iterator[Found[_JobItem]]:
        """Yield finished trainings; one without a result is never looked at."""
        items: list[_JobItem] = []
        for home in _homes(context):
            if isinstance(home, Kept):
                yield home
                continue
            try:
                record, begun = JobRecord(home), JobRemoval.read(home)
                item = _finished(self.name, record)
            except TrainFeedError as error:
                unknown = _JobItem(self.name, _name(home), 0, context.now, (), home)
                yield Kept(unknown, f"its files cannot be read: {error}")
                continue
            if item is not None and item.places and begun is not None:
                yield Expired(item, _BEGUN)
            elif item is not None and item.places:
                items.append(item)
        yield from held_against(
            context.spec.retention.trainings, items, context.now, _user(context, items)
        )

    def delete(self, context: Context, each: Expired[_JobItem]) -> str | None:
        """Remove files of a job; those of a job that a process works on stay."""
        with ExitStack() as stack:
            try:
                stack.enter_context(posix.file_lock(each.item.home / ".lock", timeout_s=0.0))
            except StorageError as error:
                return f"a process works on it: {error}"
            _remove(context, each.item, each.why)
        return None


def _homes(context: Context) -> Iterator[Path | Kept[_JobItem]]:
    """Yield the folders of jobs; an interval whose folder cannot be listed stays, and says why."""
    marks = context.folder.training_marks
    for place in sorted(listed(marks.parent)):
        try:
            with posix.map_errors(place):
                homes = [home for home in listed(place) if place != marks and home.is_dir()]
        except StorageError as error:
            unknown = _JobItem(Trainings.name, place.name, 0, context.now, (str(place),), place)
            yield Kept(unknown, f"its jobs cannot be listed: {error}")
        else:
            yield from sorted(homes)


def _remove(context: Context, item: _JobItem, why: str) -> None:
    if JobRemoval.read(item.home) is None:
        JobRemoval(format_time(context.now), why).write(item.home)
    faults.point("trainings.after_note")
    trash = Location.parse(str(context.folder.path / TRASH))
    for place in item.places:
        discard(Location.parse(place), trash, prefix=RETENTION)
        faults.point("trainings.after_part")


def _user(context: Context, items: Sequence[_JobItem]) -> Callable[[_JobItem], str | None]:
    """Return what tells who needs the files of a job."""
    newest = max(items, key=lambda item: (item.since, item.name), default=None)
    promoted: dict[str, str] = {}
    unknown: str | None = None
    try:
        promoted = promoted_jobs(context.folder.root)
    except TrainFeedError as error:
        unknown = f"which models are promoted cannot be told: {error}"

    def user(item: _JobItem) -> str | None:
        if item is newest:
            return "it is the newest finished training"
        identity = JobRecord(item.home).job().identity
        return unknown or promoted.get(identity)

    return user


def _finished(kind: str, record: JobRecord) -> _JobItem | None:
    """Return the item of a training that has a result, and a job file that can be read."""
    if record.result() is None:
        return None
    record.job()
    return _item(kind, record.home)


def _item(kind: str, home: Path) -> _JobItem:
    with posix.map_errors(home):
        parts = [part for name in _FOLDERS if (part := home / name).is_dir()]
        parts += sorted(home.glob("rank-*.log*"))
        num_bytes = sum(_size(part) for part in parts)
        result = home / RESULT_FILE
        since = datetime.fromtimestamp((result if result.exists() else home).stat().st_mtime, UTC)
    return _JobItem(
        kind=kind,
        name=_name(home),
        num_bytes=num_bytes,
        since=since,
        places=tuple(map(str, parts)),
        home=home,
    )


def _name(home: Path) -> str:
    return f"{home.parent.name}/{home.name}"


def _size(part: Path) -> int:
    files = walk(part) if part.is_dir() else [part]
    return sum(file.lstat().st_size for file in files if not file.is_dir())
