"""The run of retention: the kinds in their order, the doubt about the clock, and ``retire``.

What goes and what stays is found once, and a run removes exactly that.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any, Final, NoReturn

from trainfeed.core.accounts import account_name, reason_problem, require_decision
from trainfeed.core.canonical_json import json_value
from trainfeed.core.intervals import format_time, parse_range, parse_time
from trainfeed.errors import ConfigError, ConflictError, NotFoundError
from trainfeed.files import is_there, listed_folder
from trainfeed.files.records import RecordFile, Time
from trainfeed.files.stores import CLOCK_MARGIN, Location, posix, require_store_clock
from trainfeed.specification import DatasetSpec
from trainfeed.upkeep.retention.boundaries import BoundaryFiles
from trainfeed.upkeep.retention.context import Context, Kind
from trainfeed.upkeep.retention.intervals import (
    RangeToRetire,
    RetiredIntervals,
    SupersededGenerations,
)
from trainfeed.upkeep.retention.items import Excess, Expired, Item, Kept, PlanItem
from trainfeed.upkeep.retention.landing import LandingFiles, LandingItem
from trainfeed.upkeep.retention.leftovers import (
    KeptTexts,
    KilledRemovals,
    SpentPlans,
    WorkFiles,
)
from trainfeed.upkeep.retention.models import ModelVersions
from trainfeed.upkeep.retention.trainings import Trainings
from trainfeed.upkeep.retention.uploads import RetiredUploads
from trainfeed.upkeep.retention.versions import WithdrawnGenerations
from trainfeed.versions import require_writable_root
from trainfeed.versions.bucket_root import bucket_mark
from trainfeed.versions.history import Action, record_action
from trainfeed.versions.retire import Retirement, retirement_of
from trainfeed.versions.state_folder import decide

# --- The kinds of things that retention removes, in the order in which a run removes them

KINDS: Final[tuple[Kind[Any], ...]] = (
    KilledRemovals(),
    RetiredIntervals(),
    SupersededGenerations(),
    WithdrawnGenerations(),
    LandingFiles(),
    WorkFiles(),
    SpentPlans(),
    BoundaryFiles(),
    RetiredUploads(),
    KeptTexts("code"),
    KeptTexts("lookups"),
    KeptTexts("layouts"),
    KeptTexts("lists"),
    Trainings(),
    ModelVersions(),
)


# --- The kinds that a schedule removes, without a person who looks

_STATED = frozenset({"keep_generations", "keep_days"})


def scheduled_kinds(spec: DatasetSpec) -> tuple[Kind[Any], ...]:
    """Return the kinds for a nightly run: superseded generations only by a stated rule.

    ``keep_generations`` has a default, for the command of a person. Nobody has decided that a
    schedule removes versions by it.
    """
    is_stated = bool(_STATED & spec.retention.model_fields_set)
    if is_stated:
        return KINDS
    # The bytes of superseded generations, which stay then, count for ``max_bytes``.
    intervals = RetiredIntervals(superseded_go=False)
    kinds = (each for each in KINDS if each.name != "generations")
    return tuple(intervals if each.name == intervals.name else each for each in kinds)


# --- Whether the clock of this machine may decide what is old enough to be removed

_SILENCE: Final = timedelta(days=31)
_NAME: Final = "RETENTION.json"
_CLOCK_ACTION: Final = "clock-accepted"
_NOTHING: Final = "nothing was removed"


@dataclass(frozen=True)
class _LastRun:
    """What the last run of retention knew of the time.

    Attributes:
        at: Its time.
        until: The latest time in the data set; later than ``at`` if a person accepted that.
        dataset: Name of the data set; None in a file of before.
    """

    at: Time
    until: Time
    dataset: str | None = None

    @property
    def time(self) -> datetime:
        """``at`` as an aware time."""
        return parse_time(self.at)


_FILE: Final = RecordFile(
    _LastRun,
    "the time of the last run of retention",
    f"{_NOTHING}; remove the file, the next run writes it again",
)


def require_known_time(context: Context, *, dry_run: bool, accepted: str | None) -> None:
    """Refuse to remove by age while the time may be wrong; write down the time of this run.

    Args:
        context: The data set, and the time of this machine.
        dry_run: Whether nothing is written, and the store's clock is not asked.
        accepted: The reason of a person who says that the time is right, if there is one.

    Raises:
        ConfigError: The reason is too short or too long.
        ConflictError: A time lies in the future, or nothing happened for a month before another.
        FormatError: ``RETENTION.json`` is damaged.
        StorageError: The store has another time, refused or failed.
    """
    if accepted is not None and (problem := reason_problem(accepted)):
        raise ConfigError(f"{problem}; {_NOTHING}")
    if not is_there(context.folder.path):
        return  # nothing was ever planned, so nothing can go, and nothing is written
    if not dry_run:
        staging = Location.parse(str(context.folder.staging / "tmp"))
        require_store_clock(staging, _NOTHING, clock=lambda: context.now)
        if (mark := bucket_mark(context.folder.root)) is not None:
            there = mark.place / context.folder.name / "_leases"
            require_store_clock(there, _NOTHING, clock=lambda: context.now)
    last = _FILE.read(_path(context), dataset=context.folder.name)
    times = sorted(_times(context, last))
    doubt = _doubt(context, last, times)
    if doubt is not None and accepted is None:
        _refuse(context, doubt)
    if dry_run:
        return
    if doubt is not None:
        _begin(context, _CLOCK_ACTION, str(accepted).strip(), {"doubt": doubt})
    until = max((context.now, *times))
    run = _LastRun(format_time(context.now), format_time(until), context.folder.name)
    _FILE.replace(_path(context), run)


def _doubt(context: Context, last: _LastRun | None, times: list[datetime]) -> str | None:
    """Return why the time may be wrong, None if nothing speaks against it."""
    now = context.now
    known = max(now, now if last is None else parse_time(last.until)) + CLOCK_MARGIN
    if last is not None and last.time > now + CLOCK_MARGIN:
        return f"the last run of retention was at {last.at}, which is in the future"
    if times and times[-1] > known:
        return f"something happened at {format_time(times[-1])}, which is in the future"
    # Without an earlier run only the time since the newest one counts: older gaps were pauses.
    seen = times[-1:] if last is None else [last.time, *times]
    for before, after in pairwise([*(min(each, now) for each in seen), now]):
        if after - before > _SILENCE:
            days = (after - before).days
            between = f"{format_time(before)} and {format_time(after)}"
            return f"nothing happened for {days} days, between {between}"
    return None


def _refuse(context: Context, doubt: str) -> NoReturn:
    name = context.folder.name
    raise ConflictError(
        f"{name}: expected times that prove the clock of this machine, {format_time(context.now)}:"
        f" {doubt}; {_NOTHING}; if the clock is wrong, set it; if it is right, say so once:"
        f" trainfeed prune {name} --clock-is-right WHY"
    )


def _times(context: Context, last: _LastRun | None) -> Iterator[datetime]:
    """Yield the times of publications and of actions, those since the last run."""
    after = datetime.min.replace(tzinfo=UTC) if last is None else last.time
    look = context.look
    for interval in look.intervals():
        for number in look.generations(interval)[-1:]:
            try:
                published = look.published_at(interval, number)
            except NotFoundError:
                continue
            if published > after:
                yield published.replace(microsecond=0)
    for month in listed_folder(context.folder.history, "[0-9]*"):
        if last is not None and month.name < f"{after:%Y%m}":
            continue
        for path in listed_folder(month, "[0-9]*.json"):
            at = _time_of(path)
            if at is not None and at > after:
                yield at


def _time_of(path: Path) -> datetime | None:
    """Return the time with which the name of an action begins."""
    try:
        return datetime.strptime(path.name[:15], "%Y%m%dT%H%M%S").replace(tzinfo=UTC)
    except ValueError:
        return None


def _path(context: Context) -> Path:
    return context.folder.path / _NAME


# --- A run of retention: what goes and what stays is found once, and a run removes exactly that

logger = logging.getLogger(__name__)

# A file of the history has at most 1 MiB. Each item has a reason: of 500 characters, up to 2,000
# bytes.
_ITEMS_IN_AN_ACTION: Final = 250
_WHY: Final = 500
_LOCK: Final = ".retention.lock"
_LOCK_S: Final = 600.0


@dataclass(frozen=True)
class Removals:
    """What a run of retention removes from one data set, or has removed.

    Attributes:
        expired: Items that go, in the order of their removal.
        kept: Items that no rule keeps, but that stay.
        excess: Limits of bytes that stay exceeded.
    """

    expired: tuple[Expired[Item], ...]
    kept: tuple[Kept[Item], ...]
    excess: tuple[Excess, ...]

    @property
    def num_bytes(self) -> int:
        """Bytes of the items that go."""
        return sum(each.item.num_bytes for each in self.expired)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON that commands print."""
        return {
            "bytes": self.num_bytes,
            "removed": [{**each.item.to_json(), "why": each.why} for each in self.expired],
            "kept": [{**each.item.to_json(), "why": each.why} for each in self.kept],
            "excess": json_value(self.excess),
        }

    def by_kind(self) -> dict[str, tuple[int, int]]:
        """Return number and bytes of the items that go, by kind, in the order of removal."""
        groups = groupby(self.expired, lambda each: each.item.kind)
        sizes = ((kind, [each.item.num_bytes for each in found]) for kind, found in groups)
        return {kind: (len(found), sum(found)) for kind, found in sizes}


