"""What every kind of retention gets, and the sweep that removes the items of any kind."""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Final, Generic, TypeAlias

from trainfeed.core.accounts import account_name
from trainfeed.core.config import Environment
from trainfeed.core.intervals import format_time
from trainfeed.errors import TrainFeedError
from trainfeed.files.stores import posix, present
from trainfeed.pipeline.leftovers import RETENTION
from trainfeed.specification import DatasetSpec
from trainfeed.upkeep.retention.items import (
    Expired,
    Found,
    ItemT,
    Kept,
    PlanItem,
    held_against,
    open_plans,
    plan_item,
)
from trainfeed.upkeep.retention.uses import Look, Uses, uses_of
from trainfeed.versions.layout import DatasetFolder
from trainfeed.versions.lease import building
from trainfeed.versions.state_folder import follow

# --- What every kind of retention gets: the data set, the time, and what is in use


@dataclass(frozen=True)
class Context:
    """One data set at one time.

    Attributes:
        spec: The data set.
        env: Folders and connections.
        folder: The data set below the publication root; every call reads it again.
        now: The time against which ages are held, aware UTC; nothing reads another clock.
        who: The person, or the schedule of a DAG, that asks; None for the account.
        uses: Versions that are in use.
        look: What is in the folder, seen once: for what is found, never for what is removed.
        account: The run that acts for ``who``; None for the account of this process.
        is_present: Whether ``now`` is the time of this machine, which is doubted.
        sizes: Sizes in bytes of folders of versions that were looked at: each is walked once.
    """

    spec: DatasetSpec
    env: Environment
    folder: DatasetFolder
    now: datetime
    who: str | None
    uses: Uses
    look: Look
    account: str | None = None
    is_present: bool = False
    sizes: dict[Path, int] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def of(
        cls,
        spec: DatasetSpec,
        env: Environment,
        *,
        now: datetime | None = None,
        who: str | None = None,
        account: str | None = None,
    ) -> Context:
        """Return the context of a data set; ``now`` is the present by default.

        Raises:
            StorageError: What is in use cannot be told; nothing may be removed then.
        """
        folder, time = DatasetFolder(Path(env.root), spec.name), now or present()
        follow(folder)
        look = Look.at(folder)
        return cls(spec, env, folder, time, who, uses_of(look, time), look, account, now is None)

    def again(self) -> Context:
        """Return the context of this moment, in which nothing is kept of what was seen before.

        Sizes are kept: those of a version never change.
        """
        follow(self.folder)
        look = Look.at(self.folder)
        return replace(self, uses=uses_of(look, self.now), look=look)

    def fresh_uses(self) -> Uses:
        """Return what is in use at this moment, for the look after a mark."""
        return self.again().uses

    def decided(self, why: str) -> dict[str, str]:
        """Return the members of a decision of this run, with its reason."""
        account = self.account or account_name()
        at = format_time(self.now)
        return {"who": self.who or account, "account": account, "why": why, "at": at}

    @cached_property
    def aside(self) -> Path:
        """The folder to which a sweep renames files; what a killed one leaves there is trash."""
        return self.folder.trash / f"{RETENTION}{uuid.uuid4().hex}"


# --- The sweep: hide, look again, then delete or show again


Judge: TypeAlias = Callable[[Expired[ItemT]], Expired[ItemT] | str | None]


