"""Plays a history on a real broker, with a producer and an admin client.

Offsets must be those of the history, markers included; every acknowledgement is compared with
it. The broker itself decides which records its cleaner removes; reading shows which ones.
"""

from __future__ import annotations

import dataclasses
import time
import uuid
from collections import defaultdict
from itertools import count

import numpy as np
from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic, OffsetSpec

from tests.model.histories import History
from tests.model.partition_log import NEVER
from trainfeed.sources import KafkaTopic

__all__ = ["PlayedTopic", "playable"]

_WAIT_S = 60
_CLEANER_S = 10
# Right after a topic was replaced a client may still ask for the one before.
_OTHER_LEADER = frozenset(
    {
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.UNKNOWN_LEADER_EPOCH,
    }
)
_ANY_TIME = str((1 << 63) - 1)
_COMPACT = {
    "cleanup.policy": "compact,delete",
    "retention.ms": "-1",
    "segment.ms": "3600000",
    "min.cleanable.dirty.ratio": "0.001",
    "delete.retention.ms": "0",
    "segment.index.bytes": "4096",
}


def playable(history):
    """Return the history as a broker can play it: it cleans and makes segments by itself."""
    topics = []
    for topic in history.incarnations:
        logs = {}
        for number, log in topic.partitions.items():
            entries = dataclasses.replace(log.entries, compacted=np.full(len(log.entries), NEVER))
            logs[number] = dataclasses.replace(log, entries=entries, segments=np.array([0]))
        topics.append(dataclasses.replace(topic, partitions=logs))
    return dataclasses.replace(history, incarnations=tuple(topics), step=0)


