"""Boundaries of a data set: boundary files, waits, refusals, and proofs of completeness."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from tests.unit.pipeline.clicks import DAY_MS, START_MS, rewrite_sealed
from tests.unit.sources.memory_topic import MemoryTopic
from trainfeed.core.intervals import Interval
from trainfeed.errors import (
    ConflictError,
    EmptyUnprovenError,
    FormatError,
    OffsetOutOfRangeError,
    TransactionOpenError,
    WindowOpenError,
)
from trainfeed.pipeline.inputs import topics as _topic_inputs
from trainfeed.pipeline.inputs.boundaries import resolve_boundary
from trainfeed.pipeline.inputs.boundary_files import read_boundary
from trainfeed.pipeline.inputs.topics import TopicInputs, open_topics
from trainfeed.sources import PartitionState, TopicIdentity

CLOCK = START_MS + 20 * DAY_MS
WHY = "the records are gone"


def at(number):
    return datetime.fromtimestamp((START_MS + number * DAY_MS) / 1000, UTC)


def day(number, count=48):
    """``count`` stamps spread over a day, from an hour after its start on."""
    start = START_MS + number * DAY_MS + 3_600_000
    return [start + i * (DAY_MS - 3_600_000) // count for i in range(count)]


class Topic:
    """Partitions as lists of stamps, by offset; each can be grown, cut, and hidden by an LSO."""

    def __init__(self, *partitions, name="clicks", uuid="first"):
        self.identity = TopicIdentity(name, uuid, "memory")
        self.stamps = {number: list(stamps) for number, stamps in enumerate(partitions)}
        self.starts = dict.fromkeys(self.stamps, 0)
        self.stable = {}

    def partitions(self):
        return sorted(self.stamps)

    def part(self, number):
        stamps = dict(enumerate(self.stamps[number]))
        end = len(stamps)
        return MemoryTopic(
            stamps,
            log_start=self.starts.get(number, 0),
            log_end=self.stable.get(number, end),
            high_watermark=end,
        )

    def states(self):
        parts = {number: self.part(number) for number in self.stamps}
        return {
            number: PartitionState(part.log_start, part.log_end, part.high_watermark, 1)
            for number, part in parts.items()
        }

    is_compacted = False

    def offsets_at(self, times_ms):
        return {p: self.part(p).offsets_at({0: time})[0] for p, time in times_ms.items()}

    def read_stamps(self, partition, start, end, **limits):
        return self.part(partition).read_stamps(0, start, end, **limits)

    def close(self):
        pass


@pytest.fixture
def planned(project, monkeypatch):
    """Plan a day of a topic: its ranges, gaps, and why it is empty."""

    def plan(topics, number, *, allow_gap=None, current=None):
        topics = [topics] if isinstance(topics, Topic) else topics
        named = {topic.identity.topic: topic for topic in topics}
        monkeypatch.setattr(_topic_inputs, "open_source", lambda _, __, name: named[name])
        interval = Interval(at(number), at(number + 1), f"{at(number):%Y-%m-%d}")
        with open_topics(
            project.spec, project.env, project.folder, interval, clock_ms=CLOCK
        ) as windows:
            inputs = TopicInputs(project.spec, project.env, windows)
            kept, gaps = inputs.without_losses(current, allow_gap)
            ranges = {source: (each.start, each.end) for source, each in kept.items()}
            return ranges, gaps, inputs.empty_because(kept, allow_gap)

    return plan


def boundary_files(project):
    return sorted(path.name for path in (project.folder.path / "boundaries").rglob("*.json"))


def evidence_of(project, number, partition=0):
    path = project.folder.boundary("clicks", "first", at(number))
    return json.loads(path.read_bytes())["partitions"][str(partition)]["evidence"]


def test_a_boundary_file_says_what_it_rests_on(project, planned):
    planned(Topic(day(0) + day(1) + [-1] + day(2)), 1)
    evidence = evidence_of(project, 2)
    assert evidence["clock_ms"] == CLOCK
    assert (evidence["hint"], evidence["method"], evidence["proof"]) == (97, "exact", "log_start_0")
    assert (evidence["floor"], evidence["ceiling"]) == (48, None)
    assert evidence["high_watermark"] == 145
    assert evidence["left"]["last"][0] == 95
    assert evidence["right"]["first"] == [97, day(2)[0]]
    assert (evidence["left"]["minutes_wrong"], evidence["right"]["minutes_wrong"]) == (0, 0)
    assert evidence["without_evidence"] == 1


def test_a_file_without_evidence_is_read_as_before(project, planned):
    topic = Topic(day(0) + day(1) + day(2))
    planned(topic, 1)
    for number in (1, 2):
        rewrite_sealed(
            project.folder.boundary("clicks", "first", at(number)),
            lambda value: value["partitions"]["0"].pop("evidence"),
        )
    assert planned(topic, 1) == ({"kafka:clicks/0": (48, 96)}, [], {})


def test_an_end_of_the_log_without_evidence_is_refused(project, planned):
    topic = Topic(day(0) + day(1))
    planned(topic, 1)
    rewrite_sealed(
        project.folder.boundary("clicks", "first", at(2)),
        lambda value: value["partitions"]["0"].pop("evidence"),
    )
    with pytest.raises(FormatError):
        planned(topic, 1)


def test_an_open_transaction_leaves_no_boundary_file(project, planned):
    topic = Topic(day(0) + day(1) + day(2))
    topic.stable[0] = 20
    with pytest.raises(WindowOpenError, match="transaction open: topic 'clicks' partition 0 at"):
        planned(topic, 1)
    assert boundary_files(project) == []
    topic.stable.clear()
    assert planned(topic, 1)[0] == {"kafka:clicks/0": (48, 96)}


def test_an_open_transaction_behind_the_interval_is_no_obstacle(planned):
    topic = Topic(day(0) + day(1) + day(2))
    topic.stable[0] = 130
    assert planned(topic, 1)[0] == {"kafka:clicks/0": (48, 96)}


def test_all_open_transactions_of_all_topics_are_named_at_once(project, planned):
    project.edit(
        "kafka: {connection: kafka_default, topic: clicks, settle: 0s}",
        "kafka: [{topic: clicks, settle: 10m}, {topic: views, transaction_wait: 3h}, {topic: ok}]",
    )
    topics = [Topic(day(0), day(0), day(0), name=name) for name in ("clicks", "views", "ok")]
    topics[0].stable = {0: 3, 2: 5}
    topics[1].stable = {1: 7}
    with pytest.raises(TransactionOpenError) as caught:
        planned(topics, 1)
    error = caught.value
    assert len(error.places) == 6
    for place in ("'clicks' partition 0", "'clicks' partition 2", "'views' partition 1"):
        assert sum(place in each for each in error.places) == 2
        assert place in str(error)
    assert "last stable offset 7, high watermark 48" in str(error)
    assert error.wait == timedelta(hours=3)
    assert error.since == at(2) + timedelta(minutes=10)
    assert [path for path in boundary_files(project) if path] == [
        "20240302T000000Z.json",
        "20240303T000000Z.json",
    ]


def test_an_idle_partition_that_retention_has_emptied_stops_no_build(planned):
    """The boundary of the day before shows that nothing was lost."""
    topic = Topic(day(0) + day(1) + day(2) + day(3) + day(4), day(0)[:5])
    planned(topic, 1)
    topic.starts[1] = 5
    for number in (2, 3):
        ranges, gaps, _ = planned(topic, number)
        assert ranges["kafka:clicks/1"] == (5, 5)
        assert gaps == []


def test_an_offset_behind_the_log_start_is_no_proof(planned):
    """Retention ate the first day but for one late record of it: that is no proof."""
    stamps = day(0) + day(1) + day(2)
    stamps[90] = day(0)[3]
    topic = Topic(stamps)
    topic.starts[0] = 90
    with pytest.raises(OffsetOutOfRangeError, match=r"offsets \[0, 90\) may have been deleted"):
        planned(topic, 1)
    assert planned(topic, 1, allow_gap=WHY)[1] == [
        {"source": "kafka:clicks/0", "start": 0, "end": 90, "why": WHY}
    ]


def test_records_of_several_minutes_before_the_day_are_proof(project, planned):
    topic = Topic(day(0) + day(1) + day(2))
    topic.starts[0] = 40
    assert planned(topic, 1)[:2] == ({"kafka:clicks/0": (48, 96)}, [])
    assert evidence_of(project, 1)["proof"] == "minutes"


def test_late_records_that_are_left_later_prove_no_boundary(planned):
    """The records next to the first log start said that the day had begun; now they are gone."""
    late = [START_MS + DAY_MS + i * 3_600_000 for i in range(20)]
    topic = Topic(day(2)[:15] + late)
    for log_start in (10, 15):
        topic.starts[0] = log_start
        with pytest.raises(OffsetOutOfRangeError, match=r"offsets \[0, 10\) may have been deleted"):
            planned(topic, 2)


def test_a_loss_before_a_boundary_that_nothing_proves_is_named_whole(planned):
    topic = Topic(day(0) + day(1) + day(2) + day(3))
    topic.starts[0] = 60
    with pytest.raises(OffsetOutOfRangeError, match=r"\[0, 60\) may have been deleted"):
        planned(topic, 1)
    topic.starts[0] = 80
    with pytest.raises(OffsetOutOfRangeError, match=r"\[0, 80\) may have been deleted"):
        planned(topic, 1)


def test_what_was_appended_before_a_day_is_no_loss_of_it(project, planned):
    """An idle partition whose first boundary nothing proves stops the first build only."""
    topic = Topic(day(0)[:10])
    topic.starts[0] = 10
    clocks = iter([at(2), at(3)])
    interval = lambda n: Interval(at(n), at(n + 1), f"{at(n):%Y-%m-%d}")  # noqa: E731
    ms = lambda time: int(time.timestamp() * 1000)  # noqa: E731
    resolve_boundary(project.folder, topic, at(1), skew_ms=0, clock_ms=ms(next(clocks)))
    resolve_boundary(project.folder, topic, at(2), skew_ms=0, clock_ms=ms(next(clocks)))
    resolve_boundary(project.folder, topic, at(3), skew_ms=0, clock_ms=ms(at(4)))
    assert interval(1).end == at(2)
    assert [evidence_of(project, n)["proof"] for n in (1, 2, 3)] == [
        None, None, "appended_before",
    ]  # fmt: skip


def test_an_interval_is_empty_where_the_log_ended_before_its_end(planned):
    topic = Topic(day(0), day(0))
    ranges, _, because = planned(topic, 3)
    assert set(ranges.values()) == {(48, 48)}
    assert because == {"kafka:clicks/0": "log_end", "kafka:clicks/1": "log_end"}


def test_an_interval_is_empty_where_the_next_record_is_later(planned):
    assert planned(Topic(day(0) + day(7)), 3)[2] == {"kafka:clicks/0": "later_record"}


def test_an_interval_between_equal_boundaries_is_empty(planned):
    topic = Topic(day(0) + day(7))
    planned(topic, 1)
    planned(topic, 5)
    assert planned(topic, 3)[2] == {"kafka:clicks/0": "no_offset"}


def test_one_partition_with_records_is_no_empty_interval(planned):
    assert planned(Topic(day(0), day(1)), 1)[2] == {}


def test_an_empty_interval_that_nothing_shows_is_refused(project, planned):
    """Files without evidence say that the day has no record, and its records are there."""
    topic = Topic(day(0) + day(1) + day(2))
    planned(topic, 1)
    for number in (1, 2):
        path = project.folder.boundary("clicks", "first", at(number))
        found = {"offset": 48, "record_timestamp_ms": day(1)[0], "method": "scan"}
        rewrite_sealed(path, lambda value: unproved(value["partitions"]["0"], found))  # noqa: B023
    with pytest.raises(EmptyUnprovenError, match=r"kafka:clicks/0: both boundaries are offset 48"):
        planned(topic, 1)
    assert planned(topic, 1, allow_gap=WHY)[2] == {"kafka:clicks/0": f"unproven, allowed: {WHY}"}


def unproved(partition, found):
    """Give a partition of a file other facts, and no evidence for them."""
    partition.update(found)
    del partition["evidence"]


def read_days(planned, topic, numbers):
    """Plan days in some order; return how often each offset of each partition is read."""
    counts = {number: np.zeros(len(stamps), int) for number, stamps in topic.stamps.items()}
    for number in numbers:
        for source, (start, end) in planned(topic, number)[0].items():
            counts[int(source.rpartition("/")[2])][start:end] += 1
    return counts


@pytest.mark.parametrize("before", [[3], [2, 3], [0], [0, 1], [1, 3], [3, 0]])
@pytest.mark.parametrize("after", [[0, 1, 2, 3, 4, 5], [5, 4, 3, 2, 1, 0], [2, 0, 5, 4, 1, 3]])
def test_a_partition_that_is_added_between_builds_is_read_once(planned, before, after):
    """Its records carry stamps of days that were built before it was there."""
    topic = Topic(day(0) + day(1) + day(2) + day(3) + day(4))
    first = read_days(planned, topic, before)
    topic.stamps[1] = day(0) + day(1) + day(2) + day(3) + day(4)
    topic.starts[1] = 0
    counts = read_days(planned, topic, [number for number in after if number not in before])
    again = read_days(planned, topic, before)
    assert set((first[0] + counts[0]).tolist()) == {1}
    assert set((counts[1] + again[1]).tolist()) == {1}


def test_boundaries_that_lost_a_partition_are_refused(project, planned):
    topic = Topic(day(0) + day(1) + day(2), day(0) + day(1) + day(2))
    planned(topic, 1)
    path = project.folder.boundary("clicks", "first", at(2))
    rewrite_sealed(path, lambda value: value["partitions"].pop("1"))
    with pytest.raises(ConflictError, match="partition 1 are in the wrong order: 48 at"):
        planned(topic, 1)


def test_the_day_on_which_a_topic_was_created_anew_stops_once(planned):
    """Records of the deleted topic belong to it, and nothing holds them any more."""
    planned(Topic(day(0) + day(1)), 0)
    new = Topic(day(1)[30:] + day(2) + day(3) + day(4), uuid="second")
    with pytest.raises(OffsetOutOfRangeError, match="was deleted and created again"):
        planned(new, 1)
    assert planned(new, 1, allow_gap=WHY)[:2] == ({"kafka:clicks/0": (0, 18)}, [])
    assert planned(new, 2)[:2] == ({"kafka:clicks/0": (18, 66)}, [])


def test_records_before_the_first_boundary_of_a_topic_created_anew_are_named(planned):
    planned(Topic(day(0) + day(1)), 0)
    new = Topic(day(0)[:5] + day(2) + day(3), uuid="second")
    with pytest.raises(OffsetOutOfRangeError, match=r"offsets \[0, 5\) may have been deleted"):
        planned(new, 2)


def file_of(project, number):
    return project.folder.boundary("clicks", "first", at(number))


def test_no_changed_byte_of_a_boundary_file_is_believed(project, planned):
    planned(Topic(day(0) + day(1) + day(2), day(1)), 1)
    path = file_of(project, 2)
    data = path.read_bytes()
    path.unlink()
    for place in range(len(data)):
        path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        with pytest.raises(FormatError):
            read_boundary(path)
    for length in range(0, len(data), 7):
        path.write_bytes(data[:length])
        with pytest.raises(FormatError):
            read_boundary(path)


def test_the_boundary_file_of_another_time_topic_or_data_set_is_refused(project, planned):
    topics = [Topic(day(0) + day(1) + day(2), name=name) for name in ("clicks", "views")]
    project.edit(
        "kafka: {connection: kafka_default, topic: clicks, settle: 0s}",
        "kafka: [{topic: clicks}, {topic: views}]",
    )
    planned(topics, 1)
    others = [
        project.folder.boundary("clicks", "first", at(1)),
        project.folder.boundary("views", "first", at(2)),
    ]
    path = file_of(project, 2)
    data = path.read_bytes()
    for other in others:
        path.unlink()
        path.write_bytes(other.read_bytes())
        with pytest.raises(FormatError):
            planned(topics, 1)
    for name in ("clicks/boundaries/clicks/second", "other/boundaries/clicks/first"):
        copy = project.folder.root / name / path.name
        copy.parent.mkdir(parents=True)
        copy.write_bytes(data)
        with pytest.raises(FormatError):
            read_boundary(copy)


def test_a_boundary_of_another_cluster_is_refused(project, planned):
    topic = Topic(day(0) + day(1) + day(2))
    planned(topic, 1)
    topic.identity = TopicIdentity("clicks", "first", "another")
    with pytest.raises(FormatError):
        planned(topic, 1)


@pytest.mark.parametrize("moved", [-5, -1, 1, 3, 5])
@pytest.mark.parametrize("number", [1, 2, 3])
def test_an_offset_that_contradicts_its_own_evidence_is_refused(project, planned, moved, number):
    """Found by the index, by comparing all records, and at the end of the log."""
    topic = Topic(day(0) + day(1) + [START_MS + DAY_MS + 1000, -1] + day(2))
    for each in (1, 2):
        planned(topic, each)

    def change(value):
        value["partitions"]["0"]["offset"] += moved

    rewrite_sealed(file_of(project, number), change)
    with pytest.raises(FormatError):
        planned(topic, min(number, 2))


def test_a_boundary_file_without_one_of_its_partitions_is_refused(project, planned):
    topic = Topic(*[day(0) + day(1) + day(2)] * 3)
    planned(topic, 1)
    rewrite_sealed(file_of(project, 1), lambda value: value["partitions"].pop("1"))
    with pytest.raises(FormatError):
        planned(topic, 1)
