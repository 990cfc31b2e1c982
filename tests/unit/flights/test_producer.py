"""Making the topic of the replay: a broker hears of it later than the controller that made it."""

from __future__ import annotations

from concurrent.futures import Future

import pytest

from examples.flights import producer
from trainfeed.errors import IngestError


@pytest.fixture
def answers(monkeypatch):
    """What the broker answers to "is it there?", in turn; the controller makes every topic."""

    class Controller:
        def __init__(self, settings):
            pass

        def create_topics(self, topics, **_):
            made = Future()
            made.set_result(None)
            return {topic.topic: made for topic in topics}

    said = []
    monkeypatch.setattr(producer, "AdminClient", Controller)
    monkeypatch.setattr(producer, "_exists", lambda *_: said.pop(0))
    monkeypatch.setattr(producer, "_LOOK_S", 0)
    return said


def test_a_topic_that_the_broker_does_not_know_yet_is_waited_for(answers):
    answers += [False, False, True]
    producer._make_topic("broker:9092", "flights")
    assert answers == []


def test_a_topic_that_the_broker_never_hears_of_is_told(answers, monkeypatch):
    answers += [False]
    monkeypatch.setattr(producer, "_TIMEOUT_S", -1)
    with pytest.raises(IngestError, match=r"did not know it within .*; nothing was sent"):
        producer._make_topic("broker:9092", "flights")
