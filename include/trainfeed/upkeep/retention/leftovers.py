"""What nothing names any more: kept code and lookups, spent plans, and work files of builds."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, Literal, TypeAlias, cast

from trainfeed.core import faults
from trainfeed.core.intervals import format_time
from trainfeed.errors import FormatError, NotFoundError, TrainFeedError
from trainfeed.files import listed
from trainfeed.files.stores import Location, posix
from trainfeed.pipeline.leftovers import RETENTION, Leftover, leftover_spills, leftovers_of_dataset
from trainfeed.pipeline.plans import Plan
from trainfeed.specification import RetentionRule
from trainfeed.upkeep.retention.context import Context, Look, given_up_plans, may_be_published
from trainfeed.upkeep.retention.items import (
    Excess,
    Expired,
    Item,
    Kept,
    PlanItem,
    held_against,
    plan_item,
    remove_plan_files,
)
from trainfeed.upkeep.retention.landing import landed_for
from trainfeed.versions.layout import DatasetFolder, generation_of_plan
from trainfeed.versions.retire import retirement_of

# --- Files that go after a second look: moved aside, and put back if something wants them after all


def file_item(kind: str, name: str, path: Path) -> Item | None:
    """Return a file as an item, aged since its last change; None if it is gone."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return None
    since = datetime.fromtimestamp(found.st_mtime, UTC)
    return Item(kind, name, found.st_size, since, (str(path),))


def move_aside(
    folder: DatasetFolder,
    expired: Sequence[Expired],
    still_wanted: Callable[[], Callable[[Item], str | None]],
) -> list[Kept]:
    """Remove files of one place each, but for those that a second look wants.

    Args:
        folder: The data set.
        expired: The files.
        still_wanted: Looks again, after the files are aside; what it returns says why one is
            wanted.

    Returns:
        The files that stay.

    Raises:
        TrainFeedError: The second look failed; all files were put back.
    """
    aside = folder.trash / f"{RETENTION}{uuid.uuid4().hex}"
    posix.make_public_dir(aside)
    moved = list(_moved(expired, aside))
    faults.point("retention.after_aside")
    try:
        why_of = still_wanted()
    except TrainFeedError:
        for item, place in moved:
            _put_back(item, place)
        raise
    kept = []
    for item, place in moved:
        why = why_of(item)
        if why is not None:
            _put_back(item, place)
            kept.append(Kept(item, why))
    posix.remove_tree(aside)
    return kept


def _moved(expired: Sequence[Expired], aside: Path) -> Iterator[tuple[Item, Path]]:
    for number, each in enumerate(expired):
        path, place = Path(each.item.places[0]), aside / f"{number:06d}"
        with posix.map_errors(path):
            try:
                path.rename(place)
            except FileNotFoundError:
                continue
        yield each.item, place


def _put_back(item: Item, place: Path) -> None:
    path = Path(item.places[0])
    with posix.map_errors(path):
        # A file that was made again meanwhile has the same content.
        place.rename(path)
    posix.sync_dir(path.parent)


# --- Kept code and kept lookups that no plan of the data set names

TextKind: TypeAlias = Literal["code", "lookups"]

_NAME: Final = re.compile(r"([0-9a-f]{64})(\.json)?")
# A build that finds an outdated version keeps the code of today without a plan, night by night.
_YOUNG: Final = timedelta(days=3)


