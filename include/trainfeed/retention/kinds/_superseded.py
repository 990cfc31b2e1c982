"""Generations that a newer one of their interval supersedes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from trainfeed.dataset.layout import DatasetFolder
from trainfeed.retention._context import Context
from trainfeed.retention._item import Expired, Kept
from trainfeed.retention.kinds._found_version import (
    VersionItem,
    half_removed,
    version_item,
)
from trainfeed.retention.kinds._generation_rule import generation_rule, superseded_by_rule
from trainfeed.retention.kinds._retired_intervals import retiring
from trainfeed.retention.kinds._version_removal import remove_versions

__all__ = ["SupersededGenerations"]

_BEGUN = "a removal that was begun"


class SupersededGenerations:
    """Generations beyond ``keep_generations`` and ``keep_days``.

    Of an interval, the newest generation stays, and the one that readers get by default.
    """

    name = "generations"

    def find(self, context: Context) -> Iterator[Expired | Kept]:
        """Yield superseded generations, by interval and number, but for intervals to retire."""
        whole = retiring(context)
        for interval in context.look.intervals():
            if interval in whole:
                continue
            for generation in half_removed(context.look, interval):
                yield Expired(self._item(context, interval, generation), _BEGUN)
            for generation in superseded_by_rule(context, interval):
                item = self._item(context, interval, generation)
                user = context.uses.why(interval, generation)
                yield Expired(item, generation_rule(context)) if user is None else Kept(item, user)

    def remove(self, context: Context, items: Sequence[Expired]) -> list[Kept]:
        """Remove the generations for good."""
        return remove_versions(context, items, partial(_newest_again, context.folder))

    def _item(self, context: Context, interval: str, generation: int) -> VersionItem:
        return version_item(context.folder, self.name, interval, generation)


def _newest_again(folder: DatasetFolder, item: VersionItem) -> str | None:
    """Return why a marked version is wanted after all: all newer ones were withdrawn meanwhile."""
    readable = folder.readable_generation(item.interval)
    if readable is not None:
        return None
    return "no other generation of the interval can be read any more"
