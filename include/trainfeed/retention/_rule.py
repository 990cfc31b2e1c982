"""The rule of a kind, applied to its items: by number, by age, and by bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta

from trainfeed.retention._item import Excess, Expired, Item, Kept
from trainfeed.specification import RetentionRule

__all__ = ["held_against"]


def held_against(
    rule: RetentionRule,
    items: Iterable[Item],
    now: datetime,
    in_use: Callable[[Item], str | None],
    *,
    order: Callable[[Item], datetime] = lambda item: item.since,
    size: Callable[[Item], int] = lambda item: item.num_bytes,
) -> Iterator[Expired | Kept | Excess]:
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
