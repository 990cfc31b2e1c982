"""The model: what the rules say is there after a night, computed from what people did alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from tests.retention.days import name_of
from tests.retention.two_sets import Rules
from trainfeed.versions.lease import HeldLease

# Retention believes a lease so much longer than it says.
DOUBT = timedelta(minutes=10)


@dataclass
class Reader:
    """A reader's lease.

    Attributes:
        held: The lease.
        until: Number of the last night on which the reader is there.
        is_killed: Whether the reader renews nothing, because it was killed.
        ends: When the lease ends by itself, as last renewed.
    """

    held: HeldLease
    until: int
    is_killed: bool
    ends: datetime


@dataclass
class Newest:
    """The newest generation of an interval.

    Attributes:
        generation: Its number.
        at: When it was published.
        withdrawn: When it was withdrawn; None if it was not.
    """

    generation: int
    at: datetime
    withdrawn: datetime | None = None


@dataclass
class Expected:
    """What people and nights have done so far, and what has to be there therefore.

    Attributes:
        rules: The rules of both data sets.
        landed: Intervals that have landing files.
        published: Interval → the newest generation of ``clicks``.
        views: Interval → publication of the generation of ``views``.
        waiting: Interval → night of a build that stopped and will go on.
        refused: Interval → time of the plan that a gate refused.
        compared: Interval that waits or was refused → versions that its gates compare with.
        tags: Tag → night, and the version.
        readers: Leases.
        trainings: Night of a training without a result → its versions.
    """

    rules: Rules
    landed: set[str] = field(default_factory=set)
    published: dict[str, Newest] = field(default_factory=dict)
    views: dict[str, datetime] = field(default_factory=dict)
    waiting: dict[str, int] = field(default_factory=dict)
    refused: dict[str, datetime] = field(default_factory=dict)
    compared: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    tags: dict[str, tuple[int, tuple[str, int]]] = field(default_factory=dict)
    readers: list[Reader] = field(default_factory=list)
    trainings: dict[int, list[tuple[str, int]]] = field(default_factory=dict)

    def used(self, now: datetime) -> set[tuple[str, int]]:
        """Return the versions that a tag, a lease, a training or a plan without a result names."""
        live = (each.held.lease.versions for each in self.readers if now < each.ends + DOUBT)
        tagged = {version for _, version in self.tags.values()}
        compared = (
            versions
            for name, versions in self.compared.items()
            if name in self.waiting or self._is_young_refusal(name, now) or self._stays(name)
        )
        return tagged.union(*live, *self.trainings.values(), *compared)

    def forget_landing(self, now: datetime) -> None:
        """Let go of the intervals whose landing files no rule and nobody keeps any more.

        With the files of a plan that was given up the plan goes, and then what it compares with.
        """
        before = None
        while self.landed != before:
            before, used = self.landed, {name for name, _ in self.used(now)}
            self.landed = {name for name in before if self._keeps_landing(name, now, used)}

    def _keeps_landing(self, name: str, now: datetime, used: set[str]) -> bool:
        if name in used or name in self.waiting or self._is_young_refusal(name, now):
            return True
        if (at := self.views.get(name)) and at > now - timedelta(days=self.rules.views_landing):
            return True
        newest = self.published.get(name)
        if newest is None or self._is_withdrawn_for_good(newest, now):
            return False
        return newest.at > now - timedelta(days=self.rules.landing)

    def _stays(self, name: str) -> bool:
        """Return whether a plan that was refused stays, as ``views`` wants its landing files."""
        return name in self.refused and name in self.landed

    def _is_young_refusal(self, name: str, now: datetime) -> bool:
        at = self.refused.get(name)
        return at is not None and at > now - timedelta(days=self.rules.plans)

    def _is_withdrawn_for_good(self, newest: Newest, now: datetime) -> bool:
        limit = now - timedelta(days=self.rules.withdrawn)
        return newest.withdrawn is not None and newest.withdrawn <= limit

    def must_be_readable(self, last: int) -> set[str]:
        """Return the intervals that readers have to get after the night of a day."""
        young = (name_of(each) for each in range(max(0, last - self.rules.intervals + 2), last + 1))
        found = ((name, self.published.get(name)) for name in young)
        return {name for name, newest in found if newest and newest.withdrawn is None}

    def may_be_readable(self, now: datetime) -> set[str]:
        """Return the intervals that readers may get: none that is to be retired."""
        limit = now - timedelta(days=self.rules.intervals + 1)
        young = {name for name, newest in self.published.items() if newest.at > limit}
        return young | {name for name, _ in self.used(now)}
