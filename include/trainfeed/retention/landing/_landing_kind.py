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
from trainfeed.dataset.landing_removals import LandingRemoval, write_landing_removal
from trainfeed.dataset.layout import DatasetFolder
from trainfeed.dataset.root import data_sets_of
from trainfeed.errors import ConflictError, NotFoundError
from trainfeed.intervals import format_time
from trainfeed.pipeline.upkeep import LANDING_TRASH
from trainfeed.retention._context import Context
from trainfeed.retention._item import Excess, Expired, Kept
from trainfeed.retention.landing._interval_landing import KIND, LandingItem, released
from trainfeed.retention.landing._landing_claims import open_plan
from trainfeed.retention.landing._landing_listing import LandingListing
from trainfeed.retention.landing._landing_sharers import Sharer, sharers_of
from trainfeed.storage import Location

__all__ = ["LandingFiles"]


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
            yield each if why is None else Kept(item, why)

    def remove(self, context: Context, items: Sequence[Expired]) -> list[Kept]:
        """Remove landing files; those of an interval that is being built meanwhile stay."""
        area, kept = Location.parse(context.env.landing), []
        for each in items:
            item = cast("LandingItem", each.item)
            why = _needed_again(context, item)
            if why is not None:
                kept.append(Kept(item, why))
                continue
            at = format_time(context.now)
            removal = LandingRemoval(at, each.why, len(item.files))
            write_landing_removal(context.folder, item.interval, removal)
            faults.point("landing.after_note")
            _discard(area, item)
        return kept


def _needed_again(context: Context, item: LandingItem) -> str | None:
    """Return the plan that was made since the files were found, or a use that began since."""
    for name in data_sets_of(context.folder.root):
        plan = open_plan(DatasetFolder(context.folder.root, name), item.interval)
        if plan is not None and (item.is_wanted or name != context.folder.name):
            return f"plan {plan} of {name} may still be published from them"
    if not item.is_wanted:
        return None
    uses, numbers = context.fresh_uses(), context.folder.generations(item.interval)
    return next((why for number in numbers if (why := uses.why(item.interval, number))), None)


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
