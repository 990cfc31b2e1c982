"""Questions about a topic: asked again while a partition has no leader, and not for ever."""

import os
from concurrent.futures import Future
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException

from trainfeed.errors import IngestError, TopicNotFoundError
from trainfeed.sources import PartitionState
from trainfeed.sources import kafka_client as _kafka_admin
from trainfeed.sources.kafka_client import ClientErrors, TopicAdmin

MOVING = KafkaError(KafkaError.NOT_LEADER_FOR_PARTITION)


class Broker:
    """Answers as it is told to, the last answer for ever."""

    def __init__(self, *answers):
        self._answers = list(answers)
        self.asked = 0

    def list_offsets(self, partitions, **options):  # noqa: ARG002 - as the client has it
        self.asked += 1
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        future = Future()
        if isinstance(answer, KafkaError):
            future.set_exception(KafkaException(answer))
        else:
            future.set_result(SimpleNamespace(offset=answer, leader_epoch=3))
        return dict.fromkeys(partitions, future)

    def poll(self, timeout):  # noqa: ARG002 - as the client has it
        return 0


def admin_of(broker):
    admin = TopicAdmin({}, "flights", ClientErrors("broker:9092", ()))
    admin._clients[os.getpid()] = broker
    return admin


def test_a_partition_without_a_leader_is_asked_again():
    """KA-03: a topic that was just made answers like this for a moment."""
    broker = Broker(MOVING, KafkaError(KafkaError.LEADER_NOT_AVAILABLE), 41)
    assert admin_of(broker).offsets_at({0: 0}) == {0: 41}
    assert broker.asked == 3


def test_all_partitions_are_asked_at_once():
    broker = Broker(41)
    admin = admin_of(broker)
    assert admin.states(range(100)) == dict.fromkeys(range(100), PartitionState(41, 41, 41, 3))
    assert broker.asked == 3
    assert admin.offsets_at(dict.fromkeys(range(100), 0)) == dict.fromkeys(range(100), 41)
    assert broker.asked == 4


def test_a_partition_that_stays_without_a_leader_is_a_retryable_error(monkeypatch):
    monkeypatch.setattr(_kafka_admin, "_REQUEST_S", 0.3)
    with pytest.raises(IngestError, match="NOT_LEADER_FOR_PARTITION"):
        admin_of(Broker(MOVING)).log_range(0)


def test_other_errors_are_not_asked_again():
    broker = Broker(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))
    with pytest.raises(TopicNotFoundError):
        admin_of(broker).log_range(0)
    assert broker.asked == 1
