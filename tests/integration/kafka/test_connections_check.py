"""What ``trainfeed connections check`` says of a real broker, of one that refuses, and of none."""

from __future__ import annotations

import socket
import time
from dataclasses import replace

from tests.integration.kafka.test_password import PASSWORD, strict_broker
from tests.unit.pipeline.conftest import project
from trainfeed.core.config import KafkaSettings
from trainfeed.look.connections import DEADLINE_S, check_connections

__all__ = ["project", "strict_broker"]


def kafka_answer(project, **client):
    settings = {name.replace("_", "."): value for name, value in client.items()}
    env = replace(project.env, kafka={"kafka_default": KafkaSettings(client=settings)})
    started = time.monotonic()
    (found,) = (each for each in check_connections(env) if each.connection.kind == "Kafka cluster")
    assert time.monotonic() - started < DEADLINE_S + 5
    return found


def test_a_broker_says_which_cluster_it_is_and_what_topics_have(project, broker):
    name = broker.create(partitions=3)
    project.edit("topic: clicks", f"topic: {name}")
    found = kafka_answer(project, bootstrap_servers=broker.servers)
    assert found.is_ok, found.message
    assert f"topics {name} (3 partitions)" in found.message
    assert found.connection.place == broker.servers


def test_a_topic_that_is_not_there_is_the_fault_not_the_broker(project, broker):
    found = kafka_answer(project, bootstrap_servers=broker.servers)
    assert not found.is_ok
    assert "topic 'clicks'" in found.message
    assert "create the topic, or change its name in dataset.yaml" in found.message


def test_a_wrong_password_of_the_settings_is_told_and_not_shown(project, strict_broker):
    found = kafka_answer(
        project,
        bootstrap_servers=strict_broker,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="PLAIN",
        sasl_username="ingest",
        sasl_password=PASSWORD,
    )
    assert not found.is_ok
    assert "Invalid username or password" in found.message
    assert "change the settings of the connection" in found.message
    assert PASSWORD not in str(found.to_json())


def test_where_nothing_listens_the_answer_comes_in_time(project):
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
    found = kafka_answer(project, bootstrap_servers=address)
    assert (found.is_ok, address in found.message) == (False, True)


def test_a_listener_that_never_answers_is_given_up(project):
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        found = kafka_answer(project, bootstrap_servers=address)
    assert not found.is_ok
