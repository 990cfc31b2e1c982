"""The kind ``work``: unfinished files of the builds of one data set.

Without a rule ``trainfeed gc`` alone removes them: it looks at these places of all data sets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, cast

from trainfeed import faults
from trainfeed.intervals import format_time
from trainfeed.pipeline.upkeep import Leftover, leftover_spills, leftovers_of_dataset
from trainfeed.retention._context import Context
from trainfeed.retention._item import Excess, Expired, Item, Kept
from trainfeed.retention._rule import held_against
from trainfeed.specification import RetentionRule
from trainfeed.storage import Location

__all__ = ["WorkFiles"]

# A task touches its folders every few minutes; the rest is for tasks that pause.
_IN_WORK: Final = timedelta(days=1)
_IN_USE: Final = "it changed less than a day ago: a build may work on it"


@dataclass(frozen=True)
class _WorkItem(Item):
    leftover: Leftover


class WorkFiles:
    """Staging folders, spill files, temporary files and trash, by the rule ``work``."""

    name: Final = "work"

    def find(self, context: Context) -> Iterator[Expired | Kept | Excess]:
        """Yield what has not changed for longer than the rule says; without a rule nothing."""
        rule = context.spec.retention.work
        if rule == RetentionRule():
            return
        items = [_item(self.name, each) for each in _leftovers(context)]
        youngest = context.now - _IN_WORK
        yield from held_against(
            rule, items, context.now, lambda item: _use(item, youngest, context.now)
        )

    def remove(self, context: Context, items: Sequence[Expired]) -> list[Kept]:
        """Remove leftovers; one that has changed meanwhile stays."""
        now = {each.place.uri: each for each in _leftovers(context)}
        kept = []
        for each in items:
            item = cast("_WorkItem", each.item)
            found = now.get(item.leftover.place.uri)
            if found is None:
                continue  # published, or removed by another run
            if found.modified_ms != item.leftover.modified_ms:
                kept.append(Kept(item, _IN_USE))
                continue
            found.remove()
            faults.point("work.after_item")
        return kept


def _use(item: Item, youngest: datetime, now: datetime) -> str | None:
    if item.since > now:
        return (
            f"it changed at {format_time(item.since)}, which is in the future of this machine: a"
            " clock is wrong, or it was copied with its time"
        )
    return _IN_USE if item.since > youngest else None


def _leftovers(context: Context) -> Iterator[Leftover]:
    yield from leftovers_of_dataset(Location.parse(str(context.folder.path)))
    # Spill files of all data sets lie in one folder: those of plans that are not of this one stay.
    look = context.look
    plans = {each for name in look.planned_intervals() for each in look.plan_ids(name)}
    for spill in leftover_spills(Location.parse(context.env.work)):
        if spill.place.name in plans:
            yield spill


def _item(kind: str, leftover: Leftover) -> _WorkItem:
    uri = leftover.place.uri
    return _WorkItem(
        kind=kind,
        name="/".join(uri.rsplit("/", 2)[-2:]),
        num_bytes=leftover.size_bytes,
        since=datetime.fromtimestamp(leftover.modified_ms / 1000, UTC),
        places=(uri,),
        leftover=leftover,
    )
