"""Kinds of sources and their facts; topics of Kafka and recorded topics as such kinds."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Literal, Protocol, TypeAlias, runtime_checkable

from pydantic import Field

from trainfeed.core.intervals import Interval
from trainfeed.specification.messages import Place
from trainfeed.specification.payload_formats import PayloadSpec, payload_fingerprints
from trainfeed.specification.values import (
    Connection,
    Duration,
    SourcePart,
    Text,
    Topic,
)

# --- The protocol of a kind of source: the facts that follow from its specification alone

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

    @property
    def value(self) -> PayloadSpec | None:
        """The format of the values; None for bytes that only the function reads."""

    @property
    def key(self) -> PayloadSpec | None:
        """The format of the keys, likewise."""

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
        self, schedule: str, zone: str | None, intervals: Iterable[Interval]
    ) -> Iterator[tuple[Place, str]]:
        """Yield violated rules: the place below ``source``, and the message.

        Args:
            schedule: The schedule of the specification.
            zone: Its zone, None for UTC.
            intervals: Some of the first intervals; none if the schedule itself is wrong.
        """


# --- Topics as kinds of source: topics of Kafka clusters, and a recorded topic

# Prefix of a recorded topic's location in a plan, in the place of a connection's name.
RECORDED: Final = "recorded:"
_FORMAT: Final = "topic"
# The rule of a topic without settings: no record is an empty interval, if the boundaries prove it.
_AT_ONCE: Final = MissingRule(timedelta(0), "empty")


class KafkaSourceSpec(SourcePart):
    """One Kafka topic.

    Attributes:
        connection: Name of the connection that has the Kafka settings.
        topic: Name of the topic.
        settle: Time that has to pass after the end of an interval before it is planned.
        late: Policy for records that are older than the interval of their offset; ``fail`` also
            refuses records that are stamped more than ``skew`` after the interval's end.
        skew: Largest expected distance of stamps from the time of a boundary. The search for
            boundaries uses it as a guide only: the offsets that are found determine the content.
        transaction_wait: How long runs of the schedule and of backfills wait while an open
            transaction may hide records of the interval; then they fail.
        wait: How long after ``settle`` runs of the schedule wait for a first record of an interval,
            and for the topic itself. The time counts from the interval and not from a run.
        missing: Policy for an interval without a record after that. ``fail``: runs fail. ``empty``:
            it is published as empty, if its boundaries prove that no record belongs to it.
            ``skip``: with the same proof it is left out, and a marker says why.
        value: Format of the values: with a schema, the function gets their fields. Without it, the
            function gets bytes.
        key: Format of the keys; their fields have names that begin with ``_key``.
    """

    connection: Connection = "kafka_default"
    topic: Topic
    settle: Duration = timedelta(minutes=10)
    late: Late = "keep"
    skew: Duration = timedelta(days=1)
    transaction_wait: Duration = timedelta(hours=1)
    wait: Wait = timedelta(0)
    missing: Missing = "empty"
    value: PayloadSpec | None = None
    key: PayloadSpec | None = None

    @property
    def setting(self) -> str:
        """Its place in dataset.yaml, with its name."""
        return f"{self._at}.kafka {self.topic}"

    @property
    def missing_rule(self) -> MissingRule:
        """The settings ``wait`` and ``missing``."""
        return MissingRule(self.wait, self.missing)

    def place(self, folder: str | os.PathLike[str]) -> str:  # noqa: ARG002 - as of a recorded topic
        """Return the name of the connection."""
        return self.connection


@dataclass(frozen=True)
class KafkaTopics:
    """All Kafka topics of a data set, as one source.

    Attributes:
        topics: At least one.
    """

    topics: tuple[KafkaSourceSpec, ...]

    lands: ClassVar[bool] = True
    folder_wait: ClassVar[timedelta | None] = None
    file_systems: ClassVar[tuple[str, ...]] = ()

    @property
    def settle(self) -> timedelta:
        """The longest time of all topics: the interval waits for the last one."""
        return max(topic.settle for topic in self.topics)

    @property
    def missing_rules(self) -> dict[str, MissingRule]:
        """The rules of the topics that have one."""
        return _rules(self.topics)

    @property
    def clusters(self) -> tuple[str, ...]:
        """The connection of every topic."""
        return tuple(topic.connection for topic in self.topics)

    def measure(self, records_per_task: int) -> Measure:
        """Return sizes in offsets; a record takes about one."""
        return Measure(records_per_task, 1)

    def late_rule(self, label: str) -> LateRule:
        """Return the rule of the topic ``label``."""
        rules = {topic.topic: LateRule(topic.late, topic.skew) for topic in self.topics}
        return rules[label]

    def fingerprint(self) -> dict[str, Any]:
        """Return the policies for late records, and the formats of values and keys with a schema.

        Connections do not determine the content.
        """
        late = {topic.topic: topic.late for topic in self.topics}
        payloads = {topic.topic: payload_fingerprints(topic) for topic in self.topics}
        found = {topic: each for topic, each in payloads.items() if each}
        return {"format": _FORMAT, "late": late, **({"payloads": found} if found else {})}

    def described(self) -> Iterator[str]:
        """Yield every topic with its connection."""
        for topic in self.topics:
            yield f"Kafka topic `{topic.topic}` (connection `{topic.connection}`)"

    def contradictions(
        self,
        schedule: str,  # noqa: ARG002 - a topic goes with every schedule
        zone: str | None,  # noqa: ARG002
        intervals: Iterable[Interval],  # noqa: ARG002
    ) -> Iterator[tuple[Place, str]]:
        """Yield a problem for every topic that is named twice."""
        for topic, count in Counter(topic.topic for topic in self.topics).items():
            if count > 1:
                text = (
                    f"expected every topic once, got {topic!r} {count} times; positions are named"
                    " by topic, so one data set cannot have it from two clusters"
                )
                yield ("kafka",), text


class RecordedSourceSpec(SourcePart):
    """A recorded topic: a folder of landing files, read as if a broker served it.

    Attributes:
        path: Path or URI of the folder. A path that begins with ``./`` starts in the data set's
            folder, any other relative path in the working directory.
        settle: Time that has to pass after the end of an interval before it is planned.
        late: Policy for records that are older than the interval of their offset; ``fail`` also
            refuses records that are stamped more than ``skew`` after the interval's end.
        skew: Largest expected distance of stamps from the time of a boundary.
        wait: How long after ``settle`` runs of the schedule wait for a first record of an interval,
            and for the folder itself. The time counts from the interval and not from a run.
        missing: Policy for an interval without a record after that: ``fail``, ``empty`` or
            ``skip``, as of a Kafka topic.
        value: Format of the values: with a schema, the function gets their fields. Without it, the
            function gets bytes.
        key: Format of the keys; their fields have names that begin with ``_key``.
    """

    path: Text
    settle: Duration = timedelta(0)
    late: Late = "keep"
    skew: Duration = timedelta(days=1)
    wait: Wait = timedelta(0)
    missing: Missing = "empty"
    value: PayloadSpec | None = None
    key: PayloadSpec | None = None

    topic: ClassVar[str] = ""  # the folder of the topic has the name
    transaction_wait: ClassVar[timedelta] = timedelta(0)  # no broker, no transaction
    lands: ClassVar[bool] = True
    folder_wait: ClassVar[timedelta | None] = None
    clusters: ClassVar[tuple[str, ...]] = ()
    file_systems: ClassVar[tuple[str, ...]] = ()

    @property
    def setting(self) -> str:
        """Its place in dataset.yaml."""
        return f"{self._at}.recorded"

    @property
    def missing_rule(self) -> MissingRule:
        """The settings ``wait`` and ``missing``."""
        return MissingRule(self.wait, self.missing)

    @property
    def missing_rules(self) -> dict[str, MissingRule]:
        """The rule of the topic, if it has one."""
        return _rules([self])

    @property
    def topics(self) -> tuple[RecordedSourceSpec, ...]:
        """This topic alone."""
        return (self,)

    def location(self, folder: str | os.PathLike[str]) -> str:
        """Return URI or absolute path of the topic, for a data set in ``folder``."""
        if "://" in self.path:
            return self.path
        base = Path(folder) if self.path.startswith("./") else Path()
        return str((base / self.path).absolute())

    def place(self, folder: str | os.PathLike[str]) -> str:
        """Return the location of the topic after the prefix ``recorded:``."""
        return f"{RECORDED}{self.location(folder)}"

    def measure(self, records_per_task: int) -> Measure:
        """Return sizes in offsets; a record takes about one."""
        return Measure(records_per_task, 1)

    def late_rule(self, label: str) -> LateRule:  # noqa: ARG002 - there is one topic
        """Return the rule of the topic."""
        return LateRule(self.late, self.skew)

    def fingerprint(self) -> dict[str, Any]:
        """Return the policy for late records, and the formats with a schema; not the location."""
        found = payload_fingerprints(self)
        return {"format": _FORMAT, "late": self.late, **({"payloads": found} if found else {})}

    def described(self) -> Iterator[str]:
        """Yield the topic with its folder."""
        yield f"recorded topic `{self.path}`"

    def contradictions(
        self,
        schedule: str,  # noqa: ARG002 - a topic goes with every schedule
        zone: str | None,  # noqa: ARG002
        intervals: Iterable[Interval],  # noqa: ARG002
    ) -> Iterator[tuple[Place, str]]:
        """Yield nothing: one topic has no contradictions."""
        yield from ()


def _rules(topics: Sequence[TopicPart]) -> dict[str, MissingRule]:
    """Return the rules that differ from the one of a topic without settings."""
    rules = {topic.setting: topic.missing_rule for topic in topics}
    return {setting: rule for setting, rule in rules.items() if rule != _AT_ONCE}
