"""Builds whose brokers are away or refuse the user: message, outcome, and files that are left.

Every case ends with the same build, made from a broker that answers.
"""

from __future__ import annotations

import os
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from tests.integration.kafka.test_password import PASSWORD
from tests.integration.kafka.test_password import strict_broker as strict_broker  # noqa: PLC0414
from tests.unit.pipeline.clicks import Project, day
from tests.unit.pipeline.conftest import project as project  # noqa: PLC0414 - a fixture
from trainfeed.core.config import KafkaSettings
from trainfeed.errors import ConfigError, Outcome, SourceUnreachableError


@pytest.fixture
def on_broker(project, broker):
    """The project with its first day on the real broker; returns it for other servers."""
    topic = broker.create()
    broker.produce(topic, day(0, 60))
    project.edit("topic: clicks", f"topic: {topic}")

    def at(**client):
        settings = {name.replace("_", "."): value for name, value in client.items()}
        kafka = {"kafka_default": KafkaSettings(client=settings)}
        return Project(project.path, replace(project.env, kafka=kafka))

    return at


def refuse(project, kind):
    with pytest.raises(kind) as caught:
        project.build()
    assert type(caught.value) is kind
    for place in (project.env.root, project.env.landing, project.env.work):
        left = {path.name for path in Path(place).rglob("*") if path.is_file()}
        # The root is known for one, and the schedule for what it is, before a source is asked; the
        # record of the failure is for `trainfeed status`.
        assert left <= {"TRAINFEED.json", "SCHEDULE.json", "2024-03-01.json"}
    return caught.value


def build_after_all(on_broker):
    servers = os.environ["TEST_KAFKA_BOOTSTRAP_SERVERS"]
    good = on_broker(bootstrap_servers=servers)
    assert good.build()["verdict"] == "built"
    assert list(good.version().problems()) == []


@pytest.fixture
def nobody():
    """An address at which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


def test_a_broker_that_is_down_is_tried_again(on_broker, nobody):
    servers = nobody
    error = refuse(on_broker(bootstrap_servers=servers), SourceUnreachableError)
    assert error.outcome is Outcome.RETRY
    assert f"at brokers {servers}: " in str(error)
    assert "Connection refused" in str(error)
    assert "nothing of this call was kept; retry, and if it keeps failing" in str(error)
    build_after_all(on_broker)


def test_a_published_interval_is_identical_while_its_broker_is_down(on_broker, nobody):
    build_after_all(on_broker)
    report = on_broker(bootstrap_servers=nobody).build()
    assert (report["verdict"], report["source_reads"]) == ("identical", 0)
    assert "its source was not compared: SourceUnreachableError: " in report["note"]


def test_a_published_interval_is_identical_when_its_topic_is_deleted(on_broker, broker, project):
    build_after_all(on_broker)
    (topic,) = [source.topic for source in project.spec.source.kafka]
    broker.delete(topic)
    report = on_broker(bootstrap_servers=os.environ["TEST_KAFKA_BOOTSTRAP_SERVERS"]).build()
    assert (report["verdict"], report["source_reads"]) == ("identical", 0)
    assert "its source was not compared: TopicNotFoundError: " in report["note"]


def test_a_wrong_password_fails_at_once(on_broker, strict_broker):
    error = refuse(
        on_broker(
            bootstrap_servers=strict_broker,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="PLAIN",
            sasl_username="ingest",
            sasl_password=PASSWORD,
        ),
        ConfigError,
    )
    assert error.outcome is Outcome.FAIL
    assert "Invalid username or password" in str(error)
    assert PASSWORD not in str(error)
    build_after_all(on_broker)
