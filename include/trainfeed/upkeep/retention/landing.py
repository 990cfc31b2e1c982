"""Landing files: those of an interval go together, once no data set of the root wants them.

Unfinished landing files of killed builds go with ``trainfeed.pipeline.leftovers``.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final, Literal

from trainfeed.core import faults
from trainfeed.core.intervals import format_time
from trainfeed.errors import ConflictError, FormatError, NotFoundError, TrainFeedError
from trainfeed.files.stores import FileInfo, Location, RenamingLocation
from trainfeed.pipeline.landed_ranges import landing_name_of
from trainfeed.pipeline.leftovers import LANDING_TRASH
from trainfeed.pipeline.plans import Plan
from trainfeed.specification import load_spec
from trainfeed.upkeep.retention.context import Context, Judge, Kind, given_up_plans
from trainfeed.upkeep.retention.items import (
    Expired,
    Found,
    Item,
    Kept,
    by_name,
    held_against,
    open_plans,
)
from trainfeed.upkeep.retention.uses import Look
from trainfeed.versions.interval_notes import LandingRemoval, write_landing_removal
from trainfeed.versions.root import data_sets_of

# --- The claims that the plans of an interval have on landing files

State = Literal["open", "kept", "gone", "given up"]


@dataclass(frozen=True)
class PlanClaim:
    """The landing files that one plan names.

    Attributes:
        plan_id: Id of the plan.
        generation: Number of its generation.
        state: ``open`` if the generation may still be published, ``kept`` if it is there, ``gone``
            if it was removed, ``given up`` if it was never published and the rule ``plans`` says
            that it will not be.
        files: Paths of the files below the landing area.
    """

    plan_id: str
    generation: int
    state: State
    files: frozenset[str]


@dataclass(frozen=True)
class IntervalClaims:
    """All claims of one interval.

    Attributes:
        interval: Name of the interval.
        plans: The claims of the plans that can be read.
        unreadable: Why a plan of the interval cannot be read; None if all can.
    """

    interval: str
    plans: tuple[PlanClaim, ...]
    unreadable: str | None

    @property
    def wanted(self) -> frozenset[str]:
        """Files that an open or kept plan names."""
        return self.named("open", "kept")

    @property
    def superseded(self) -> frozenset[str]:
        """Files that a plan names whose generation is gone, and that are not wanted."""
        return self.named("gone") - self.wanted

    @property
    def given_up(self) -> frozenset[str]:
        """Files that only plans name that are given up."""
        return self.named("given up") - self.named("gone") - self.wanted

    def named(self, *states: State) -> frozenset[str]:
        """Return the files that plans in one of these states name."""
        found = (each.files for each in self.plans if each.state in states)
        return frozenset[str]().union(*found)

    @property
    def generations(self) -> list[int]:
        """Published generations whose plan is known, ascending."""
        return sorted({each.generation for each in self.plans if each.state == "kept"})


def claims_of(folder: Look) -> Iterator[IntervalClaims]:
    """Yield the claims of every interval that has plans, in order of intervals.

    Raises:
        StorageError: The publication root refused or failed.
    """
    for interval in folder.planned_intervals():
        yield claims_in(folder, interval)


def claims_in(folder: Look, interval: str) -> IntervalClaims:
    """Return the claims of one interval.

    Raises:
        StorageError: The publication root refused or failed.
    """
    plans, unreadable = [], None
    for plan_id in folder.plan_ids(interval):
        try:
            plan = folder.plan_of(interval, plan_id)
        except FormatError as error:
            unreadable = f"plan {plan_id} of {folder.name}/{interval} cannot be read: {error}"
        except NotFoundError:
            continue  # removed since the listing
        else:
            plans.append(_claim(folder, interval, plan))
    return IntervalClaims(interval, tuple(plans), unreadable)


def _claim(folder: Look, interval: str, plan: Plan) -> PlanClaim:
    files = frozenset(landing_name_of(plan.inputs[each.source], each) for each in plan.ranges)
    return PlanClaim(plan.plan_id, plan.generation, _state(folder, interval, plan), files)


def _state(folder: Look, interval: str, plan: Plan) -> State:
    if plan.generation > folder.last_generation(interval):
        return "open"
    # A mark alone is a removal that a kill has ended; while the folder is there, the version may
    # come back.
    return "kept" if folder.has_folder(interval, plan.generation) else "gone"


# --- The landing files that are there, by the path that plans name; each folder is listed once


class LandingListing:
    """The landing files of a landing area, at the time at which their folder was first asked for.

    Args:
        area: The landing area.
    """

    def __init__(self, area: Location) -> None:
        self._area = area
        self._folders: dict[str, dict[str, FileInfo]] = {}

    def find(self, name: str) -> FileInfo | None:
        """Return a file by its path below the area, None if it is not there.

        Raises:
            StorageError: The store refused or does not answer, which says nothing about the file.
        """
        folder = name.rpartition("/")[0]
        if folder not in self._folders:
            infos: Iterable[FileInfo] = ()
            with suppress(NotFoundError):
                infos = (self._area / folder).list()
            files = {f"{folder}/{info.name}": info for info in infos if not info.is_dir}
            self._folders[folder] = files
        return self._folders[folder].get(name)


# --- The landing files of an interval that are still there


def landed_for(context: Context, interval: str, plan_id: str | None = None) -> list[str]:
    """Return the landing files that plans of an interval name and that are there, sorted.

    Args:
        context: The data set.
        interval: Name of the interval.
        plan_id: Only files that this plan names and no other plan of the interval.

    Raises:
        StorageError: The publication root or the store refused or failed.
    """
    listing = LandingListing(Location.parse(context.env.landing))
    plans = claims_in(context.look, interval).plans
    asked = (each.files for each in plans if plan_id in (None, each.plan_id))
    others = (each.files for each in plans if plan_id not in (None, each.plan_id))
    names = frozenset[str]().union(*asked) - frozenset[str]().union(*others)
    return sorted(name for name in names if listing.find(name))


# --- Claims of plans that retention gives up: their landing files go first, as only they name them


def claims_and_rules(context: Context) -> Iterator[tuple[IntervalClaims, str | None]]:
    """Yield the claims of every interval, with the rule that gives up some of its plans, if any.

    Args:
        context: The data set.

    Raises:
        StorageError: The publication root refused or failed.
    """
    found = (each for each in given_up_plans(context) if isinstance(each, Expired))
    rules = {each.item.name: each.why for each in found}
    for claims in claims_of(context.look):
        names = {each: f"{claims.interval}/{each.plan_id}" for each in claims.plans}
        plans = tuple(_ended(each, is_ended=name in rules) for each, name in names.items())
        rule = next((rules[name] for name in names.values() if name in rules), None)
        yield replace(claims, plans=plans), rule


def _ended(claim: PlanClaim, *, is_ended: bool) -> PlanClaim:
    return replace(claim, state="given up") if is_ended and claim.state == "open" else claim


# --- The landing files of one interval as an item of retention

KIND = "landing"
_UNWANTED = "no generation of the interval is made from them any more"


@dataclass(frozen=True)
class LandingItem(Item):
    """Landing files of one interval.

    Attributes:
        interval: Name of the interval.
        files: Their paths below the landing area.
        is_wanted: Whether a published generation is made from them.
    """

    interval: str
    files: tuple[str, ...]
    is_wanted: bool


def released(context: Context, listing: LandingListing) -> Iterator[Found[LandingItem]]:
    """Yield the landing files that one data set alone no longer wants, whoever else reads them.

    Files that only removed generations were made from are let go as such, those that only plans
    name which are given up by the rule ``plans``, and other ones by the rule ``landing``, counted
    from the publication of the newest generation.

    Args:
        context: The data set.
        listing: The landing area.

    Raises:
        StorageError: The publication root or the store refused or failed.
    """
    area = Location.parse(context.env.landing)
    claims, items = {}, []
    for each, rule in claims_and_rules(context):
        claims[each.interval] = each
        yield from _unwanted(context, each, rule, listing)
        published = _published(context.look, each)
        wanted = published and _item(area, each.interval, each.wanted, listing, published)
        items += [wanted] if wanted else []
    by = context.spec.retention.landing
    yield from held_against(by, items, context.now, lambda item: _user(context, claims, item))


def _unwanted(
    context: Context, claims: IntervalClaims, rule: str | None, listing: LandingListing
) -> Iterator[Found[LandingItem]]:
    area, interval = Location.parse(context.env.landing), claims.interval
    superseded = _item(area, f"{interval} (superseded)", claims.superseded, listing, None)
    given_up = _item(area, f"{interval} (given up)", claims.given_up, listing, None)
    found = [(superseded, _UNWANTED), (given_up, f"its plan is given up by plans.{rule}")]
    if claims.unreadable is None:
        yield from (Expired(item, why) for item, why in found if item is not None)
    else:
        # Nothing that is known tells which files the plan names.
        name = f"{interval} (unreadable plan)"
        yield Kept(
            LandingItem(KIND, name, 0, context.now, (), interval, (), False), _unknown(claims)
        )


def _unknown(claims: IntervalClaims) -> str:
    return f"{claims.unreadable}; landing files of the interval stay, as it may name any of them"


def _item(
    area: Location,
    name: str,
    names: frozenset[str],
    listing: LandingListing,
    published: datetime | None,
) -> LandingItem | None:
    files = {each: info for each in sorted(names) if (info := listing.find(each)) is not None}
    if not files:
        return None
    newest = datetime.fromtimestamp(max(each.modified_ms for each in files.values()) / 1000, UTC)
    return LandingItem(
        kind=KIND,
        name=name,
        num_bytes=sum(each.size_bytes for each in files.values()),
        since=published or newest,
        places=tuple((area / each).uri for each in files),
        interval=name.partition(" ")[0],
        files=tuple(files),
        is_wanted=published is not None,
    )


def _published(folder: Look, claims: IntervalClaims) -> datetime | None:
    """Return when the newest generation was published; None if none of them is there."""
    if not claims.generations:
        return None
    return folder.published_at(claims.interval, claims.generations[-1])


def _user(context: Context, claims: dict[str, IntervalClaims], item: LandingItem) -> str | None:
    """Return what still needs the landing files of an interval."""
    found = claims[item.name]
    waiting = next((each.plan_id for each in found.plans if each.state == "open"), None)
    if found.unreadable is not None:
        return found.unreadable
    if waiting is not None:
        return f"plan {waiting} may still be published from them"
    uses = (context.uses.why(item.name, number) for number in found.generations)
    return next((why for why in uses if why is not None), None)


# --- Other data sets of the root that read the same topics: a file goes when all release it


@dataclass(frozen=True)
class Sharer:
    """Another data set that names landing files of this one.

    Attributes:
        name: The data set.
        claimed: Files that its plans name and that it does not release.
        why_all: Why it keeps every file, because what it names cannot be told; else None.
    """

    name: str
    claimed: frozenset[str]
    why_all: str | None = None

    def wants(self, item: LandingItem) -> str | None:
        """Return why it wants files of an item; None if it does not."""
        if self.why_all is not None:
            return self.why_all
        if self.claimed.isdisjoint(item.files):
            return None
        return f"data set {self.name} reads them too, and its retention.landing keeps them"


def sharers_of(context: Context, listing: LandingListing) -> Iterator[Sharer]:
    """Yield the other data sets of the root; none of them if there is nothing to remove.

    Raises:
        StorageError: The publication root or the store refused or failed.
    """
    for name in data_sets_of(context.folder.root):
        if name != context.folder.name:
            yield _sharer(context, name, listing)


def _sharer(context: Context, name: str, listing: LandingListing) -> Sharer:
    named: set[str] = set()
    look = Look(context.folder.root, name)
    for claims in claims_of(look):
        if claims.unreadable is not None:
            return Sharer(name, frozenset(), claims.unreadable)
        named |= claims.named("open", "kept", "gone")
    if not named:
        return Sharer(name, frozenset())
    return Sharer(name, frozenset(named - _released_by(context, look, listing)))


def _released_by(context: Context, look: Look, listing: LandingListing) -> set[str]:
    """Return the files that a data set releases: none if its specification cannot be read."""
    try:
        spec = load_spec(context.env.datasets / look.name)
    except TrainFeedError:
        return set()
    other = replace(Context.of(spec, context.env, now=context.now, who=context.who), look=look)
    found = released(other, listing)
    return {name for each in found if isinstance(each, Expired) for name in each.item.files}


# --- The kind ``landing``: finds the landing files that no data set wants, and removes them

# Files are renamed after a second look at all that may want them: one look for so many intervals.
_AT_ONCE: Final = 50
_NO_RULE: Final = (
    "dataset.yaml has no rule retention.landing, and another publication root may have the same"
    " landing area; state the rule in one of these roots only, as landing: {keep_days: 30}"
)


class LandingFiles(Kind[LandingItem]):
    """Landing files of intervals, by the rule ``landing`` of all data sets that read them."""

    name = KIND

    def find(self, context: Context) -> Iterator[Found[LandingItem]]:
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
            why = next((why for other in sharers if (why := other.wants(each.item))), None)
            if not each.item.is_wanted and not _has_rule(context):
                why = _NO_RULE
            yield each if why is None else Kept(each.item, why)

    def parts(
        self, expired: Sequence[Expired[LandingItem]]
    ) -> Iterator[Sequence[Expired[LandingItem]]]:
        """Yield the items in lists of fifty."""
        for start in range(0, len(expired), _AT_ONCE):
            yield expired[start : start + _AT_ONCE]

    def look(self, context: Context) -> Judge[LandingItem]:
        """Look at all that may want files; they stay if they are not released any more."""
        again = by_name(self.find(context.again()))
        listing = LandingListing(Location.parse(context.env.landing))
        return lambda each: (
            _needed_again(context, listing, each.item, again.get(each.item.name)) or each
        )

    def delete(self, context: Context, each: Expired[LandingItem]) -> None:
        """Write the note of a removal, and remove the files."""
        item = each.item
        removal = LandingRemoval(format_time(context.now), each.why, len(item.files))
        write_landing_removal(context.folder, item.interval, removal)
        faults.point("landing.after_note")
        _discard(Location.parse(context.env.landing), item)


def _has_rule(context: Context) -> bool:
    rule = context.spec.retention.landing
    return any(each is not None for each in (rule.keep, rule.keep_days, rule.max_bytes))


def _needed_again(
    context: Context, listing: LandingListing, item: LandingItem, again: Found[LandingItem] | None
) -> str | None:
    """Return why files that were released when they were found are not released any more."""
    if isinstance(again, Kept):
        return again.why
    left = {name for name in item.files if listing.find(name) is not None}
    released = again.item.files if isinstance(again, Expired) else ()
    if left.issubset(released):  # also if another call was faster, and none is left
        return None
    plans = open_plans(context.folder, item.interval)
    if not plans:
        return "they came into use after they were found"
    return f"plan {plans[0]} of {context.folder.name} may still be published from them"


def _discard(area: Location, item: LandingItem) -> None:
    if area.has_rename:
        _set_aside(area.renaming("a removal"), item)
    else:
        for name in item.files:
            (area / name).delete()
    for folder in sorted({name.rpartition("/")[0] for name in item.files}):
        # Folders of log files have one interval each; those of topics have other files.
        with suppress(ConflictError):
            (area / folder).delete()
    faults.point("landing.after_delete")


def _set_aside(area: RenamingLocation, item: LandingItem) -> None:
    """Delete the files behind the backs of their readers: each is renamed first."""
    trash = area / LANDING_TRASH / uuid.uuid4().hex
    trash.make_dir()
    for number, name in enumerate(item.files):
        with suppress(NotFoundError):  # another call was faster
            (area / name).rename(trash / f"{number:06d}")
        faults.point("landing.after_rename")
    trash.delete(recursive=True)