class KeptTexts:
    """Files of ``code`` or ``lookups``: a plan has their digest, and a difference shows them.

    They go without a rule once no plan names them. A plan that cannot be read keeps all.

    Args:
        name: ``code`` or ``lookups``, the kind and the folder.
    """

    def __init__(self, name: TextKind) -> None:
        self._name: TextKind = name

    @property
    def name(self) -> str:
        """Name of the kind."""
        return self._name

    def find(self, context: Context) -> Iterator[Expired | Kept]:
        """Yield files of old digests, in order of their names."""
        before = context.now - _YOUNG
        old = [each for each in self._items(context.folder) if each.since < before]
        if not old:
            return
        why_of = self._wanted(context.look)
        for item in old:
            why = why_of(item)
            if why is None:
                yield Expired(item, "no plan names it")
            elif why != _NAMED:
                yield Kept(item, why)

    def remove(self, context: Context, items: Sequence[Expired]) -> list[Kept]:
        """Delete the files that no plan names after all: a build keeps them after its plan."""
        return move_aside(context.folder, items, lambda: self._wanted(Look.at(context.folder)))

    def _items(self, folder: DatasetFolder) -> Iterator[Item]:
        for path in listed(folder.path / self._name):
            if _NAME.fullmatch(path.name):
                item = file_item(self._name, f"{self._name}/{path.name}", path)
                if item is not None:
                    yield item

    def _wanted(self, folder: Look) -> Callable[[Item], str | None]:
        """Return what says why a file is wanted, after one look at all plans."""
        named: set[str] = set()
        for interval in folder.planned_intervals():
            for plan_id in folder.plan_ids(interval):
                try:
                    plan = folder.plan_of(interval, plan_id)
                except NotFoundError:
                    continue
                except FormatError as error:
                    return _all_by(
                        f"plan {interval}/{plan_id} cannot be read and may name it: {error}"
                    )
                named |= self._digests(plan)
        return lambda item: _NAMED if _digest(item) in named else None

    def _digests(self, plan: Plan) -> set[str]:
        if self._name == "code":
            return {str(plan.code["digest"])}
        return set(plan.lookups.values())


_NAMED: Final = "a plan names it"


def _all_by(why: str) -> Callable[[Item], str | None]:
    return lambda _item: why


def _digest(item: Item) -> str:
    return item.name.partition("/")[2].removesuffix(".json")


# --- Plans that no version needs: those of retired intervals, and those that were never published


class SpentPlans:
    """Plans of retired intervals, and by the rule ``plans`` those that were never published.

    A plan goes after the landing files that only it names, which are found through it.
    """

    name = "plans"

    def find(self, context: Context) -> Iterator[Expired | Kept | Excess]:
        """Yield plans with the files about them, by interval."""
        for interval in context.look.planned_intervals():
            retired = retirement_of(context.look, interval)
            if retired is not None:
                yield from _of_retired(context, self.name, interval, retired.last_generation)
        for each in given_up_plans(context):
            yield _after_landing(context, each) if isinstance(each, Expired) else each

    def remove(self, context: Context, items: Sequence[Expired]) -> list[Kept]:
        """Delete the files of the plans, that of a plan after those about it."""
        kept = []
        for each in items:
            item = cast("PlanItem", each.item)
            why = None if item.is_retired else _needed_again(context, item)
            if why is None:
                remove_plan_files(item)
            else:
                kept.append(Kept(item, why))
        return kept


def _of_retired(context: Context, kind: str, interval: str, last: int) -> Iterator[Expired | Kept]:
    ids = [each for each in context.look.plan_ids(interval) if generation_of_plan(each) <= last]
    left = landed_for(context, interval) if ids else []
    for plan_id in ids:
        item = plan_item(context.folder, kind, interval, plan_id, is_retired=True)
        if left:
            yield Kept(item, _landed(left))
        else:
            yield Expired(item, "its interval is retired")


def _after_landing(context: Context, each: Expired) -> Expired | Kept:
    item = cast("PlanItem", each.item)
    left = landed_for(context, item.interval, item.plan_id)
    return Kept(item, _landed(left)) if left else each


def _landed(left: Sequence[str]) -> str:
    return f"its landing files go first, as {left[0]}"


def _needed_again(context: Context, item: PlanItem) -> str | None:
    """Return why a plan that was given up stays: also a waiver makes it young again."""
    try:
        again = plan_item(context.folder, item.kind, item.interval, item.plan_id, is_retired=False)
    except NotFoundError:
        return None
    return may_be_published(context, again)


# --- The kind ``work``: unfinished files of the builds of one data set

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