def prune(
    context: Context,
    kinds: Sequence[Kind[Any]] = KINDS,
    *,
    dry_run: bool = False,
    clock_is_right: str | None = None,
) -> Removals:
    """Remove what the rules of a data set do not keep and nothing uses.

    Args:
        context: The data set, and the time.
        kinds: The kinds to look at.
        dry_run: Whether to remove nothing.
        clock_is_right: The reason of a person who knows that the clock is right although times in
            the data set speak against it.

    Returns:
        What was removed, or would be, and what stays.

    Raises:
        ConflictError: The clock may be wrong: a time of the data set lies in the future, or nothing
            happened for a month.
        RootError: The publication root was not made by ``trainfeed init``.
        StorageError: The file system refused, or has another time. Earlier removals of this call
            stand, and the next call goes on.
    """
    require_writable_root(context.env)
    if context.is_present:
        require_known_time(context, dry_run=dry_run, accepted=clock_is_right)
    removals = plan_removals(context, kinds)
    return removals if dry_run else execute(context, kinds, removals)


def plan_removals(context: Context, kinds: Sequence[Kind[Any]]) -> Removals:
    """Return what a run would remove now; nothing is changed.

    Args:
        context: The data set, and the time.
        kinds: The kinds to look at, in the order of removal.

    Raises:
        RootError: The publication root was not made by ``trainfeed init``.
        StorageError: A place cannot be read.
    """
    require_writable_root(context.env)
    found = [each for kind in kinds for each in kind.find(context)]
    return Removals(
        tuple(each for each in found if isinstance(each, Expired)),
        tuple(each for each in found if isinstance(each, Kept)),
        tuple(each for each in found if isinstance(each, Excess)),
    )


