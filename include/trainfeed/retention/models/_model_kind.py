"""The kind ``models``: versions of the model that trainings of a data set make.

What an alias needs stays, and the newest version, and what a process has open. Two data sets may
make versions of one model; each removes its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, cast

from trainfeed.errors import TrainFeedError
from trainfeed.models import ModelFolder
from trainfeed.retention._context import Context
from trainfeed.retention._item import Excess, Expired, Item, Kept
from trainfeed.retention._rule import held_against
from trainfeed.retention.models._found_model import (
    KIND,
    ModelItem,
    TrashItem,
    begun_removals,
    found_models,
    model_of,
)
from trainfeed.retention.models._model_removal import (
    needed_models,
    open_elsewhere,
    remove_version,
)
from trainfeed.specification import RetentionRule
from trainfeed.storage import posix

__all__ = ["ModelVersions"]

_LOCK: Final = ".retention.lock"
_LOCK_S: Final = 600.0


class ModelVersions:
    """Versions of a model, by the rule ``models``."""

    name: Final = KIND

    def find(self, context: Context) -> Iterator[Expired | Kept | Excess]:
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

    def remove(self, context: Context, items: Sequence[Expired]) -> list[Kept]:
        """Remove versions; one that has come into use stays."""
        folder = model_of(context)
        if folder is None:
            return []
        kept = []
        # Data sets share the trash, each with a lock of its own: of two runs one deletes.
        with posix.file_lock(folder.models / _LOCK, timeout_s=_LOCK_S):
            for each in items:
                if isinstance(each.item, TrashItem):
                    posix.remove_tree(Path(each.item.places[0]))
                    continue
                number = cast("ModelItem", each.item).number
                if (why := remove_version(context, folder, number, each.why)) is not None:
                    kept.append(Kept(each.item, why))
        return kept


def _user(folder: ModelFolder) -> Callable[[Item], str | None]:
    """Return what tells who needs a version; if that cannot be told, all are needed."""
    try:
        needed, unknown = needed_models(folder), None
    except TrainFeedError as error:
        needed, unknown = {}, f"where aliases point to cannot be told: {error}"

    def user(item: Item) -> str | None:
        number = cast("ModelItem", item).number
        return unknown or needed.get(number) or open_elsewhere(folder, number)

    return user
