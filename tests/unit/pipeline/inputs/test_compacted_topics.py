"""A topic that deletes superseded records is told at each plan: no build sees what is gone."""

import pytest

from trainfeed.sources import RecordedTopic


@pytest.fixture
def warned(project, caplog):
    """Build, and return the warnings."""

    def build():
        project.build()
        return [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]

    return build


def test_a_compacted_topic_is_told(warned, monkeypatch):
    monkeypatch.setattr(RecordedTopic, "is_compacted", True)
    (told,) = warned()
    assert "topic clicks is compacted" in told
    assert "cleanup.policy" in told


def test_any_other_topic_is_not(warned):
    assert warned() == []


class Entry:
    def __init__(self, value):
        self.value = value


@pytest.mark.parametrize(
    ("policy", "expected"),
    [("compact", True), ("compact,delete", True), ("delete, compact", True), ("delete", False)],
)
def test_the_policy_is_read_as_the_broker_has_it(monkeypatch, policy, expected):
    topic = kafka_topic(monkeypatch, lambda: {"cleanup.policy": Entry(policy)})
    assert topic.is_compacted is expected


def test_a_user_who_may_not_see_settings_can_still_read(monkeypatch):
    def refuse():
        from trainfeed.errors import ConfigError

        raise ConfigError("not authorized")

    assert kafka_topic(monkeypatch, refuse).is_compacted is False


def kafka_topic(monkeypatch, answer):
    from trainfeed.sources import kafka_client as admin
    from trainfeed.sources.kafka import KafkaTopic

    topic = KafkaTopic({"bootstrap.servers": "127.0.0.1:1"}, "clicks")

    class Client:
        def describe_configs(self, resources, **_):
            return {resources[0]: answer}

    monkeypatch.setattr(admin.TopicAdmin, "_client", lambda _: Client())
    monkeypatch.setattr(admin.TopicAdmin, "_wait", lambda _, found: found())
    return topic