def execute(
    context: Context, kinds: Sequence[Kind[Any]], removals: Removals, *, action: str = "prune"
) -> Removals:
    """Remove what ``plan_removals`` found, one run at a time for a data set.

    The history names every item before it goes. An item that came into use meanwhile stays; a
    second action, ``ACTION-kept``, says so.

    Args:
        context: The context of the plan.
        kinds: The kinds of the plan.
        removals: The plan.
        action: Name of the action in the history.

    Returns:
        What was removed, and what stays.

    Raises:
        StorageError: The file system refused. Earlier removals of this call stand, and the next
            call goes on.
    """
    if not removals.expired:
        return removals
    by_name = {kind.name: kind for kind in kinds}
    removed: list[Expired[Item]] = []
    kept = list(removals.kept)
    with posix.file_lock(context.folder.path / _LOCK, timeout_s=_LOCK_S):
        for kind, some in _batches(removals.expired):
            _record(context, action, some)
            stay = by_name[kind].remove(context, some)
            if stay:
                _record(context, f"{action}-kept", stay)
            names = {each.item.name for each in stay}
            gone = [each for each in some if each.item.name not in names]
            for each in gone:
                logger.info("removed %s %s: %s", kind, each.item.name, each.why)
            removed += gone
            kept += stay
    return Removals(tuple(removed), tuple(kept), removals.excess)


