"""What nothing names any more: kept code, spent plans, work files, and the rest of removals."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, Literal, TypeAlias

from trainfeed.core import faults
from trainfeed.core.intervals import format_time
from trainfeed.errors import FormatError, NotFoundError, SnapshotError
from trainfeed.files import listed
from trainfeed.files.stores import CLOCK_MARGIN, Location, posix
from trainfeed.pipeline.leftovers import (
    RETENTION,
    Leftover,
    leftover_spills,
    leftovers_of_dataset,
)
from trainfeed.pipeline.plans import Plan, PlannedFile
from trainfeed.specification import RetentionRule
from trainfeed.upkeep.retention.context import (
    Context,
    Judge,
    Kind,
    given_up_plans,
    may_be_published,
)
from trainfeed.upkeep.retention.items import (
    Expired,
    Found,
    Item,
    Kept,
    PlanItem,
    held_against,
    plan_item,
)
from trainfeed.upkeep.retention.landing import landed_for
from trainfeed.upkeep.retention.uses import Look
from trainfeed.upkeep.retention.versions import size_of
from trainfeed.versions.layout import DatasetFolder, generation_of_plan
from trainfeed.versions.retire import retirement_of


def file_item(kind: str, name: str, path: Path) -> Item | None:
    """Return a file as an item, aged since its last change; None if it is gone."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return None
    since = datetime.fromtimestamp(found.st_mtime, UTC)
    return Item(kind, name, found.st_size, since, (str(path),))


# --- Kept code, lookups, layouts and lists of files that no plan of the data set names

TextKind: TypeAlias = Literal["code", "lookups", "layouts", "lists"]

_NAME: Final = re.compile(r"([0-9a-f]{64})(\.json|\.layouts|\.arrow)?")
_KINDS: Final[dict[str | None, TextKind]] = {
    ".json": "code", ".layouts": "layouts", ".arrow": "lists", None: "lookups",
}  # fmt: skip
# A build that finds an outdated version keeps the code of today without a plan, night by night.
_YOUNG: Final = timedelta(days=3)


class KeptTexts(Kind[Item]):
    """Files of ``code``, ``lookups``, ``layouts`` or ``lists``, whose digest a plan has.

    A difference shows code and lookups; layouts say where the rows of a plan's files are, and lists
    are the files of a plan that has many.

    They go without a rule once no plan names them. A plan that cannot be read keeps all.

    Args:
        name: ``code``, ``lookups``, ``layouts`` or ``lists``, the kind and the folder.
    """

    moves = True

    def __init__(self, name: TextKind) -> None:
        self.name = name

    def find(self, context: Context) -> Iterator[Found[Item]]:
        """Yield files of old digests, in order of their names."""
        before = context.now - _YOUNG
        old = [each for each in self._items(context.folder) if each.since < before]
        if not old:
            return
        why_of = self._wanted(context.look)
        for item in old:
            why = why_of(item.name)
            if why is None:
                yield Expired(item, "no plan names it")
            elif why != _NAMED:
                yield Kept(item, why)

    def hide(self, context: Context, each: Expired[Item]) -> None:
        """Move a file aside."""
        path = Path(each.item.places[0])
        with suppress(NotFoundError), posix.map_errors(path):
            path.rename(context.aside / path.name)

    def look(self, context: Context) -> Judge[Item]:
        """Read all plans once more: a build keeps the texts after its plan."""
        faults.point("retention.after_aside")
        why_of = self._wanted(Look.at(context.folder))
        return lambda each: why_of(each.item.name) or each

    def show(self, context: Context, item: Item) -> None:
        """Put a file back; one that was made again meanwhile has the same content."""
        self._put_back(context, context.aside / Path(item.places[0]).name)

    def show_wanted(self, context: Context, aside: Path) -> None:
        """Put back what a run hid that was killed before it looked, as far as a plan names it.

        Args:
            context: The data set.
            aside: The folder to which that run renamed files.
        """
        places = [each for each in listed(aside) if _kind_of(each.name) == self.name]
        if places:
            why_of = self._wanted(Look.at(context.folder))
            for place in places:
                if why_of(place.name) is not None:
                    self._put_back(context, place)

    def _put_back(self, context: Context, place: Path) -> None:
        path = context.folder.path / self.name / place.name
        with suppress(NotFoundError), posix.map_errors(path):
            place.rename(path)
            posix.sync_dir(path.parent)

    def delete(self, _context: Context, _each: Expired[Item]) -> None:
        """Leave the file aside, where all are deleted together."""

    def _items(self, folder: DatasetFolder) -> Iterator[Item]:
        for path in listed(folder.path / self.name):
            if _NAME.fullmatch(path.name):
                item = file_item(self.name, f"{self.name}/{path.name}", path)
                if item is not None:
                    yield item

    def _wanted(self, folder: Look) -> Callable[[str], str | None]:
        """Return what says why the file of a name is wanted, after one look at all plans."""
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
        return lambda name: _NAMED if _digest(name) in named else None

    def _digests(self, plan: Plan) -> set[str]:
        if self.name == "code":
            return {str(plan.code["digest"])}
        if self.name == "lists":
            return set() if plan.file_list is None else {plan.file_list.sha256}
        if self.name == "layouts":
            files = (each for each in plan.inputs.values() if isinstance(each, PlannedFile))
            return {each.layouts for each in files if each.layouts is not None}
        return set(plan.lookups.values())


_NAMED: Final = "a plan names it"


def _all_by(why: str) -> Callable[[str], str | None]:
    return lambda _name: why


def _digest(name: str) -> str:
    return name.rpartition("/")[2].partition(".")[0]


