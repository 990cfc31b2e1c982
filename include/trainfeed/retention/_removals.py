"""A run of retention: what goes and what stays is found once, and a run removes exactly that."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any, Final

from trainfeed.dataset import require_writable_root
from trainfeed.dataset.history import Action, record_action
from trainfeed.retention._context import Context, Kind
from trainfeed.retention._item import Excess, Expired, Kept
from trainfeed.retention._known_time import require_known_time
from trainfeed.retention.kinds import KINDS
from trainfeed.storage import posix

__all__ = ["Removals", "execute", "plan_removals", "prune"]

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

    expired: tuple[Expired, ...]
    kept: tuple[Kept, ...]
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
            "excess": [asdict(each) for each in self.excess],
        }

    def by_kind(self) -> dict[str, tuple[int, int]]:
        """Return number and bytes of the items that go, by kind, in the order of removal."""
        groups = groupby(self.expired, lambda each: each.item.kind)
        sizes = ((kind, [each.item.num_bytes for each in found]) for kind, found in groups)
        return {kind: (len(found), sum(found)) for kind, found in sizes}


def prune(
    context: Context,
    kinds: Sequence[Kind] = KINDS,
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


def plan_removals(context: Context, kinds: Sequence[Kind]) -> Removals:
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
    context: Context, kinds: Sequence[Kind], removals: Removals, *, action: str = "prune"
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
    removed: list[Expired] = []
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


def _record(context: Context, action: str, found: Sequence[Expired | Kept]) -> None:
    items = [{**each.item.to_json(), "why": each.why} for each in found]
    why = ", ".join(sorted({each.why for each in found}))[:_WHY]
    details: dict[str, Any] = {
        "kind": found[0].item.kind,
        "bytes": sum(each.item.num_bytes for each in found),
        "items": items,
        **({"by": context.account} if context.account is not None else {}),
    }
    name = context.folder.name
    record_action(
        context.folder, Action.now(action, name, why=why, who=context.who, details=details)
    )


def _batches(expired: Sequence[Expired]) -> Iterator[tuple[str, list[Expired]]]:
    """Yield the items of each kind in lists that fit into one file of the history."""
    for kind, found in groupby(expired, lambda each: each.item.kind):
        ordered = list(found)
        for start in range(0, len(ordered), _ITEMS_IN_AN_ACTION):
            yield kind, ordered[start : start + _ITEMS_IN_AN_ACTION]
