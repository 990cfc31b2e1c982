"""Models: files of a version go; the record of what it was, and its number, stay."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from trainfeed.core import faults
from trainfeed.core.intervals import parse_time
from trainfeed.errors import FormatError, NotFoundError, TrainFeedError
from trainfeed.files import is_there, listed
from trainfeed.files.stores import posix
from trainfeed.pipeline.leftovers import RETENTION, TRASH
from trainfeed.specification import RetentionRule
from trainfeed.training.models import (
    Model,
    ModelFolder,
    ModelsFolder,
    RemovedModel,
    alias_lock,
    model_version,
    pointed_versions,
)
from trainfeed.upkeep.retention.context import Context, Kind
from trainfeed.upkeep.retention.items import Expired, Found, Item, Kept, held_against
from trainfeed.versions.layout import MANIFEST

# --- Versions of the model of a data set as items, and what an earlier run left half removed

KIND: Final = "models"


@dataclass(frozen=True)
class ModelItem(Item):
    """A version of a model; ``number`` is 0 for what a killed run has renamed away."""

    number: int


def model_of(context: Context) -> ModelFolder | None:
    """Return the model of ``train.model``, None if the data set has none."""
    train = context.spec.train
    if train is None or train.model is None:
        return None
    return ModelsFolder(context.folder.root).model(train.model.name)


def trash_of(folder: ModelFolder) -> Path:
    """Return the folder of versions that are being deleted; it has room for all models."""
    return folder.models / TRASH


def begun_removals(context: Context, folder: ModelFolder) -> Iterator[Found[ModelItem]]:
    """Yield what a run that was killed has begun to remove."""
    for path in listed(trash_of(folder), f"{RETENTION}*"):
        with suppress(NotFoundError), posix.map_errors(path):  # else a run ends just now
            since = datetime.fromtimestamp(path.lstat().st_mtime, UTC)
            item = ModelItem(KIND, f"{TRASH}/{path.name}", 0, since, (str(path),), 0)
            yield Expired(item, "a removal that was begun")
    for number in folder.half_removed_versions():
        unknown = _unknown(context, folder, number)
        try:
            removed = RemovedModel.read(folder, number)
        except TrainFeedError as error:
            yield Kept(unknown, f"whose version it is cannot be told: {error}")
            continue
        if removed is not None and removed.manifest.job.dataset == context.spec.name:
            size = removed.manifest.num_bytes
            yield Expired(_item(folder, number, size, parse_time(removed.at)), removed.why)


def found_models(context: Context, folder: ModelFolder) -> Iterator[ModelItem | Kept[ModelItem]]:
    """Yield the versions of the model that trainings of the data set made."""
    for number in folder.versions():
        try:
            model = Model.open(folder, number)
            with posix.map_errors(model.path):
                since = datetime.fromtimestamp((model.path / MANIFEST).stat().st_mtime, UTC)
        except TrainFeedError as error:
            yield Kept(_unknown(context, folder, number), f"it cannot be read: {error}")
            continue
        if model.manifest.job.dataset == context.spec.name:
            yield _item(folder, number, model.manifest.num_bytes, since)


def _unknown(context: Context, folder: ModelFolder, number: int) -> ModelItem:
    return _item(folder, number, 0, context.now)


def _item(folder: ModelFolder, number: int, size: int, since: datetime) -> ModelItem:
    place = str(folder.version(number))
    name = f"{folder.name}/{model_version(number)}"
    return ModelItem(KIND, name, size, since, (place,), number)


# --- The removal of a version of a model: record, second look, rename, deletion

_IN_USE = "a process has it open: a service, a prediction or an upload"


def remove_version(context: Context, folder: ModelFolder, number: int, why: str) -> str | None:
    """Remove a version that nothing needs.

    Args:
        context: The data set that made it.
        folder: The model.
        number: Number of the version; nothing is done if it is gone.
        why: The rule, for the record.

    Returns:
        Why it stays after all, None if it is gone.

    Raises:
        StorageError: The publication root refused or failed; the next call goes on.
    """
    aside = trash_of(folder) / f"{RETENTION}{uuid.uuid4().hex}"
    with alias_lock(folder):
        needed = needed_models(folder).get(number)
        if needed is not None:
            return needed
        try:
            with posix.try_lock(folder.version(number) / MANIFEST) as is_free:
                if not is_free:
                    return _IN_USE
                _hide(context, folder, number, why)
                _move(folder.version(number), aside)
        except NotFoundError:
            return _why_unseen(folder.version(number))
        except FormatError as error:
            return f"it cannot be read: {error}"
    faults.point("models.after_rename")
    posix.remove_tree(aside)
    return None


def needed_models(folder: ModelFolder) -> dict[int, str]:
    """Return number → why it is needed, of the versions that no rule removes.

    Raises:
        ConfigError: A change of an alias names something that is no version.
        FormatError: A change of an alias is damaged.
        StorageError: The publication root refused or failed.
    """
    newest = dict.fromkeys(folder.versions()[-1:], "it is the newest version")
    return newest | pointed_versions(folder)


def open_elsewhere(folder: ModelFolder, number: int) -> str | None:
    """Return why a version stays that a process has open; None if no process is known to.

    Raises:
        StorageError: The publication root refused or failed.
    """
    try:
        with posix.try_lock(folder.version(number) / MANIFEST) as is_free:
            return None if is_free else _IN_USE
    except NotFoundError:
        return None  # removed, or moved: its removal looks again


def _hide(context: Context, folder: ModelFolder, number: int, why: str) -> None:
    """Write the record, unless an earlier call has."""
    if is_there(folder.removal(number)):
        return
    model = Model.open(folder, number)
    decided = context.decided(why)
    RemovedModel(model.manifest, model.manifest_sha256, **decided).write(folder)
    faults.point("models.after_record")


def _move(version: Path, aside: Path) -> None:
    posix.make_public_dir(aside.parent)
    posix.rename_directory(version, aside)


def _why_unseen(version: Path) -> str | None:
    """Return why a version without a manifest stays; None if there is no such folder."""
    return f"{version} has no manifest; look into it" if is_there(version) else None


# --- The kind ``models``: versions of the model that trainings of a data set make

_LOCK: Final = ".retention.lock"
_LOCK_S: Final = 600.0


class ModelVersions(Kind[ModelItem]):
    """Versions of a model, by the rule ``models``."""

    name = KIND

    def find(self, context: Context) -> Iterator[Found[ModelItem]]:
        """Yield versions to remove, the oldest first; without a rule only what was begun."""
        folder = model_of(context)
        if folder is None:
            return
        yield from begun_removals(context, folder)
        rule = context.spec.retention.models
        if rule == RetentionRule():
            return
        found = list(found_models(context, folder))
        yield from (each for each in found if isinstance(each, Kept))
        items = [each for each in found if isinstance(each, ModelItem)]
        yield from held_against(rule, items, context.now, _user(folder))

    def alone(self, context: Context, _first: Expired[ModelItem]) -> AbstractContextManager[object]:
        """Hold a lock: data sets share the trash, and of two runs one deletes."""
        models = ModelsFolder(context.folder.root).path
        return posix.file_lock(models / _LOCK, timeout_s=_LOCK_S)

    def delete(self, context: Context, each: Expired[ModelItem]) -> str | None:
        """Remove a version; one that has come into use stays."""
        if not each.item.number:
            posix.remove_tree(Path(each.item.places[0]))
            return None
        folder = model_of(context)
        return (
            None if folder is None else remove_version(context, folder, each.item.number, each.why)
        )


def _user(folder: ModelFolder) -> Callable[[ModelItem], str | None]:
    """Return what tells who needs a version; if that cannot be told, all are needed."""
    try:
        needed, unknown = needed_models(folder), None
    except TrainFeedError as error:
        needed, unknown = {}, f"where aliases point to cannot be told: {error}"

    def user(item: ModelItem) -> str | None:
        return unknown or needed.get(item.number) or open_elsewhere(folder, item.number)

    return user
