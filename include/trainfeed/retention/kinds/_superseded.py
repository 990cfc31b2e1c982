"""Generations that a newer one of their interval supersedes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import cast

from trainfeed.dataset.layout import DatasetFolder
from trainfeed.retention._context import Context
from trainfeed.retention._item import Expired, Kept
from trainfeed.retention.kinds._found_version import (
    VersionItem,
    half_removed,
    published_at,
    version_item,
)
from trainfeed.retention.kinds._version_removal import mark_removed, remove_marked

__all__ = ["SupersededGenerations"]

_BEGUN = "a removal that was begun"


class SupersededGenerations:
    """Generations beyond ``keep_generations`` and ``keep_days``.

    Of an interval, the newest generation stays, and the one that readers get by default.
    """

    name = "generations"

    def find(self, context: Context) -> Iterator[Expired | Kept]:
        """Yield superseded generations, by interval and number."""
        for interval in context.folder.intervals():
            for generation in half_removed(context.folder, interval):
                yield Expired(self._item(context, interval, generation), _BEGUN)
            for generation in _beyond(context, interval):
                item = self._item(context, interval, generation)
                user = context.uses.why(interval, generation)
                yield Expired(item, _rule(context)) if user is None else Kept(item, user)

    def remove(self, context: Context, items: Sequence[Expired]) -> list[Kept]:
        """Remove the generations for good."""
        versions = [cast("VersionItem", each.item) for each in items]
        for each, item in zip(items, versions, strict=True):
            mark_removed(context, item, each.why)
        kept = remove_marked(context, versions, lambda item: _newest_again(context.folder, item))
        return [Kept(item, kept[item.name]) for item in versions if item.name in kept]

    def _item(self, context: Context, interval: str, generation: int) -> VersionItem:
        return version_item(context.folder, self.name, interval, generation)


def _beyond(context: Context, interval: str) -> list[int]:
    """Return the generations of an interval that the rule does not keep."""
    folder, rule = context.folder, context.spec.retention
    # Ascending, so the slice leaves out the newest. ``keep_days`` keeps further ones.
    beyond = folder.generations(interval)[: -rule.keep_generations]
    if beyond and rule.keep_days is not None:
        before = context.now - timedelta(days=rule.keep_days)
        beyond = [each for each in beyond if published_at(folder.version(interval, each)) < before]
    readable = folder.readable_generation(interval) if beyond else None
    return [each for each in beyond if each != readable]


def _rule(context: Context) -> str:
    rule = context.spec.retention
    days = "" if rule.keep_days is None else f", keep_days: {rule.keep_days}"
    return f"keep_generations: {rule.keep_generations}{days}"


def _newest_again(folder: DatasetFolder, item: VersionItem) -> str | None:
    """Return why a marked version is wanted after all: all newer ones were withdrawn meanwhile."""
    readable = folder.readable_generation(item.interval)
    if readable is not None:
        return None
    return "no other generation of the interval can be read any more"
