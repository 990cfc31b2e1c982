"""The broker as a service: usable when it answers, and back after SIGKILL with its records."""

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from services.kafka import Kafka


@pytest.fixture
def kafka(tmp_path):
    kafka = Kafka(tmp_path)
    kafka.install()
    kafka.start()
    kafka.wait()
    yield kafka
    kafka.stop()
    assert not any(kafka.status().values())


def produce(kafka, value):
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    producer.produce("events", value, partition=0)
    assert producer.flush(20) == 0


def first_values(kafka, count):
    settings = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": "none"}
    consumer = Consumer(settings)
    consumer.assign([TopicPartition("events", 0, 0)])
    messages = consumer.consume(count, 20)
    consumer.close()
    return [message.value() for message in messages]


def test_a_killed_broker_comes_back_with_its_records(kafka):
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    admin.create_topics([NewTopic("events", 1, 1)])["events"].result(20)
    produce(kafka, b"before")

    kafka.kill("kafka")
    assert kafka.status() == {"kafka": None}
    kafka.start()
    kafka.wait()
    produce(kafka, b"after")

    assert first_values(kafka, 2) == [b"before", b"after"]