def _record(context: Context, action: str, found: Sequence[Expired[Item] | Kept[Item]]) -> None:
    items = [{**each.item.to_json(), "why": each.why} for each in found]
    why = ", ".join(sorted({each.why for each in found}))[:_WHY]
    size = sum(each.item.num_bytes for each in found)
    _begin(context, action, why, {"kind": found[0].item.kind, "bytes": size, "items": items})


def _begin(context: Context, action: str, why: str, details: Mapping[str, Any]) -> None:
    folder, who = context.folder, context.who
    acting = {} if context.account is None else {"by": context.account}
    made = Action.now(action, folder.name, why=why, who=who, details={**details, **acting})
    decide(folder, action, partial(record_action, folder, made))


def _batches(expired: Sequence[Expired[Item]]) -> Iterator[tuple[str, list[Expired[Item]]]]:
    """Yield the items of each kind in lists that fit into one file of the history."""
    for kind, found in groupby(expired, lambda each: each.item.kind):
        ordered = list(found)
        for start in range(0, len(ordered), _ITEMS_IN_AN_ACTION):
            yield kind, ordered[start : start + _ITEMS_IN_AN_ACTION]


# --- ``retire``: a person ends whole intervals, with their landing files and plans, in one run

_RETIRE_ACTION: Final = "retire"
_TOLD: Final = 10
# Plans go last: landing files are found through them.
_FOLLOW: Final[tuple[Kind[Any], ...]] = (LandingFiles(), SpentPlans())


