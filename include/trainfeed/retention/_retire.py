"""``retire``: a person ends whole intervals, with their landing files and plans, in one run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, cast

from trainfeed.accounts import account_name, name_problem, reason_problem
from trainfeed.dataset.retire import Retirement, retirement_of
from trainfeed.errors import ConfigError, ConflictError
from trainfeed.intervals import parse_range
from trainfeed.retention._context import Context, Kind
from trainfeed.retention._item import Expired, Item, Kept
from trainfeed.retention._removals import Removals, execute, plan_removals
from trainfeed.retention.kinds import KilledRemovals, RangeToRetire, SpentPlans
from trainfeed.retention.landing import LandingFiles

__all__ = ["Retired", "retire", "retire_advice", "retired_lines"]

_ACTION: Final = "retire"
_TOLD: Final = 10
# Plans go last: landing files are found through them.
_FOLLOW: Final[tuple[Kind, ...]] = (LandingFiles(), SpentPlans())


class _OfInterval(Protocol):
    interval: str


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
    def intervals(self) -> tuple[Expired, ...]:
        """The intervals that went, by name."""
        kind = RangeToRetire.name
        return tuple(each for each in self.removals.expired if each.item.kind == kind)

    @property
    def refused(self) -> tuple[Kept, ...]:
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
        asked: A range, in the forms of ``trainfeed.intervals.parse_range``.
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
    for problem in filter(None, (reason_problem(why), name_problem("who", who))):
        raise ConfigError(f"{problem}; nothing was changed")
    kind = RangeToRetire(parse_range(asked), why.strip())
    found = plan_removals(context, (kind,))
    new = {each.item.name for each in found.expired} | {each.item.name for each in found.kept}
    names = [name for name in kind.intervals(context) if name not in new]
    already = [each for name in names if (each := retirement_of(context.folder, name))]
    if dry_run:
        return Retired(found, tuple(already), dry_run=True)
    if found.kept:
        raise ConflictError(_needed(context, found.kept))
    done = execute(context, (kind,), found, action=_ACTION)
    gone = {*(each.item.name for each in done.expired), *(each.interval for each in already)}
    for follower in _FOLLOW:
        done = _joined(done, _follow(context, follower, gone))
    rest = (KilledRemovals(),)
    left = execute(context, rest, plan_removals(context, rest), action=_ACTION)
    done = _joined(done, left)
    return Retired(done, tuple(already), dry_run=False)


def _follow(context: Context, kind: Kind, gone: set[str]) -> Removals:
    """Remove what only retired intervals named."""
    context = context.again()
    found = plan_removals(context, (kind,))
    expired = tuple(each for each in found.expired if _interval(each.item) in gone)
    kept = tuple(each for each in found.kept if _interval(each.item) in gone)
    return execute(context, (kind,), Removals(expired, kept, ()), action=_ACTION)


def _interval(item: Item) -> str:
    return cast("_OfInterval", item).interval


def _joined(one: Removals, other: Removals) -> Removals:
    return Removals(one.expired + other.expired, one.kept + other.kept, ())


def _needed(context: Context, kept: Sequence[Kept]) -> str:
    name = context.folder.name
    told = [f"{name}/{each.item.name}: {each.why}" for each in kept[:_TOLD]]
    more = [f"and {len(kept) - _TOLD} more"] if len(kept) > _TOLD else []
    return (
        f"{len(kept)} intervals are needed and cannot be retired; nothing was changed;"
        f" {retire_advice(name, kept)}: {'; '.join([*told, *more])}"
    )


def retire_advice(name: str, kept: Sequence[Kept]) -> str:
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
