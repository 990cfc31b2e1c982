"""Opens the topics of a specification: topics of a cluster, and recorded ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from trainfeed.config import Environment, KafkaSettings
from trainfeed.errors import ConfigError, TopicNotFoundError
from trainfeed.sources import RecordedTopic, Topic, open_topic
from trainfeed.specification import RECORDED, DatasetSpec, TopicPart
from trainfeed.storage import Location

__all__ = ["open_source", "placed", "topics_of"]


def open_source(env: Environment, connection: str, topic: str) -> Topic:
    """Open a topic by the connection string of the plan.

    Raises:
        ConfigError: The connection is not defined.
        TopicNotFoundError: The topic is not there.
    """
    if connection.startswith(RECORDED):
        return RecordedTopic(Location.parse(connection.removeprefix(RECORDED)))
    settings: KafkaSettings | None = env.kafka.get(connection)
    if settings is None:
        raise ConfigError(
            f"connection {connection!r} is not defined, known are {sorted(env.kafka)}; define it"
            " (outside of Airflow in the file that TRAINFEED_CONNECTIONS names), or change"
            " source.kafka.connection in dataset.yaml"
        )
    return open_topic(settings, topic)


@contextmanager
def placed(setting: str) -> Iterator[None]:
    """Add its place in dataset.yaml to the error of a topic that is not there."""
    try:
        yield
    except TopicNotFoundError as error:
        error.setting = setting
        raise


def topics_of(spec: DatasetSpec) -> Iterator[tuple[str, str, TopicPart]]:
    """Yield connection, name and specification of every topic; none for other kinds of source."""
    for topic in spec.source.kind.topics:
        yield topic.place(spec.folder), topic.topic, topic
