"""What every kind of source answers about itself, out of a specification and without reading it.

``SourceSpec`` has one row for each kind, and exactly one of them is filled in. What stands there is
a ``SourceKind``: DAG files, planner and stages ask it, and never which kind it is. How a source is
planned and read is the other half of a kind, ``SourceReader`` in ``trainfeed.pipeline.inputs``: it
needs what a DAG file may not import.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

from trainfeed.intervals import Interval
from trainfeed.specification._problems import Place

__all__ = ["Late", "LateRule", "Measure", "SourceKind", "TopicPart"]

Late: TypeAlias = Literal["keep", "separate", "fail"]


@dataclass(frozen=True)
class Measure:
    """How large the ranges of a source are, in what they are counted in: offsets or bytes.

    Attributes:
        range_span: Most of one range, in offsets or bytes.
        span_per_record: What a record takes, about.
    """

    range_span: int
    span_per_record: int


@dataclass(frozen=True)
class LateRule:
    """What becomes of records with stamps outside of the interval that they are read for.

    Attributes:
        policy: Of those that are older: ``keep``, ``separate`` or ``fail``.
        skew: How far after the interval's end stamps may lie where the policy is ``fail``.
    """

    policy: Late
    skew: timedelta = timedelta(0)


class TopicPart(Protocol):
    """One topic of a specification, whether a broker serves it or a folder holds it."""

    @property
    def topic(self) -> str:
        """Name of the topic; empty where the folder says it."""

    @property
    def skew(self) -> timedelta:
        """How far from a boundary's time the records around it are stamped at most."""

    @property
    def transaction_wait(self) -> timedelta:
        """How long runs look again while an open transaction may hide records of the interval."""

    def place(self, folder: str | os.PathLike[str]) -> str:
        """Return what names the topic's place in a plan, for a data set in ``folder``."""


@runtime_checkable
class SourceKind(Protocol):
    """A source as a specification describes it."""

    @property
    def settle(self) -> timedelta:
        """How long after its end an interval is planned at the earliest."""

    @property
    def lands(self) -> bool:
        """Whether ingest copies the records into landing files, which preprocess then reads.

        Otherwise preprocess reads the source.
        """

    @property
    def folder_wait(self) -> timedelta | None:
        """How long after that runs wait for the folder of log files of an interval.

        None where there is no such folder, so that no task waits before the plan.
        """

    @property
    def topics(self) -> Sequence[TopicPart]:
        """The topics whose boundaries are written down; none of another source."""

    @property
    def clusters(self) -> Sequence[str]:
        """Ids of the Kafka connections that it names."""

    @property
    def file_systems(self) -> Sequence[str]:
        """Ids of the connections of file systems that it names."""

    def measure(self, records_per_task: int) -> Measure:
        """Return how large ranges are.

        Args:
            records_per_task: What the specification wants a task to take, about.
        """

    def late_rule(self, label: str) -> LateRule:
        """Return the rule for late records.

        Args:
            label: What late records of an input are counted under, as planned inputs have it.
        """

    def fingerprint(self) -> Mapping[str, Any]:
        """Return the values that determine what the records say, as plain JSON."""

    def described(self) -> Iterable[str]:
        """Return the sources by name, for people, as Markdown."""

    def contradictions(
        self, schedule: str, intervals: Iterable[Interval]
    ) -> Iterator[tuple[Place, str]]:
        """Yield what does not fit together: the place below ``source``, and what to say.

        Args:
            schedule: As the specification has it.
            intervals: Some of the first, or none when the schedule is wrong itself.
        """
