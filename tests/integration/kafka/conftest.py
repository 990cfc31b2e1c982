"""Topics with random names on a real broker."""

from __future__ import annotations

import os
import time
import uuid

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from trainfeed.sources import KafkaTopic

DEADLINE_S = 120.0


class Broker:
    """A producer and an admin client for the topics of tests."""

    def __init__(self, servers):
        self.servers = servers
        self._admin = AdminClient({"bootstrap.servers": servers})
        self._topics = set()

    def create(self, name=None, *, partitions=1, **config):
        name = name or f"test-{uuid.uuid4().hex[:12]}"
        settings = {key.replace("_", "."): str(value) for key, value in config.items()}
        topic = NewTopic(name, partitions, 1, config=settings)
        # A topic that was just deleted takes a moment to be gone.
        self.until(lambda: self._succeeds(self._admin.create_topics([topic])[name]))
        self._topics.add(name)
        # The controller has it; the broker, which answers clients, hears of it a moment later.
        self.until(lambda: len(self._partitions(name)) == partitions)
        return name

    def _partitions(self, name):
        topics = self._admin.list_topics(name, timeout=DEADLINE_S).topics
        return topics[name].partitions if name in topics else ()

    def delete(self, name):
        self._admin.delete_topics([name])[name].result(DEADLINE_S)
        self._topics.discard(name)

    def delete_records(self, name, before, partition=0):
        answers = self._admin.delete_records([TopicPartition(name, partition, before)])
        for answer in answers.values():
            answer.result(DEADLINE_S)

    def producer(self, **config):
        settings = {key.replace("_", "."): value for key, value in config.items()}
        return Producer({"bootstrap.servers": self.servers, "linger.ms": 5, **settings})

    def produce(self, name, records, partition=0):
        """Send ``{"value": …, "key": …, "timestamp": …, "headers": …}`` records, in order."""
        producer = self.producer(enable_idempotence=True)
        failures = []
        for record in records:
            producer.produce(
                name,
                partition=partition,
                on_delivery=lambda error, _: failures.append(error) if error else None,
                **record,
            )
            producer.poll(0)
        assert producer.flush(DEADLINE_S) == 0
        assert failures == []

    def open(self, name):
        return KafkaTopic({"bootstrap.servers": self.servers}, name)

    def clean_up(self):
        if self._topics:
            for answer in self._admin.delete_topics(list(self._topics)).values():
                answer.result(DEADLINE_S)

    @staticmethod
    def until(condition, deadline_s=DEADLINE_S):
        end = time.monotonic() + deadline_s
        while not condition():
            assert time.monotonic() < end, "the broker did not get there in time"

    @staticmethod
    def _succeeds(answer):
        return answer.exception(DEADLINE_S) is None


@pytest.fixture
def broker():
    broker = Broker(os.environ["TEST_KAFKA_BOOTSTRAP_SERVERS"])
    yield broker
    broker.clean_up()