class PlayedTopic:
    """The topic of a playable history on a broker, as far as it was played.

    Args:
        servers: Where the broker is.
        history: The history to play.
        compact: Whether a cleaner is at work.
    """

    def __init__(self, servers, history: History, *, compact):
        self._servers = servers
        self._history = history
        self._admin = AdminClient({"bootstrap.servers": servers})
        self.compact = compact
        self._incarnation = self._seen = None
        self._past = ()
        self._now = None
        self._partitions = {}
        self._names = count()
        self._cleaned = defaultdict(set)
        self.plain = None
        self.name = f"model-{uuid.uuid4().hex[:12]}"

    def open(self, now):
        """Play on until ``now`` and return the topic as trainfeed opens it."""
        self.play(now)
        return KafkaTopic({"bootstrap.servers": self._servers}, self.name)

    @staticmethod
    def read(topic, partition, start, end):
        """Return offsets and stamps of the records that a range holds now."""
        batches = list(topic.iter_batches(partition, start, end))
        columns = (
            [batch.column(name).to_numpy() for batch in batches] for name in ("offset", "timestamp")
        )
        return tuple(np.concatenate([*parts, np.empty(0, np.int64)]) for parts in columns)

    def play(self, now):
        """Let everything happen that happened by ``now``."""
        self._now = now
        for topic in self._history.incarnations:
            if topic.created <= now and topic not in self._past:
                self._become(topic)
                self._play(topic, min(now, topic.deleted - 1))

    def wait_for_cleaner(self):
        """Return when the cleaner has taken something away from every partition with two segments.

        What it does not take within its interval, it never will.
        """
        end = time.monotonic() + _CLEANER_S
        while time.monotonic() < end and not all(
            self._is_cleaned(*item) for item in self._incarnation.partitions.items()
        ):
            pass

    def _is_cleaned(self, number, log):
        if number not in self._partitions:
            return True
        return len(self.survivors(number)) < len(log.at(self._now).offsets)

    def transactional(self):
        """Return a producer with a transactional id of its own."""
        name = f"{self.name}-{next(self._names)}"
        producer = self._producer({"transactional.id": name, "transaction.timeout.ms": 900_000})
        producer.init_transactions(_WAIT_S)
        return producer

    def drop(self):
        """Delete the topic."""
        for number, partition in self._partitions.items():
            self._hold(number, partition.log)
        self._release()
        self._wait(self._admin.delete_topics([self.name], operation_timeout=_WAIT_S))

    def cleaned(self, uuid, partition):
        """Return the offsets that the cleaner took away, of a topic that was dropped."""
        return sorted(self._cleaned[uuid, partition])

    def _hold(self, number, log):
        """Hold what an independent consumer reads now against the log, and keep what was cleaned.

        Once records are deleted, or their topic is, nobody can tell any more.
        """
        span = TopicPartition(self.name, number)
        low = self._offset(span, OffsetSpec.earliest(), IsolationLevel.READ_COMMITTED)
        expected = np.flatnonzero(log.entries.is_record[: self.ends(number)[0]])
        expected = set(expected[expected >= low].tolist())
        found = self.survivors(number)
        assert found.keys() <= expected
        assert all(log.entries.stamps[offset] == stamp for offset, stamp in found.items())
        gone = expected - found.keys()
        assert self.compact or not gone
        self._cleaned[self._incarnation.uuid, number] |= gone

    def survivors(self, partition):
        """Return offset → stamp of what an independent consumer reads of a partition now."""
        consumer = Consumer({
            "bootstrap.servers": self._servers, "group.id": "none", "enable.auto.commit": False,
            "enable.partition.eof": True, "isolation.level": "read_committed",
            "auto.offset.reset": "error",
        })  # fmt: skip
        low, _ = consumer.get_watermark_offsets(TopicPartition(self.name, partition), _WAIT_S)
        consumer.assign([TopicPartition(self.name, partition, low)])
        found, is_end = {}, False
        while not is_end:
            message = consumer.poll(_WAIT_S)
            assert message is not None, "the broker did not answer"
            if message.error() is None:
                found[message.offset()] = message.timestamp()[1]
            # Right after a topic was replaced a client may be told that it does not know it.
            is_end = message.error() and message.error().code() == KafkaError._PARTITION_EOF
        consumer.close()
        return found

    def ends(self, partition):
        """Return the last stable offset and the high watermark."""
        span = TopicPartition(self.name, partition)
        return tuple(
            self._offset(span, OffsetSpec.latest(), level)
            for level in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED)
        )

    def _offset(self, span, spec, level):
        found = []

        def is_told():
            answers = self._admin.list_offsets({span: spec}, isolation_level=level)
            try:
                found.append(answers[span].result(_WAIT_S).offset)
            except KafkaException as error:
                if error.args[0].code() not in _OTHER_LEADER:
                    raise
            return found

        self.until(is_told)
        return found[0]

    def _become(self, topic):
        if self._incarnation is topic:
            return
        if self._incarnation is not None:
            self._past = (self._incarnation,)
            self._seen = self._topic_id()
            self.drop()
        self._incarnation = topic
        settings = {"message.timestamp.after.max.ms": _ANY_TIME}
        number = sum(log.created <= topic.created for log in topic.partitions.values())
        new = NewTopic(self.name, number, 1, config=settings | (_COMPACT if self.compact else {}))
        # One of that name may still be being deleted.
        self.until(lambda: not self._admin.create_topics([new])[self.name].exception(_WAIT_S))
        # The broker may still show, and fill, the topic that is being deleted.
        self.until(lambda: self._topic_id() not in {None, self._seen})
        self._until_there(number)
        self.plain = self._producer({"enable.idempotence": True})
        self._partitions = {}

    def _topic_id(self):
        """Return the id that the broker shows for the name, or None."""
        answer = self._admin.describe_topics(TopicCollection([self.name]))[self.name]
        return None if answer.exception(_WAIT_S) else str(answer.result().topic_id)

    def _until_there(self, number):
        def there():
            topics = self._admin.list_topics(self.name, timeout=_WAIT_S).topics
            return len(topics[self.name].partitions) == number

        self.until(there)

    @staticmethod
    def until(condition):
        end = time.monotonic() + _WAIT_S
        while not condition():
            assert time.monotonic() < end, "the broker did not get there in time"

    def _play(self, topic, now):
        for number, log in topic.partitions.items():
            if log.created > now:
                continue
            if number not in self._partitions:
                self._partitions[number] = _Partition(self, number, log)
                if log.created > topic.created:
                    self._add_partition(number)
            self._partitions[number].play(now)

    def _add_partition(self, number):
        self._wait(self._admin.create_partitions([NewPartitions(self.name, number + 1)]))
        self._until_there(number + 1)
        # One that knows the topic with fewer partitions would refuse the new one for minutes.
        self.plain = self._producer({"enable.idempotence": True})

    def _producer(self, more):
        return Producer({"bootstrap.servers": self._servers, "linger.ms": 0, **more})

    def delete(self, partition, log, first):
        """Delete the records before an offset."""
        self._hold(partition, log)
        span = TopicPartition(self.name, partition, first)
        self._wait(self._admin.delete_records([span]))

    def _release(self):
        for partition in self._partitions.values():
            partition.release()

    @staticmethod
    def _wait(answers):
        for answer in answers.values():
            answer.result(_WAIT_S)


