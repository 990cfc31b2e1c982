"""Published intervals: retirement by rule or by a person, and superseded generations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from operator import attrgetter
from pathlib import Path

from trainfeed.core.intervals import TimeRange, intervals_in, parse_range, parse_time
from trainfeed.errors import FormatError, NotFoundError, WindowError
from trainfeed.files.stores import posix
from trainfeed.specification import RetentionRule, earlier_versions
from trainfeed.upkeep.retention.context import Context, Judge, Kind, may_be_published
from trainfeed.upkeep.retention.items import (
    Excess,
    Expired,
    Found,
    Item,
    Kept,
    held_against,
    open_plans,
    plan_item,
)
from trainfeed.upkeep.retention.uses import Uses
from trainfeed.upkeep.retention.versions import (
    VersionItem,
    Versions,
    delete_files,
    generation_rule,
    half_removed,
    mark_removed,
    size_of,
    superseded_by_rule,
    take_back,
    version_item,
)
from trainfeed.versions import Manifest, lift_unpublished
from trainfeed.versions.layout import DatasetFolder, generation_of_plan
from trainfeed.versions.lease import building
from trainfeed.versions.retire import (
    Retirement,
    begun_retirement,
    lift_retirement,
    retirement_of,
    write_retirement,
)
from trainfeed.versions.state_folder import decide
from trainfeed.versions.withdraw import withdrawal_of

# --- A published interval as retention sees it: its generations, sizes, end and age


@dataclass(frozen=True)
class IntervalItem(Item):
    """All generations of an interval that have files.

    Attributes:
        generations: Their numbers, ascending, those of withdrawn and of half removed ones, too.
        kept_bytes: Size of those that are not superseded by rule; these count for ``max_bytes``.
        end: End of the interval, aware UTC.
    """

    generations: tuple[int, ...]
    kept_bytes: int
    end: datetime


def found_intervals(context: Context, *, sized: bool) -> list[IntervalItem]:
    """Return the intervals that have a generation with files.

    Args:
        context: The data set.
        sized: Whether sizes are read, file by file; else all are 0 until ``with_sizes``.
    """
    names = context.look.intervals()
    found = [each for name in names if (each := _found(context, name)) is not None]
    return [with_sizes(context, each) for each in found] if sized else found


def found_interval(context: Context, name: str) -> IntervalItem | None:
    """Return an interval, None if no generation of it has files."""
    found = _found(context, name)
    return None if found is None else with_sizes(context, found)


def with_sizes(context: Context, item: IntervalItem) -> IntervalItem:
    """Return an interval with the sizes of its generations."""
    name, places = item.name, map(Path, item.places)
    sizes = dict(zip(item.generations, (_size(context, each) for each in places), strict=True))
    gone = [each for each in superseded_by_rule(context, name) if not context.uses.why(name, each)]
    total = sum(sizes.values())
    kept = total - sum(sizes.get(each, 0) for each in gone)  # 0 for what is no folder
    return replace(item, num_bytes=total, kept_bytes=kept)


def _found(context: Context, name: str) -> IntervalItem | None:
    """Return an interval whose sizes were not read."""
    numbers = _numbers(context, name)
    if not numbers:
        return None
    end = end_of_interval(context, name, numbers[-1])
    return IntervalItem(
        kind="intervals",
        name=name,
        num_bytes=0,
        since=max(end, context.look.published_at(name, numbers[-1])),
        places=tuple(str(context.look.version(name, number)) for number in numbers),
        generations=numbers,
        kept_bytes=0,
        end=end,
    )


def _size(context: Context, place: Path) -> int:
    """Return the size of a version, which never changes."""
    if place not in context.sizes:
        context.sizes[place] = size_of(place)
    return context.sizes[place]


def interval_ends(context: Context) -> dict[str, datetime]:
    """Return the ends of the intervals that have a generation with files; sizes are not read."""
    newest = {name: _numbers(context, name) for name in context.look.intervals()}
    return {
        name: end_of_interval(context, name, numbers[-1])
        for name, numbers in newest.items()
        if numbers
    }


def newest_of(context: Context, ends: Mapping[str, datetime]) -> frozenset[str]:
    """Return the intervals that the gates of the next one compare with, at least the newest.

    Args:
        context: The data set.
        ends: The end of each interval that has files.
    """
    ordered = sorted(ends, key=lambda name: (ends[name], name))
    return frozenset(ordered[-earlier_versions(context.spec.quality) :])


def _numbers(context: Context, name: str) -> tuple[int, ...]:
    """Return the generations of an interval that have files, ascending."""
    numbers = range(1, context.look.last_generation(name) + 1)
    return tuple(number for number in numbers if context.look.has_folder(name, number))


def end_of_interval(context: Context, name: str, generation: int | None) -> datetime:
    """Return the end of an interval, also of a former schedule.

    Args:
        context: The data set.
        name: The interval.
        generation: A generation of it, whose manifest tells the end; None if there is none.
    """
    try:
        return context.spec.schedule_model().interval_named(name).end
    except WindowError:
        pass
    try:
        if generation is None:
            return parse_range(name).end
        manifest, _ = Manifest.read(context.folder.version(name, generation))
        return parse_time(manifest.interval.end)
    except (FormatError, NotFoundError, WindowError):
        # Its bytes count, and its age does not: it began to be in use now.
        return context.now.astimezone(UTC)


# --- The retirement of intervals: a file that says why, marks, second look, deletion


class _Intervals(Kind[IntervalItem]):
    """Intervals that are retired: hidden with all generations, and deleted if nobody uses them."""

    def hide(self, context: Context, each: Expired[IntervalItem]) -> None:
        """Retire an interval."""
        begin = partial(_begin_retirement, context, each.item, each.why)
        decide(context.folder, "retire", begin)

    def look(self, context: Context) -> Judge[IntervalItem]:
        """Look for uses, and for builds of each interval in its turn."""
        uses = context.fresh_uses()
        return lambda each: user_of(context, uses, each.item) or each

    def show(self, context: Context, item: IntervalItem) -> None:
        """Show the generations again; the file goes last, so that a killed call is completed."""
        decide(context.folder, "retire", partial(_show, context.folder, item))

    def delete(self, context: Context, each: Expired[IntervalItem]) -> None:
        """Delete the generations, and the record of an attempt that failed."""
        for generation in each.item.generations:
            delete_files(context.folder, each.item.name, generation)
        lift_unpublished(context.folder, each.item.name)


def _show(folder: DatasetFolder, item: IntervalItem) -> None:
    for generation in reversed(item.generations):
        take_back(folder, item.name, generation)
    lift_retirement(folder, item.name)


def _begin_retirement(context: Context, item: IntervalItem, why: str) -> None:
    """Hide an interval from readers that begin from now on, and say who retired it, and why."""
    planned = _planned(context, item.name)
    if planned:
        posix.make_public_dir(context.folder.interval(item.name))
    for number in planned:
        mark_removed(context, item.name, number, f"the interval is retired ({why})")
    begun = begun_retirement(context.folder, item.name)
    if begun is None or begun.damage is not None or begun.why != why:
        last = context.folder.last_generation(item.name)
        write_retirement(context.folder, Retirement(item.name, last, **context.decided(why)))
    for generation in item.generations:
        mark_removed(context, item.name, generation, why)


def _planned(context: Context, interval: str) -> list[int]:
    """Return the numbers that plans have which were not published, ascending."""
    ids = open_plans(context.folder, interval)
    return sorted({generation_of_plan(each) for each in ids})


def user_of(context: Context, uses: Uses, item: IntervalItem) -> str | None:
    """Return who reads or builds an interval, None if nobody does."""
    for generation in item.generations:
        if (why := uses.why(item.name, generation)) is not None:
            return why
    lease = next(iter(building(context.folder, item.name, context.now)), None)
    if lease is not None:
        return f"it is being built: {lease.told}"
    if (why := _open_plan(context, item.name)) is not None:
        return why
    reasons = (_withdrawn(context, item.name, each) for each in item.generations)
    return next(filter(None, reasons), None)


def _open_plan(context: Context, interval: str) -> str | None:
    """Return which plan of an interval a build may still publish, and why, or None."""
    for plan_id in open_plans(context.folder, interval):
        item = plan_item(context.folder, "plans", interval, plan_id, is_retired=False)
        if why := may_be_published(context, item):
            return f"plan {plan_id} was not published, and {why}"
    return None


def _withdrawn(context: Context, interval: str, generation: int) -> str | None:
    """Return why the files of a withdrawn generation are wanted, None if they are not."""
    mark = withdrawal_of(context.folder, interval, generation)
    if mark is None:
        return None
    if mark.damage is not None:
        return f"a mark of a withdrawal is damaged, and the files tell what it was: {mark.damage}"
    days = context.spec.retention.keep_withdrawn_days
    if days is None or parse_time(mark.at) <= context.now - timedelta(days=days):
        return None
    return f"{mark.name} may be restored for keep_withdrawn_days: {days}"


# --- Whole intervals, which are retired: every generation goes for good


@dataclass(frozen=True)
class RetiredIntervals(_Intervals):
    """Intervals beyond ``keep_intervals``, ``keep_intervals_days`` and ``max_bytes``.

    The newest interval stays, and those that gates of the next one compare with.

    Attributes:
        superseded_go: Whether superseded generations go as well, so that their bytes do not count.
    """

    superseded_go: bool = True
    name = "intervals"

    def find(self, context: Context) -> Iterator[Found[IntervalItem]]:
        """Yield intervals to retire, the oldest first."""
        yield from _held(context, superseded_go=self.superseded_go)


def retiring(context: Context) -> frozenset[str]:
    """Return the names of the intervals that a run retires now."""
    found = _held(context, superseded_go=True)
    return frozenset(each.item.name for each in found if isinstance(each, Expired))


def _held(context: Context, *, superseded_go: bool) -> Iterator[Found[IntervalItem]]:
    """Yield what was begun, and what the rule does not keep."""
    begun = [one for name in context.look.intervals() if (one := _begun(context, name))]
    yield from begun
    part = context.spec.retention
    rule = RetentionRule(
        keep=part.keep_intervals, keep_days=part.keep_intervals_days, max_bytes=part.max_bytes
    )
    if rule == RetentionRule():
        return
    whole = {each.item.name for each in begun}
    all_bytes = rule.max_bytes is not None  # else only what goes is measured
    found = [e for e in found_intervals(context, sized=all_bytes) if e.name not in whole]
    newest = newest_of(context, {each.name: each.end for each in found})
    user = partial(_user, context, newest)
    size = attrgetter("kept_bytes" if superseded_go else "num_bytes")
    for each in held_against(rule, found, context.now, user, order=attrgetter("end"), size=size):
        yield each if isinstance(each, Excess) else _measured(context, each)


def _measured(
    context: Context, each: Expired[IntervalItem] | Kept[IntervalItem]
) -> Found[IntervalItem]:
    """Return what goes, or would, with its size, and the rule under its name in dataset.yaml."""
    item = with_sizes(context, each.item)
    return Expired(item, _named(each.why)) if isinstance(each, Expired) else Kept(item, each.why)


def _begun(context: Context, interval: str) -> Expired[IntervalItem] | None:
    """Return a retirement that a killed run began: it is completed, or taken back if in use."""
    is_retiring = context.folder.retirement(interval).name in context.look.names_in(
        context.folder.interval(interval)
    )
    if not is_retiring or (item := found_interval(context, interval)) is None:
        return None
    retirement = begun_retirement(context.folder, interval)
    if retirement is None:
        return None
    is_hidden = any(half_removed(context.look, interval))
    if not is_hidden and user_of(context, context.uses, item) is None:
        return None  # nothing is hidden yet: the rule of today decides
    return Expired(item, retirement.why or "a retirement that was begun")


def _named(why: str) -> str:
    """Return the part of the rule under its name in dataset.yaml."""
    return {"keep": "keep_intervals", "keep_days": "keep_intervals_days"}.get(
        (name := why.partition(":")[0]), name
    ) + why[len(name) :]


def _user(context: Context, newest: frozenset[str], item: IntervalItem) -> str | None:
    """Return who uses an interval, None if nobody does."""
    if item.name in newest:
        return "it is the newest, or gates of the next interval compare with it"
    return user_of(context, context.uses, item)


# --- Intervals that a person retires: those that start in a range, whatever the rules say


@dataclass(frozen=True)
class RangeToRetire(_Intervals):
    """The intervals of a range, with those that were skipped or never published.

    Attributes:
        span: The range.
        why: The reason of the person.
    """

    span: TimeRange
    why: str
    name = "intervals"

    def find(self, context: Context) -> Iterator[Found[IntervalItem]]:
        """Yield the intervals that are not retired yet, by name; what is needed is kept.

        An interval that is retired, and whose files a killed call has left, is yielded again.

        Raises:
            WindowError: No interval starts in the range.
        """
        ends = interval_ends(context)
        for interval in self.intervals(context):
            found = found_interval(context, interval)
            if found is not None or retirement_of(context.look, interval) is None:
                item = found or _unpublished(context, interval)
                why = _needed(context, item, ends)
                yield Expired(item, self.why) if why is None else Kept(item, why)

    def intervals(self, context: Context) -> list[str]:
        """Return the names of all intervals of the range, sorted, also of retired ones.

        Raises:
            WindowError: No interval starts in the range.
        """
        folder = context.folder
        known = {*folder.intervals(), *folder.planned_intervals()}
        named = {name for name in known if _starts_in(name, self.span)}
        try:
            scheduled = intervals_in(context.spec.schedule_model(), self.span)
        except WindowError:
            if not named:
                raise
            scheduled = []
        return sorted(named | {each.name for each in scheduled})


def _starts_in(name: str, span: TimeRange) -> bool:
    try:
        return parse_range(name).start in span
    except WindowError:
        return False


def _unpublished(context: Context, interval: str) -> IntervalItem:
    """Return an interval without files: nothing of it goes, and it is not built any more."""
    end = end_of_interval(context, interval, None)
    place = (str(context.folder.interval(interval)),)
    return IntervalItem("intervals", interval, 0, end, place, (), 0, end)


def _needed(context: Context, item: IntervalItem, ends: dict[str, datetime]) -> str | None:
    """Return what needs an interval, None if nothing does."""
    if item.name in newest_of(context, ends):
        return "it is the newest, or gates of the next interval compare with it"
    if not any(end > item.end for end in ends.values()):
        return "no later interval is published, so builds go on here"
    return user_of(context, context.uses, item)


# --- Generations that a newer one of their interval supersedes

_BEGUN = "a removal that was begun"


class SupersededGenerations(Versions):
    """Generations beyond ``keep_generations`` and ``keep_days``.

    Of an interval, the newest generation stays, and the one that readers get by default.
    """

    name = "generations"

    def find(self, context: Context) -> Iterator[Found[VersionItem]]:
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

    def still_wanted(self, folder: DatasetFolder, item: VersionItem) -> str | None:
        """Return whether all newer ones were withdrawn meanwhile."""
        if folder.readable_generation(item.interval) is not None:
            return None
        return "no other generation of the interval can be read any more"

    def _item(self, context: Context, interval: str, generation: int) -> VersionItem:
        return version_item(context.folder, self.name, interval, generation)
