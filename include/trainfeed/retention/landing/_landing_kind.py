"""The kind ``landing``: finds the landing files that no data set wants, and removes them.

A removal is a note beside the plans, one rename of every file into a folder of the trash, and the
deletion of this folder. Nothing reads the trash. A reader that has a file open may get an error of
the store; a build never does, because the files of a plan that may still be published stay.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final, cast

from trainfeed import faults
from trainfeed.dataset.interval_notes import LandingRemoval, write_landing_removal
from trainfeed.errors import ConflictError, NotFoundError
from trainfeed.intervals import format_time
from trainfeed.pipeline.upkeep import LANDING_TRASH
from trainfeed.retention._context import Context
from trainfeed.retention._item import Excess, Expired, Kept
from trainfeed.retention._plan_files import open_plans
from trainfeed.retention.landing._interval_landing import KIND, LandingItem, released
from trainfeed.retention.landing._landing_listing import LandingListing
from trainfeed.retention.landing._landing_sharers import Sharer, sharers_of
from trainfeed.storage import Location

__all__ = ["LandingFiles"]

# Files are renamed after a second look at all that may want them: one look for so many intervals.
_AT_ONCE: Final = 50
_NO_RULE: Final = (
    "dataset.yaml has no rule retention.landing, and another publication root may have the same"
    " landing area; state the rule in one of these roots only, as landing: {keep_days: 30}"
)


class LandingFiles:
    """Landing files of intervals, by the rule ``landing`` of all data sets that read them."""

    name: Final = KIND

    def find(self, context: Context) -> Iterator[Expired | Kept | Excess]:
        """Yield landing files, by interval, that no data set of the root wants.

        Files that no plan of the root names are not looked at: another root may have landed them.
        """
        listing = LandingListing(Location.parse(context.env.landing))
        sharers: list[Sharer] | None = None
        for each in released(context, listing):
            if not isinstance(each, Expired):
                yield each
                continue
            if sharers is None:
                sharers = list(sharers_of(context, listing))
            item = cast("LandingItem", each.item)
            why = next((why for other in sharers if (why := other.wants(item))), None)
            if not item.is_wanted and not _has_rule(context):
                why = _NO_RULE
            yield each if why is None else Kept(item, why)

    def remove(self, context: Context, items: Sequence[Expired]) -> list[Kept]:
        """Remove landing files; those that came into use since they were found stay."""
        kept: list[Kept] = []
        for start in range(0, len(items), _AT_ONCE):
            kept += self._some_removed(context, items[start : start + _AT_ONCE])
        return kept

    def _some_removed(self, context: Context, items: Sequence[Expired]) -> Iterator[Kept]:
        """Remove items; yield those that are not released any more when all is looked at again."""
        area = Location.parse(context.env.landing)
        again = _by_name(self.find(context.again()))
        listing = LandingListing(area)
        for each in items:
            item = cast("LandingItem", each.item)
            left = {name for name in item.files if listing.find(name) is not None}
            why = _needed_again(context, item, again.get(item.name), left)
            if why is not None:
                yield Kept(item, why)
                continue
            removal = LandingRemoval(format_time(context.now), each.why, len(item.files))
            write_landing_removal(context.folder, item.interval, removal)
            faults.point("landing.after_note")
            _discard(area, item)


def _has_rule(context: Context) -> bool:
    rule = context.spec.retention.landing
    return any(each is not None for each in (rule.keep, rule.keep_days, rule.max_bytes))


def _by_name(found: Iterator[Expired | Kept | Excess]) -> dict[str, Expired | Kept]:
    return {each.item.name: each for each in found if not isinstance(each, Excess)}


def _needed_again(
    context: Context, item: LandingItem, again: Expired | Kept | None, left: set[str]
) -> str | None:
    """Return why files that were released when they were found are not released any more."""
    if isinstance(again, Kept):
        return again.why
    released = cast("LandingItem", again.item).files if again is not None else ()
    if left.issubset(released):  # also if another call was faster, and none is left
        return None
    plans = open_plans(context.folder, item.interval)
    if not plans:
        return "they came into use after they were found"
    return f"plan {plans[0]} of {context.folder.name} may still be published from them"


def _discard(area: Location, item: LandingItem) -> None:
    trash = area / LANDING_TRASH / uuid.uuid4().hex
    trash.make_dir()
    for number, name in enumerate(item.files):
        with suppress(NotFoundError):  # another call was faster
            (area / name).rename(trash / f"{number:06d}")
        faults.point("landing.after_rename")
    trash.delete(recursive=True)
    for folder in sorted({name.rpartition("/")[0] for name in item.files}):
        # Folders of log files have one interval each; those of topics have other files.
        with suppress(ConflictError):
            (area / folder).delete()
    faults.point("landing.after_delete")