class Kind(ABC, Generic[ItemT]):
    """A kind of item, with its rule in ``retention`` of dataset.yaml.

    Readers see an item whole or not at all, also after a kill at any line: it is hidden, what is in
    use is looked at once more, and then it is deleted or shown again. A kind whose users and whose
    sweep take the same lock hides an item when it deletes it.

    Attributes:
        name: Name of the kind, for ``--kind``.
        moves: Whether files are renamed into the folder ``aside`` of the context.
    """

    name: str
    moves: ClassVar[bool] = False

    @abstractmethod
    def find(self, context: Context) -> Iterator[Found[ItemT]]:
        """Yield what the rule does not keep, the first to be removed first; nothing is changed.

        An item whose removal was begun and not ended is yielded as expired, so that the next call
        completes it. Without a rule nothing is yielded.
        """

    def remove(self, context: Context, expired: Sequence[Expired[ItemT]]) -> list[Kept[ItemT]]:
        """Remove items that ``find`` yielded; one that is gone meanwhile is passed over.

        Returns:
            The items that stay after all, because they have come into use.

        Raises:
            StorageError: The file system refused, or what is in use cannot be told: then what was
                hidden is shown again.
        """
        return [kept for some in self.parts(expired) for kept in self._swept(context, some)]

    def _swept(self, context: Context, expired: Sequence[Expired[ItemT]]) -> list[Kept[ItemT]]:
        hidden, kept = list[Expired[ItemT]](), list[Kept[ItemT]]()
        if self.moves:
            posix.make_public_dir(context.aside)
        with self.alone(context, expired[0]):
            for each in expired:
                if (why := self.hide(context, each)) is None:
                    hidden.append(each)
                else:
                    kept.append(Kept(each.item, why))
            try:
                judge = self.look(context)
            except TrainFeedError:
                for each in reversed(hidden):
                    self.show(context, each.item)
                raise
            for each in self.ordered(hidden):
                judged = judge(each)
                if isinstance(judged, str):
                    self.show(context, each.item)
                    kept.append(Kept(each.item, judged))
                elif judged is not None and (why := self.delete(context, judged)) is not None:
                    kept.append(Kept(each.item, why))
        if self.moves:
            posix.remove_tree(context.aside)
        return kept

    def parts(self, expired: Sequence[Expired[ItemT]]) -> Iterable[Sequence[Expired[ItemT]]]:
        """Return the items that one look is for; by default all."""
        return [expired] if expired else []

    def alone(self, _context: Context, _first: Expired[ItemT], /) -> AbstractContextManager[object]:
        """Return what holds off the users of items during look and deletion; by default nothing."""
        return nullcontext()

    def hide(self, _context: Context, _each: Expired[ItemT], /) -> str | None:
        """Hide an item until ``show``, by default not at all; return why it stays, or None."""
        return None

    def look(self, _context: Context, /) -> Judge[ItemT]:
        """Look again; the result gives an item as it is now, why it stays, or None: it is gone."""
        return lambda each: each

    def show(self, _context: Context, _item: ItemT, /) -> None:
        """Undo ``hide``."""

    def ordered(self, hidden: Sequence[Expired[ItemT]]) -> Sequence[Expired[ItemT]]:
        """Return hidden items in the order of their deletion."""
        return hidden

    @abstractmethod
    def delete(self, context: Context, each: Expired[ItemT], /) -> str | None:
        """Delete an item for good; return why a part of it stays, or None."""


# --- Plans that were never published, held against the rule ``plans``

_KIND: Final = "plans"

# A build that pauses goes on within this time; it is that after which housekeeping removes its
# work files.
_YOUNG: Final = timedelta(days=3)


def given_up_plans(context: Context) -> Iterator[Found[PlanItem]]:
    """Yield the plans that were never published and that the rule ``plans`` does not keep.

    A retired interval has such plans only after a rebuild with a reason: the numbers of earlier
    plans were given up with the interval.

    Args:
        context: The data set.

    Raises:
        StorageError: The publication root refused or failed.
    """
    rule, found = context.spec.retention.plans, []
    for interval in context.look.planned_intervals():
        found += _open(context.look, interval)
    yield from held_against(rule, found, context.now, lambda plan: may_be_published(context, plan))


def may_be_published(context: Context, plan: PlanItem) -> str | None:
    """Return why a plan that was not published when it was found may still be, or was."""
    if plan.since > context.now - _YOUNG:
        return "a build of it may pause"
    if plan.generation <= context.folder.last_generation(plan.interval):
        return "its generation was published"
    lease = next(iter(building(context.folder, plan.interval, context.now)), None)
    return None if lease is None else f"it is being built: {lease.told}"


def _open(folder: Look, interval: str) -> list[PlanItem]:
    """Return the plans of an interval whose generation was never published."""
    ids = open_plans(folder, interval)
    return [plan_item(folder, _KIND, interval, each, is_retired=False) for each in ids]
