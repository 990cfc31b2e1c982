"""The retirement of intervals: a file that says why, marks, second look, deletion.

The generations are marked in ascending order and shown again in descending order, so that readers
get the newest generation or none, and never turn to an older one.

Plans of the interval that were never published, and that nobody works on, end with it: the number
that such a plan has is marked as removed, so it is never published, and no rebuild gets it. These
marks come first and stay, because they hide nothing; the plan goes as those of published versions.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import cast

from trainfeed.accounts import account_name
from trainfeed.dataset import lift_unpublished
from trainfeed.dataset.layout import generation_of_plan
from trainfeed.dataset.lease import building
from trainfeed.dataset.retire import Retirement, begun_retirement, lift_retirement, write_retirement
from trainfeed.dataset.withdraw import withdrawal_of
from trainfeed.errors import TrainFeedError
from trainfeed.intervals import format_time, parse_time
from trainfeed.retention._context import Context
from trainfeed.retention._given_up_plans import may_be_published
from trainfeed.retention._item import Expired, Kept
from trainfeed.retention._plan_files import open_plans, plan_item
from trainfeed.retention._uses import Uses
from trainfeed.retention.kinds._found_interval import IntervalItem
from trainfeed.retention.kinds._version_removal import (
    delete_files,
    mark_removed,
    take_back,
    uses_after_marks,
)
from trainfeed.storage import posix

__all__ = ["retire_items", "user_of"]


def retire_items(context: Context, items: Sequence[Expired]) -> list[Kept]:
    """Retire intervals; return those that stay after all, because they came into use."""
    found = [cast("IntervalItem", each.item) for each in items]
    for each, item in zip(items, found, strict=True):
        _begin_retirement(context, item, each.why)
    kept = _end_retirements(context, found)
    return [Kept(item, kept[item.name]) for item in found if item.name in kept]


def _begin_retirement(context: Context, item: IntervalItem, why: str) -> None:
    """Hide an interval from readers that begin from now on, and say who retired it, and why."""
    planned = _planned(context, item.name)
    if planned:
        posix.make_public_dir(context.folder.interval(item.name))
    for number in planned:
        mark_removed(context, item.name, number, f"the interval is retired ({why})")
    begun = begun_retirement(context.folder, item.name)
    if begun is None or begun.damage is not None or begun.why != why:
        write_retirement(context.folder, _retirement(context, item, why))
    for generation in item.generations:
        mark_removed(context, item.name, generation, why)


def _planned(context: Context, interval: str) -> list[int]:
    """Return the numbers that plans have which were not published, ascending."""
    ids = open_plans(context.folder, interval)
    return sorted({generation_of_plan(each) for each in ids})


def _retirement(context: Context, item: IntervalItem, why: str) -> Retirement:
    account = context.account or account_name()
    return Retirement(
        interval=item.name,
        last_generation=context.folder.last_generation(item.name),
        who=context.who or account,
        account=account,
        why=why,
        at=format_time(context.now),
    )


def _end_retirements(context: Context, items: Sequence[IntervalItem]) -> dict[str, str]:
    """Delete the versions of hidden intervals, but for those that came into use before.

    Returns:
        Name of an interval that stays → why.
    """
    if not items:
        return {}
    uses = _uses_after_marks(context, items)
    kept = {}
    for item in items:
        why = user_of(context, uses, item)
        if why is not None:
            kept[item.name] = why
            _give_back(context, item)
            continue
        for generation in item.generations:
            delete_files(context.folder, item.name, generation)
        lift_unpublished(context.folder, item.name)
    return kept


def _uses_after_marks(context: Context, items: Sequence[IntervalItem]) -> Uses:
    """Return what is in use now; if that cannot be told, give the intervals back."""
    try:
        return uses_after_marks(
            context, [(item.name, number) for item in items for number in item.generations]
        )
    except TrainFeedError:
        for item in items:
            lift_retirement(context.folder, item.name)
        raise


def _give_back(context: Context, item: IntervalItem) -> None:
    """Show the generations again; the file goes last, so that a killed call is completed."""
    for generation in reversed(item.generations):
        take_back(context.folder, item.name, generation)
    lift_retirement(context.folder, item.name)


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
