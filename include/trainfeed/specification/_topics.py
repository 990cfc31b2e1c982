"""Topics as kinds of source: topics of Kafka clusters, and a recorded topic."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar, Final

from trainfeed.intervals import Interval
from trainfeed.specification._problems import Place
from trainfeed.specification._source_kind import (
    Late,
    LateRule,
    Measure,
    Missing,
    MissingRule,
    TopicPart,
    Wait,
)
from trainfeed.specification._spec_values import Connection, Duration, Part, Text, Topic

__all__ = ["RECORDED", "KafkaSourceSpec", "KafkaTopics", "RecordedSourceSpec"]

# Prefix of a recorded topic's location in a plan, in the place of a connection's name.
RECORDED: Final = "recorded:"
_FORMAT: Final = "topic"
# The rule of a topic without settings: no record is an empty interval, if the boundaries prove it.
_AT_ONCE: Final = MissingRule(timedelta(0), "empty")


class KafkaSourceSpec(Part):
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
    """

    connection: Connection = "kafka_default"
    topic: Topic
    settle: Duration = timedelta(minutes=10)
    late: Late = "keep"
    skew: Duration = timedelta(days=1)
    transaction_wait: Duration = timedelta(hours=1)
    wait: Wait = timedelta(0)
    missing: Missing = "empty"

    @property
    def setting(self) -> str:
        """Its place in dataset.yaml, with its name."""
        return f"source.kafka {self.topic}"

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
        """Return the policies for late records; connections do not determine the content."""
        return {"format": _FORMAT, "late": {topic.topic: topic.late for topic in self.topics}}

    def described(self) -> Iterator[str]:
        """Yield every topic with its connection."""
        for topic in self.topics:
            yield f"Kafka topic `{topic.topic}` (connection `{topic.connection}`)"

    def contradictions(
        self,
        schedule: str,  # noqa: ARG002 - a topic goes with every schedule
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


class RecordedSourceSpec(Part):
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
    """

    path: Text
    settle: Duration = timedelta(0)
    late: Late = "keep"
    skew: Duration = timedelta(days=1)
    wait: Wait = timedelta(0)
    missing: Missing = "empty"

    setting: ClassVar[str] = "source.recorded"
    topic: ClassVar[str] = ""  # the folder of the topic has the name
    transaction_wait: ClassVar[timedelta] = timedelta(0)  # no broker, no transaction
    lands: ClassVar[bool] = True
    folder_wait: ClassVar[timedelta | None] = None
    clusters: ClassVar[tuple[str, ...]] = ()
    file_systems: ClassVar[tuple[str, ...]] = ()

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
        """Return the policy for late records; the location does not determine the content."""
        return {"format": _FORMAT, "late": self.late}

    def described(self) -> Iterator[str]:
        """Yield the topic with its folder."""
        yield f"recorded topic `{self.path}`"

    def contradictions(
        self,
        schedule: str,  # noqa: ARG002 - a topic goes with every schedule
        intervals: Iterable[Interval],  # noqa: ARG002
    ) -> Iterator[tuple[Place, str]]:
        """Yield nothing: one topic has no contradictions."""
        yield from ()


def _rules(topics: Sequence[TopicPart]) -> dict[str, MissingRule]:
    """Return the rules that differ from the one of a topic without settings."""
    rules = {topic.setting: topic.missing_rule for topic in topics}
    return {setting: rule for setting, rule in rules.items() if rule != _AT_ONCE}
