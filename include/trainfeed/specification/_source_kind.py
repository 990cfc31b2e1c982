"""The protocol of a kind of source: the facts that follow from its specification alone.

``SourceSpec`` has one row for each kind, and exactly one of them is filled in, with a
``SourceKind``. DAG files, planner and stages use this protocol and never ask for the kind itself.
The other half of a kind plans and reads it: ``SourceReader`` in ``trainfeed.pipeline.inputs``,
which needs imports that a DAG file must not have.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any, Final, Literal, Protocol, TypeAlias, runtime_checkable

from pydantic import Field

from trainfeed.intervals import Interval
from trainfeed.specification._problems import Place
from trainfeed.specification._spec_values import Duration

__all__ = [
    "Late",
    "LateRule",
    "Measure",
    "Missing",
    "MissingRule",
    "SourceKind",
    "TopicPart",
    "Wait",
]

Late: TypeAlias = Literal["keep", "separate", "fail"]
_LONGEST_WAIT: Final = timedelta(days=36_500)
Wait: TypeAlias = Annotated[Duration, Field(le=_LONGEST_WAIT)]
Missing: TypeAlias = Literal["fail", "empty", "skip"]


@dataclass(frozen=True)
class Measure:
    """The sizes of a source's ranges, in the unit of its positions: offsets or bytes.

    Attributes:
        range_span: The largest span of a range.
        span_per_record: The approximate span of a record.
    """

    range_span: int
    span_per_record: int


@dataclass(frozen=True)
class LateRule:
    """The policy for records with stamps outside of the interval that reads them.

    Attributes:
        policy: Policy for older records: ``keep``, ``separate`` or ``fail``.
        skew: How far after the interval's end stamps may lie if the policy is ``fail``.
    """

    policy: Late
    skew: timedelta = timedelta(0)


@dataclass(frozen=True)
class MissingRule:
    """The policy for intervals whose source does not come.

    Attributes:
        wait: How long after ``settle`` runs of the schedule wait for it.
        missing: Policy after that: ``fail``, publish as ``empty``, or ``skip``.
    """

    wait: timedelta
    missing: Missing


class TopicPart(Protocol):
    """One topic of a specification, on a broker or in a folder."""

    @property
    def topic(self) -> str:
        """Name of the topic; empty for a recorded topic, whose folder has the name."""

    @property
    def skew(self) -> timedelta:
        """Largest expected distance of stamps from the time of a boundary."""

    @property
    def transaction_wait(self) -> timedelta:
        """How long a run waits while an open transaction may hide records of the interval."""

    @property
    def setting(self) -> str:
        """Its place in dataset.yaml, for messages."""

    @property
    def missing_rule(self) -> MissingRule:
        """The policy for intervals without a record of the topic."""

    def place(self, folder: str | os.PathLike[str]) -> str:
        """Return the connection string of the topic in a plan, for a data set in ``folder``."""


@runtime_checkable
class SourceKind(Protocol):
    """A source, described by its specification."""

    @property
    def settle(self) -> timedelta:
        """Time after the end of an interval before which it is not planned."""

    @property
    def lands(self) -> bool:
        """Whether ``ingest`` copies the records into landing files, for ``preprocess`` to read.

        Otherwise ``preprocess`` reads the source itself.
        """

    @property
    def folder_wait(self) -> timedelta | None:
        """How long after ``settle`` runs wait for the folder of log files of an interval.

        None for a source without such a folder: then no task waits before the plan.
        """

    @property
    def missing_rules(self) -> Mapping[str, MissingRule]:
        """Place in dataset.yaml → policy for intervals that never come.

        A topic that is published as empty at once, by the evidence of its boundaries, has no entry.
        """

    @property
    def topics(self) -> Sequence[TopicPart]:
        """The topics, which have boundary files; empty for other kinds."""

    @property
    def clusters(self) -> Sequence[str]:
        """Ids of the Kafka connections of the source."""

    @property
    def file_systems(self) -> Sequence[str]:
        """Ids of the file system connections of the source."""

    def measure(self, records_per_task: int) -> Measure:
        """Return the sizes of ranges.

        Args:
            records_per_task: The setting of the specification.
        """

    def late_rule(self, label: str) -> LateRule:
        """Return the rule for late records.

        Args:
            label: The ``label`` of a planned input, under which late records are counted.
        """

    def fingerprint(self) -> Mapping[str, Any]:
        """Return the values that determine the content of the records, as plain JSON."""

    def described(self) -> Iterable[str]:
        """Return a line of Markdown for each source, for pages."""

    def contradictions(
        self, schedule: str, intervals: Iterable[Interval]
    ) -> Iterator[tuple[Place, str]]:
        """Yield violated rules: the place below ``source``, and the message.

        Args:
            schedule: The schedule of the specification.
            intervals: Some of the first intervals; none if the schedule itself is wrong.
        """
