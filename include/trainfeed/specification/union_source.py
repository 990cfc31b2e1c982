"""A union as a kind of source: several sources in one interval, each with a name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from itertools import chain
from typing import Any, Final, NoReturn

from trainfeed.core.intervals import Interval
from trainfeed.specification.iceberg_source import IcebergSourceSpec
from trainfeed.specification.log_paths import log_paths_of
from trainfeed.specification.log_source import LogsSourceSpec
from trainfeed.specification.messages import Place
from trainfeed.specification.source_kinds import (
    LateRule,
    Measure,
    MissingRule,
    RecordedSourceSpec,
    SourceKind,
    TopicPart,
)

UNION: Final = "union"
FEWEST_MEMBERS: Final = 2
MOST_MEMBERS: Final = 32


@dataclass(frozen=True)
class UnionSource:
    """All members of a union, as one source.

    What belongs to a record or a range is asked of its member; here it raises ``LookupError``.

    Attributes:
        members: Name → source, in name order.
    """

    members: Mapping[str, SourceKind]

    @property
    def settle(self) -> timedelta:
        """The longest time of all members: the interval waits for the last one."""
        return max(kind.settle for kind in self.members.values())

    @property
    def lands(self) -> bool:
        """Whether a member lands."""
        return any(kind.lands for kind in self.members.values())

    @property
    def folder_wait(self) -> timedelta | None:
        """The longest wait for a folder, None without a member that has folders."""
        waits = [kind.folder_wait for kind in self.members.values()]
        return max((wait for wait in waits if wait is not None), default=None)

    @property
    def missing_rules(self) -> dict[str, MissingRule]:
        """The rules of all members."""
        return {
            place: rule
            for kind in self.members.values()
            for place, rule in kind.missing_rules.items()
        }

    @property
    def topics(self) -> tuple[TopicPart, ...]:
        """The topics of all members."""
        return tuple(chain.from_iterable(kind.topics for kind in self.members.values()))

    @property
    def clusters(self) -> tuple[str, ...]:
        """The Kafka connections of all members."""
        return tuple(chain.from_iterable(kind.clusters for kind in self.members.values()))

    @property
    def file_systems(self) -> tuple[str, ...]:
        """The file system connections of all members."""
        return tuple(chain.from_iterable(kind.file_systems for kind in self.members.values()))

    def measure(self, records_per_task: int) -> Measure:  # noqa: ARG002 - asked of members
        """Raise: offsets and bytes have no common measure.

        Raises:
            LookupError: Always.
        """
        self._refuse()

    def late_rule(self, label: str) -> LateRule:  # noqa: ARG002 - asked of members
        """Raise: every member has a rule.

        Raises:
            LookupError: Always.
        """
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise LookupError(f"a union has several sources: ask for one of {', '.join(self.members)}")

    def fingerprint(self) -> dict[str, Any]:
        """Return the values of every member by its name, which stands in positions."""
        return {UNION: {name: dict(kind.fingerprint()) for name, kind in self.members.items()}}

    def described(self) -> Iterator[str]:
        """Yield the lines of all members, each behind the member's name."""
        for name, kind in self.members.items():
            for line in kind.described():
                yield f"`{name}`: {line}"

    def contradictions(
        self, schedule: str, zone: str | None, intervals: Iterable[Interval]
    ) -> Iterator[tuple[Place, str]]:
        """Yield the violated rules of members, and what two of them would read both."""
        looked_at = list(intervals)
        users: dict[tuple[str, ...], str] = {}
        for name, kind in self.members.items():
            wrong = list(kind.contradictions(schedule, zone, looked_at))
            yield from (((UNION, name, *place), text) for place, text in wrong)
            if not wrong:
                yield from self._shared(name, kind, looked_at, users)

    def _shared(
        self,
        name: str,
        kind: SourceKind,
        intervals: Iterable[Interval],
        users: dict[tuple[str, ...], str],
    ) -> Iterator[tuple[Place, str]]:
        """Yield the first thing that an earlier member reads as well."""
        for place in _read_by(kind, intervals):
            other = users.setdefault(place, name)
            if other != name:
                text = (
                    f"expected another source than that of member {other!r}, got {place[-1]!r} in"
                    " both: each of its records would be in the data set twice; take one out"
                )
                yield (UNION, name), text
                return


def _read_by(kind: SourceKind, intervals: Iterable[Interval]) -> Iterator[tuple[str, ...]]:
    """Yield what a source reads, as far as its specification says it."""
    if isinstance(kind, LogsSourceSpec):
        for interval in intervals:
            top, bases, below, _ = log_paths_of(kind.path, interval, kind.zone)
            for base in bases:
                yield "folder", kind.connection, "/".join(filter(None, (top, base, below)))
    elif isinstance(kind, IcebergSourceSpec):
        yield "table", kind.catalog, kind.table
    elif isinstance(kind, RecordedSourceSpec):
        yield "recorded", kind.path
    else:
        for topic in kind.topics:
            yield "topic", topic.place(""), topic.topic