@dataclass(frozen=True)
class Retired:
    """What a call retired, or would.

    Attributes:
        removals: The intervals that went, their landing files and plans; and what stays.
        already: Intervals of the range that were retired before.
        dry_run: Whether nothing was changed.
    """

    removals: Removals
    already: tuple[Retirement, ...]
    dry_run: bool

    @property
    def intervals(self) -> tuple[Expired[Item], ...]:
        """The intervals that went, by name."""
        kind = RangeToRetire.name
        return tuple(each for each in self.removals.expired if each.item.kind == kind)

    @property
    def refused(self) -> tuple[Kept[Item], ...]:
        """Intervals that are needed."""
        kind = RangeToRetire.name
        return tuple(each for each in self.removals.kept if each.item.kind == kind)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON that the command prints."""
        already = [each.to_json() for each in self.already]
        return {**self.removals.to_json(), "already": already, "dry_run": self.dry_run}


def retire(context: Context, asked: str, why: str, *, dry_run: bool = False) -> Retired:
    """Remove all versions of the intervals of a range for good, or none of them.

    Intervals that were skipped or never published are retired, too: they are not built any more.
    The same call again completes one that was killed, and passes over what is retired.

    Args:
        context: The data set, the time, and the person.
        asked: A range, in the forms of ``trainfeed.core.intervals.parse_range``.
        why: The reason, 3 to 500 printable characters on one line.
        dry_run: Whether to find everything and change nothing; what is needed is in ``refused``.

    Raises:
        ConfigError: The reason or the person is missing or too long.
        WindowError: ``asked`` is no range, or no interval starts there.
        ConflictError: Tags, leases, trainings without a result, plans or gates need an interval;
            the message names them, and nothing was changed.
        RootError: The publication root was not made by ``trainfeed init``.
        StorageError: The file system refused; the same call again goes on.
    """
    who = account_name() if context.who is None else context.who
    require_decision(why, who=who)
    span = parse_range(asked, context.spec.schedule_model().zone)
    kind = RangeToRetire(span, why.strip())
    found = plan_removals(context, (kind,))
    new = {each.item.name for each in found.expired} | {each.item.name for each in found.kept}
    names = [name for name in kind.intervals(context) if name not in new]
    already = [each for name in names if (each := retirement_of(context.folder, name))]
    if dry_run:
        return Retired(found, tuple(already), dry_run=True)
    if found.kept:
        raise ConflictError(_needed(context, found.kept))
    done = execute(context, (kind,), found, action=_RETIRE_ACTION)
    gone = {*(each.item.name for each in done.expired), *(each.interval for each in already)}
    for follower in _FOLLOW:
        done = _joined(done, _follow(context, follower, gone))
    rest = (KilledRemovals(),)
    left = execute(context, rest, plan_removals(context, rest), action=_RETIRE_ACTION)
    done = _joined(done, left)
    return Retired(done, tuple(already), dry_run=False)


def _follow(context: Context, kind: Kind[Any], gone: set[str]) -> Removals:
    """Remove what only retired intervals named."""
    context = context.again()
    found = plan_removals(context, (kind,))
    expired = tuple(each for each in found.expired if _is_of(each.item, gone))
    kept = tuple(each for each in found.kept if _is_of(each.item, gone))
    return execute(context, (kind,), Removals(expired, kept, ()), action=_RETIRE_ACTION)


def _is_of(item: Item, intervals: set[str]) -> bool:
    return isinstance(item, LandingItem | PlanItem) and item.interval in intervals


def _joined(one: Removals, other: Removals) -> Removals:
    return Removals(one.expired + other.expired, one.kept + other.kept, ())


def _needed(context: Context, kept: Sequence[Kept[Item]]) -> str:
    name = context.folder.name
    told = [f"{name}/{each.item.name}: {each.why}" for each in kept[:_TOLD]]
    more = [f"and {len(kept) - _TOLD} more"] if len(kept) > _TOLD else []
    return (
        f"{len(kept)} intervals are needed and cannot be retired; nothing was changed;"
        f" {retire_advice(name, kept)}: {'; '.join([*told, *more])}"
    )


def retire_advice(name: str, kept: Sequence[Kept[Item]]) -> str:
    """Return what can be done about intervals of a data set that cannot be retired."""
    is_tagged = any(each.why.startswith("tag ") for each in kept)
    untag = f" (a tag: trainfeed untag {name} TAG)" if is_tagged else ""
    return f"end these uses{untag}, or retire a range without them"


def retired_lines(name: str, asked: str, done: Retired) -> list[str]:
    """Return the outcome of a retirement: what went for good, what was gone, what is left.

    Args:
        name: The data set.
        asked: The range.
        done: What a call retired, or would.
    """
    count, size = len(done.intervals), done.removals.num_bytes
    intervals = "1 interval" if count == 1 else f"{count} intervals"
    verb = "would be" if done.dry_run else "was" if count == 1 else "were"
    lines = [f"{name}/{asked}: {intervals} {verb} retired for good, {size} bytes"]
    if done.already:
        first, number = done.already[0].told, len(done.already)
        lines.append(f"{number} of them were retired before, as {name}/{first}")
    if done.refused:
        needed = "1 interval is" if len(done.refused) == 1 else f"{len(done.refused)} intervals are"
        lines.append(f"{needed} needed:")
    lines += [
        f"{kept.item.kind} {name}/{kept.item.name} stays: {kept.why}" for kept in done.removals.kept
    ]
    if done.dry_run and not done.refused:
        lines.append(
            "landing files, which hold the raw records, go with them where `retention.landing` has"
            " a rule, and then their plans; nothing was changed"
        )
    elif any(kept.item.kind == "landing" for kept in done.removals.kept):
        lines.append(
            "landing files hold the raw records; to remove them, too, give retention.landing in"
            f" dataset.yaml a rule, then: trainfeed prune {name} --kind landing"
        )
    return lines
