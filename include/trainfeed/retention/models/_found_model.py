"""Versions of the model of a data set as items, and what an earlier run left half removed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from trainfeed.dataset.layout import MANIFEST
from trainfeed.errors import NotFoundError, TrainFeedError
from trainfeed.intervals import parse_time
from trainfeed.models import Model, ModelFolder, ModelsFolder, RemovedModel, model_version
from trainfeed.paths import listed
from trainfeed.pipeline.upkeep import RETENTION, TRASH
from trainfeed.retention._context import Context
from trainfeed.retention._item import Expired, Item, Kept
from trainfeed.storage import posix

__all__ = [
    "KIND",
    "ModelItem",
    "TrashItem",
    "begun_removals",
    "found_models",
    "model_of",
    "trash_of",
]

KIND: Final = "models"


@dataclass(frozen=True)
class ModelItem(Item):
    """A version of a model; ``number`` is its number."""

    number: int


@dataclass(frozen=True)
class TrashItem(Item):
    """A folder that a killed run has renamed away."""


def model_of(context: Context) -> ModelFolder | None:
    """Return the model of ``train.model``, None if the data set has none."""
    train = context.spec.train
    if train is None or train.model is None:
        return None
    return ModelsFolder(context.folder.root).model(train.model.name)


def trash_of(folder: ModelFolder) -> Path:
    """Return the folder of versions that are being deleted; it has room for all models."""
    return folder.models / TRASH


def begun_removals(context: Context, folder: ModelFolder) -> Iterator[Expired | Kept]:
    """Yield what a run that was killed has begun to remove."""
    for path in listed(trash_of(folder), f"{RETENTION}*"):
        with suppress(NotFoundError), posix.map_errors(path):  # else a run ends just now
            since = datetime.fromtimestamp(path.lstat().st_mtime, UTC)
            item = TrashItem(KIND, f"{TRASH}/{path.name}", 0, since, (str(path),))
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


def found_models(context: Context, folder: ModelFolder) -> Iterator[ModelItem | Kept]:
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
