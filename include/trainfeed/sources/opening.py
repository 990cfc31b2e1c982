"""Opens a topic by its settings: from a cluster, or from a folder."""

from __future__ import annotations

from trainfeed.core.config import KafkaSettings
from trainfeed.errors import TopicNotFoundError
from trainfeed.files.stores import Location
from trainfeed.sources.kafka import KafkaTopic
from trainfeed.sources.recorded import TOPIC_FILE, RecordedTopic
from trainfeed.sources.topic import Topic, check_topic_name


def open_topic(settings: KafkaSettings, topic: str) -> Topic:
    """Open a topic of a cluster, or a recorded topic in its place.

    No broker is contacted yet.

    Args:
        settings: The connection. ``recorded`` has precedence: a folder with the recorded topic in
            the subfolder ``topic``, or the folder of the recorded topic itself.
        topic: Name of the topic.

    Raises:
        ConfigError: A setting is missing or not allowed.
        TopicNotFoundError: There is no such recorded topic.
    """
    check_topic_name(topic)
    if settings.recorded is None:
        return KafkaTopic(settings.client, topic)
    folder = Location.parse(settings.recorded)
    for location in (folder / topic, folder):
        if (location / TOPIC_FILE).exists():
            return _recorded(location, topic, settings)
    raise TopicNotFoundError(
        f"expected recorded topic {topic!r}, found {TOPIC_FILE} neither in"
        f" {(folder / topic).uri} nor in {folder.uri}; record the topic, or {settings.remedy}"
    )


def _recorded(location: Location, topic: str, settings: KafkaSettings) -> RecordedTopic:
    recorded = RecordedTopic(location)
    if (found := recorded.identity.topic) != topic:
        raise TopicNotFoundError(
            f"expected recorded topic {topic!r} in {location.uri}, got {found!r}; change the topic"
            f" or {settings.remedy.removeprefix('change ')}"
        )
    return recorded