class _Partition:
    """One partition, played up to entry ``_next`` and deletion ``_num_deletions``."""

    def __init__(self, topic, number, log):
        self._topic = topic
        self._number = number
        self.log = log
        self._next = self._num_deletions = 0
        self._open = {}
        self._free = []
        self._failures = []
        self._last = None

    def play(self, now):
        for when, first in self.log.deletions[self._num_deletions :]:
            if when <= now:
                self._entries(when)
                self._topic.delete(self._number, self.log, first)
                self._num_deletions += 1
        self._entries(now)

    def release(self):
        for producer in self._open.values():
            producer.abort_transaction(_WAIT_S)
        self._open = {}

    def _entries(self, now):
        end = int(np.searchsorted(self.log.entries.arrived, now, "right"))
        for offset in range(self._next, end):
            if self.log.entries.is_marker[offset]:
                self._finish(offset)
            else:
                self._append(offset)
        self._next = max(self._next, end)
        self._flush(None)
        assert not self._failures, [f"{o}: {e}, at {at}" for o, e, at in self._failures[:3]]

    def _append(self, offset):
        txn = int(self.log.entries.txn[offset])
        producer = self._topic.plain if txn < 0 else self._begun(txn)
        self._flush(producer)
        producer.produce(
            self._topic.name,
            value=b"%d" % offset,
            key=b"%d" % (offset % 7) if self._topic.compact else None,
            partition=self._number,
            timestamp=int(self.log.entries.stamps[offset]),
            on_delivery=lambda error, message: self._delivered(error, message, offset),
        )
        producer.poll(0)
        if self._topic.compact:
            # A segment ends between two batches, and only where it has ended is it cleaned.
            self._flush(None)

    def _delivered(self, error, message, offset):
        if error is not None or message.offset() != offset:
            self._failures.append((offset, error, message.offset()))

    def _flush(self, following):
        """Let what was produced be appended before another producer appends."""
        if self._last is not None and self._last is not following:
            assert self._last.flush(_WAIT_S) == 0
        self._last = following

    def _begun(self, txn):
        if txn not in self._open:
            self._open[txn] = self._free.pop() if self._free else self._topic.transactional()
            self._open[txn].begin_transaction()
        return self._open[txn]

    def _finish(self, offset):
        self._flush(None)
        producer = self._open.pop(int(self.log.entries.txn[offset]))
        if self.log.entries.committed[offset]:
            producer.commit_transaction(_WAIT_S)
        else:
            producer.abort_transaction(_WAIT_S)
        self._free.append(producer)
        # The coordinator has answered; the marker is written when it gets to that, and readers of
        # committed records go on a moment after the high watermark.
        expected = self._stable_behind(offset), offset + 1
        self._topic.until(lambda: self._topic.ends(self._number) == expected)

    def _stable_behind(self, marker):
        """Return the last stable offset when this marker was written."""
        is_open = np.isin(self.log.entries.txn[:marker], list(self._open))
        return int(np.argmax(is_open)) if is_open.any() else marker + 1
