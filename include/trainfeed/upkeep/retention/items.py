"""Items that retention removes or keeps, with size and age; the rule of a kind; files of plans."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, TypeAlias, TypeVar

from trainfeed.files import listed
from trainfeed.files.stores import posix
from trainfeed.specification import RetentionRule
from trainfeed.versions.layout import DatasetFolder, generation_of_plan

# --- What retention removes or keeps: one item of a kind, with its size and its age


@dataclass(frozen=True)
class Item:
    """Something that is removed as a whole, or stays as a whole.

    Attributes:
        kind: Name of its kind, as ``generations``.
        name: What it is within the data set, as ``2013-01-01/g0001``.
        num_bytes: Size of its files.
        since: Begin of its age, aware UTC time: the publication, or the last change.
        places: Paths and URIs of its files and folders, the first to be hidden first.
    """

    kind: str
    name: str
    num_bytes: int
    since: datetime
    places: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the item for ``--json`` and for the history."""
        since = self.since.isoformat(timespec="seconds")
        return {"kind": self.kind, "name": self.name, "bytes": self.num_bytes, "since": since}


ItemT = TypeVar("ItemT", bound=Item)
ItemT_co = TypeVar("ItemT_co", bound=Item, covariant=True)


@dataclass(frozen=True)
class Expired(Generic[ItemT_co]):
    """An item that a rule does not keep and nothing uses.

    Attributes:
        item: The item.
        why: The rule, as ``keep_generations: 3``.
    """

    item: ItemT_co
    why: str


@dataclass(frozen=True)
class Kept(Generic[ItemT_co]):
    """An item that a rule does not keep, but that stays.

    Attributes:
        item: The item.
        why: Who uses it, or what cannot be told, with the remedy.
    """

    item: ItemT_co
    why: str


@dataclass(frozen=True)
class Excess:
    """A limit of bytes that is exceeded although all was removed that may be removed.

    Attributes:
        kind: Name of the kind.
        num_bytes: Size of what stays.
        max_bytes: The limit.
    """

    kind: str
    num_bytes: int
    max_bytes: int

    @property
    def told(self) -> str:
        """The excess in one line."""
        return (
            f"{self.kind}: {self.num_bytes} bytes stay, max_bytes is {self.max_bytes}: what stays"
            " is in use or the newest; raise max_bytes, or end the uses that are listed as kept"
        )


Found: TypeAlias = Expired[ItemT] | Kept[Item] | Excess


def by_name(found: Iterable[Found[ItemT]]) -> dict[str, Expired[ItemT] | Kept[Item]]:
    """Return what goes and what stays, by the names of the items."""
    return {each.item.name: each for each in found if not isinstance(each, Excess)}


# --- The rule of a kind, applied to its items: by number, by age, and by bytes


def held_against(
    rule: RetentionRule,
    items: Iterable[ItemT],
    now: datetime,
    in_use: Callable[[ItemT], str | None],
    *,
    order: Callable[[ItemT], datetime] = lambda item: item.since,
    size: Callable[[ItemT], int] = lambda item: item.num_bytes,
) -> Iterator[Expired[ItemT] | Kept[ItemT] | Excess]:
    """Yield the items that a rule does not keep, the oldest first.

    An item stays if it is among the newest ``keep``, or younger than ``keep_days``; where only one
    of the two is set, that one decides. ``max_bytes`` then removes further ones, the oldest first.

    Args:
        rule: The rule.
        items: All items of the kind.
        now: The time against which ages are held.
        in_use: Tells who uses an item, None if nobody does; called for items that would go.
        order: Time by which items are old or new; by default the begin of their age.
        size: Bytes of an item that count for ``max_bytes``.
    """
    ordered = sorted(items, key=lambda item: (order(item), item.name))
    left = sum(map(size, ordered))
    for position, item in enumerate(ordered):
        why = _beyond(rule, len(ordered) - position, item, now) or _too_much(rule, left)
        if why is None:
            continue
        user = in_use(item)
        if user is None:
            left -= size(item)
            yield Expired(item, why)
        else:
            yield Kept(item, user)
    if ordered and rule.max_bytes is not None and left > rule.max_bytes:
        yield Excess(ordered[0].kind, left, rule.max_bytes)


def _beyond(rule: RetentionRule, rank: int, item: Item, now: datetime) -> str | None:
    """Return the part of the rule that lets an item go; its rank is 1 for the newest."""
    if rule.keep is None and rule.keep_days is None:
        return None
    if rule.keep is not None and rank <= rule.keep:
        return None
    if rule.keep_days is not None and item.since > now - timedelta(days=rule.keep_days):
        return None
    if rule.keep_days is not None:
        return f"keep_days: {rule.keep_days}"
    return f"keep: {rule.keep}"


def _too_much(rule: RetentionRule, left: int) -> str | None:
    too_much = rule.max_bytes is not None and left > rule.max_bytes
    return f"max_bytes: {rule.max_bytes}" if too_much else None


# --- The files of one plan: the plan, its failed gates, and its waivers


@dataclass(frozen=True)
class PlanItem(Item):
    """A plan, with the files about it.

    Attributes:
        interval: Name of the interval.
        plan_id: Id of the plan.
        generation: Number of the generation that it plans.
        is_retired: Whether the interval was retired.
    """

    interval: str
    plan_id: str
    generation: int
    is_retired: bool


def open_plans(folder: DatasetFolder, interval: str) -> list[str]:
    """Return the ids of the plans of an interval whose generation may still be published, sorted.

    Raises:
        StorageError: The publication root refused or failed.
    """
    last = folder.last_generation(interval)
    return [each for each in folder.plan_ids(interval) if generation_of_plan(each) > last]


def plan_item(
    folder: DatasetFolder, kind: str, interval: str, plan_id: str, *, is_retired: bool
) -> PlanItem:
    """Return a plan as an item, whose age begins with the newest of its files.

    The plan comes after the files about it: while it is there, so are they.
    """
    about = sorted(listed(folder.plans(interval), f"{plan_id}.*.json"))
    files = [*about, folder.plan(interval, plan_id)]
    with posix.map_errors(files[-1]):
        found = [path.lstat() for path in files]
    return PlanItem(
        kind=kind,
        name=f"{interval}/{plan_id}",
        num_bytes=sum(each.st_size for each in found),
        since=datetime.fromtimestamp(max(each.st_mtime for each in found), UTC),
        places=tuple(map(str, files)),
        interval=interval,
        plan_id=plan_id,
        generation=generation_of_plan(plan_id),
        is_retired=is_retired,
    )