def _kind_of(name: str) -> TextKind | None:
    """Return the folder of a file with such a name; None if no text has it."""
    found = _NAME.fullmatch(name)
    return None if found is None else _KINDS[found[2]]


# --- The rest of removals of earlier runs that were killed between the rename and the deletion


class KilledRemovals(Kind[Item]):
    """Folders in ``_trash`` that a run of retention made.

    Such a run holds the lock of retention until they are deleted: whatever a run finds there when
    it has the lock was left by one that is dead.
    """

    name = "trash"

    def find(self, context: Context) -> Iterator[Expired[Item]]:
        """Yield what is there, by name."""
        for path in listed(context.folder.trash, f"{RETENTION}*"):
            with suppress(NotFoundError), posix.map_errors(path):  # else a run ends just now
                since = datetime.fromtimestamp(path.lstat().st_mtime, UTC)
                item = Item(self.name, f"_trash/{path.name}", size_of(path), since, (str(path),))
                yield Expired(item, "a removal that was begun")

    def delete(self, context: Context, each: Expired[Item]) -> str | None:
        """Delete a folder, but for texts that plans name; one of which a snapshot is kept stays."""
        aside = Path(each.item.places[0])
        for kind in map(KeptTexts, _KINDS.values()):
            kind.show_wanted(context, aside)
        try:
            posix.remove_tree(aside)
        except SnapshotError as error:
            return str(error)
        return None


# --- Plans that no version needs: those of retired intervals, and those that were never published


class SpentPlans(Kind[PlanItem]):
    """Plans of retired intervals, and by the rule ``plans`` those that were never published.

    A plan goes after the landing files that only it names, which are found through it.
    """

    name = "plans"

    def find(self, context: Context) -> Iterator[Found[PlanItem]]:
        """Yield plans with the files about them, by interval."""
        for interval in context.look.planned_intervals():
            retired = retirement_of(context.look, interval)
            if retired is not None:
                yield from _of_retired(context, self.name, interval, retired.last_generation)
        for each in given_up_plans(context):
            yield _after_landing(context, each) if isinstance(each, Expired) else each

    def look(self, context: Context) -> Judge[PlanItem]:
        """Look at each plan that was given up, in its turn."""
        return lambda each: each if each.item.is_retired else _again(context, each)

    def delete(self, _context: Context, each: Expired[PlanItem]) -> None:
        """Delete the files of a plan, its own last; those that are gone are passed over."""
        for path in map(Path, each.item.places):
            with posix.map_errors(path):
                path.unlink(missing_ok=True)
            faults.point("retention.after_file")


def _of_retired(context: Context, kind: str, interval: str, last: int) -> Iterator[Found[PlanItem]]:
    ids = [each for each in context.look.plan_ids(interval) if generation_of_plan(each) <= last]
    left = landed_for(context, interval) if ids else []
    for plan_id in ids:
        item = plan_item(context.folder, kind, interval, plan_id, is_retired=True)
        if left:
            yield Kept(item, _landed(left))
        else:
            yield Expired(item, "its interval is retired")


def _after_landing(context: Context, each: Expired[PlanItem]) -> Found[PlanItem]:
    item = each.item
    left = landed_for(context, item.interval, item.plan_id)
    return Kept(item, _landed(left)) if left else each


def _landed(left: Sequence[str]) -> str:
    return f"its landing files go first, as {left[0]}"


def _again(context: Context, each: Expired[PlanItem]) -> Expired[PlanItem] | str:
    """Return a plan, or why it stays although it was given up: a waiver makes it young again."""
    item = each.item
    try:
        again = plan_item(context.folder, item.kind, item.interval, item.plan_id, is_retired=False)
    except NotFoundError:
        return each
    return may_be_published(context, again) or each


# --- The kind ``work``: unfinished files of the builds of one data set

# A task touches its folders every few minutes; the rest is for tasks that pause.
_IN_WORK: Final = timedelta(days=1)
_IN_USE: Final = "it changed less than a day ago: a build may work on it"


@dataclass(frozen=True)
class _WorkItem(Item):
    leftover: Leftover


class WorkFiles(Kind[_WorkItem]):
    """Staging folders, spill files, temporary files and trash, by the rule ``work``."""

    name = "work"

    def find(self, context: Context) -> Iterator[Found[_WorkItem]]:
        """Yield what has not changed for longer than the rule says; without a rule nothing."""
        rule = context.spec.retention.work
        if rule == RetentionRule():
            return
        items = [_item(self.name, each) for each in _leftovers(context)]
        youngest = context.now - _IN_WORK
        yield from held_against(
            rule, items, context.now, lambda item: _use(item, youngest, context.now)
        )

    def look(self, context: Context) -> Judge[_WorkItem]:
        """List all leftovers again; one that has changed meanwhile stays."""
        now = {each.place.uri: each.modified_ms for each in _leftovers(context)}

        def judge(each: Expired[_WorkItem]) -> Expired[_WorkItem] | str | None:
            modified_ms = now.get(each.item.leftover.place.uri)
            if modified_ms is None:
                return None  # published, or removed by another run
            return each if modified_ms == each.item.leftover.modified_ms else _IN_USE

        return judge

    def delete(self, _context: Context, each: Expired[_WorkItem]) -> str | None:
        """Remove a leftover; one of which a snapshot is kept stays."""
        try:
            each.item.leftover.remove()
        except SnapshotError as error:
            return str(error)
        faults.point("work.after_item")
        return None


def _use(item: Item, youngest: datetime, now: datetime) -> str | None:
    # A build beside this run, or one whose clock is ahead by a little, is no wrong clock.
    if item.since > now + CLOCK_MARGIN:
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
