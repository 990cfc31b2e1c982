"""Boundaries on a real broker, where its time index, its cleaner and its transactions mislead."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest

from trainfeed.core import canonical_json
from trainfeed.core.config import Environment, KafkaSettings
from trainfeed.core.intervals import Interval
from trainfeed.errors import TransactionOpenError
from trainfeed.pipeline.inputs.boundaries import resolve_boundary
from trainfeed.pipeline.inputs.topics import TopicInputs, open_topics
from trainfeed.specification import load_spec
from trainfeed.versions import DatasetFolder, init_root

HOUR = 3_600_000
DAY = 24 * HOUR
START = 1_704_067_200_000  # 2024-01-01
YEAR_2099 = 4_070_908_800_000
ANY_TIME = {"message_timestamp_after_max_ms": (1 << 63) - 1}

SPEC = """
name: nightly
schedule: "@daily"
start: 2024-01-01
source: {kafka: {topic: TOPIC, settle: 0s}}
preprocess: {function: "preprocess:row"}
schema: {value: {dtype: int64}}
"""


def at(number):
    return datetime.fromtimestamp((START + number * DAY) / 1000, UTC)


def day(number, count=300):
    return [START + number * DAY + i * DAY // count for i in range(count)]


def records(stamps, **more):
    return [{"value": b"%d" % i, "timestamp": stamp, **more} for i, stamp in enumerate(stamps)]


class Nightly:
    """A data set over one topic of the broker, planned day by day."""

    def __init__(self, broker, name, path: Path):
        (path / "nightly").mkdir(exist_ok=True)
        (path / "nightly" / "dataset.yaml").write_text(SPEC.replace("TOPIC", name))
        (path / "nightly" / "preprocess.py").write_text("def row(record, lookups): ...\n")
        self.spec = load_spec(path / "nightly")
        self.folder = DatasetFolder(path / "root", "nightly")
        self.env = Environment(
            root=str(path / "root"),
            landing=str(path / "landing"),
            work=str(path / "work"),
            kafka={"kafka_default": KafkaSettings(client={"bootstrap.servers": broker.servers})},
            datasets=path,
        )

    def plan(self, number):
        """Return per partition the range of a day, the gaps, and why it is empty."""
        interval = Interval(at(number), at(number + 1), f"{at(number):%Y-%m-%d}")
        with open_topics(self.spec, self.env, self.folder, interval) as windows:
            inputs = TopicInputs(self.spec, self.env, windows)
            kept, gaps = inputs.without_losses(None, None)
            ranges = {planned.partition: (planned.start, planned.end) for planned in kept.values()}
            return ranges, gaps, inputs.empty_because(kept, None)

    def ranges(self, days):
        return [self.plan(number)[0][0] for number in days]


@pytest.fixture
def nightly(broker, tmp_path):
    return lambda name: Nightly(broker, name, tmp_path)


@pytest.mark.parametrize("stamp", [YEAR_2099, 1000 * (START + DAY + HOUR)])
@pytest.mark.parametrize("length", [999, 1000, 3000])
@pytest.mark.parametrize("days", [[0, 1, 2, 3, 4], [4, 3, 2, 1, 0]])
def test_a_burst_stamped_ahead_empties_no_later_day(broker, nightly, stamp, length, days):
    """Stamps of 2099, and microseconds where milliseconds were meant."""
    name = broker.create(**ANY_TIME)
    burst = [stamp] * length
    stamps = [*day(-1), *day(0), *day(1)[:150], *burst, *day(1)[150:], *day(2), *day(3), *day(4)]
    broker.produce(name, records(stamps))
    found = dict(zip(days, nightly(name).ranges(days), strict=True))
    edges = [300, 600, 900 + length, 1200 + length, 1500 + length, 1800 + length]
    assert [found[number] for number in range(5)] == list(pairwise(edges))


@pytest.fixture
def compacted(broker):
    """Name a topic of three days whose time index answers that it has no position."""
    name = broker.create(
        cleanup_policy="compact", segment_bytes=1 << 20, min_cleanable_dirty_ratio=0.01
    )
    stamps = [*day(0, 3000), *day(1, 3000), *day(2, 3000)]
    keyed = [
        {"value": b"v" * 1000, "key": b"%d" % (i % 400), "timestamp": stamp}
        for i, stamp in enumerate(stamps)
    ]
    broker.produce(name, keyed)
    with broker.open(name) as topic:
        broker.until(lambda: topic.offsets_at({0: START + DAY})[0] is None, 120)
    return name


def test_a_compacted_topic_is_not_empty(broker, nightly, compacted):
    with broker.open(compacted) as topic:
        found = read_all(topic)
    ranges = nightly(compacted).ranges([0, 1, 2])
    held = [sum(start <= offset < end for start, end in ranges) for offset in found.offsets]
    assert 0 < len(held) < 9000
    assert held == [1] * len(held)


def write_at_the_end(project, topic, number):
    """Write a wrong boundary file, as of a restored boundary: the log's end."""
    log_start, log_end = topic.log_range(0)
    index = topic.offsets_at({0: START + number * DAY})[0]
    assert index is None
    value = {
        "at": f"{at(number):%Y-%m-%dT%H:%M:%SZ}",
        "found_at": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
        "topic": topic.identity.topic,
        "topic_uuid": topic.identity.uuid,
        "cluster": topic.identity.cluster,
        "partitions": {
            "0": {
                "offset": log_end,
                "log_start": log_start,
                "log_end": log_end + 1,
                "record_timestamp_ms": None,
                "leader_epoch": 0,
                "method": "scan",
            }
        },
    }
    path = project.folder.boundary(topic.identity.topic, topic.identity.uuid, at(number))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(canonical_json.seal(canonical_json.dumps(value).removesuffix(b"}")))


def read_all(topic):
    return topic.read_stamps(0, *topic.log_range(0), max_records=20_000)


def check(project):
    """Run ``python -m trainfeed boundaries check`` and return its status and report."""
    env = project.env
    settings = {
        "TRAINFEED_ROOT": env.root,
        "TRAINFEED_LANDING": env.landing,
        "TRAINFEED_WORK": env.work,
        "TRAINFEED_DATASETS": str(env.datasets),
        "TRAINFEED_KAFKA": env.kafka["kafka_default"].client["bootstrap.servers"],
    }
    command = [sys.executable, "-m", "trainfeed", "boundaries", "check", "nightly", "--json"]
    done = subprocess.run(command, env=os.environ | settings, capture_output=True, check=False)
    return done.returncode, json.loads(done.stdout)


def test_wrong_boundaries_of_a_compacted_topic_are_named(broker, nightly, compacted):
    project = nightly(compacted)
    init_root(Path(project.env.root))
    with broker.open(compacted) as topic:
        for number in (1, 2):
            write_at_the_end(project, topic, number)
        end = topic.log_range(0)[1]
        before = read_all(topic)
        status, report = check(project)
        # The cleaner goes on meanwhile.
        after = read_all(topic)
    assert [file["verdict"] for file in report["files"]] == ["differs", "differs"]
    for number, file in enumerate(report["files"], start=1):
        (difference,) = file["partitions"]
        behind = [seen.offsets[seen.stamps >= START + number * DAY] for seen in (before, after)]
        assert difference["stored"] == end
        is_before = after.stamps < START + number * DAY
        assert after.offsets[is_before].max(initial=-1) < difference["found"] <= behind[1][0]
        assert len(behind[0]) >= difference["records"] >= len(behind[1]) > 0
    (repair,) = report["repairs"]
    assert (status, repair["intervals"]) == (3, [f"{at(n):%Y-%m-%d}" for n in (0, 1, 2)])


def test_an_idle_partition_that_retention_has_emptied_stops_no_build(broker, nightly):
    name = broker.create(partitions=2)
    broker.produce(name, records([*day(0), *day(1), *day(2), *day(3), *day(4)]))
    broker.produce(name, records(day(-1, 5)), partition=1)
    project = nightly(name)
    project.plan(0)
    broker.delete_records(name, 5, partition=1)
    for number in (1, 2, 3):
        ranges, gaps, _ = project.plan(number)
        assert (ranges[1], gaps) == ((5, 5), [])
        assert ranges[0] == (300 * number, 300 * number + 300)


def test_an_open_transaction_is_named_and_leaves_no_boundary(broker, nightly):
    name = broker.create()
    broker.produce(name, records(day(0)[:100]))
    producer = broker.producer(transactional_id=name)
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(name, value=b"open", partition=0, timestamp=day(0)[100])
    producer.flush(30)
    broker.produce(name, records([*day(0)[101:], *day(1), *day(2)]))
    project = nightly(name)
    pattern = rf"transaction open: topic '{name}' partition 0 .*offset 100, high watermark 900"
    with pytest.raises(TransactionOpenError, match=pattern):
        project.plan(1)
    assert list(project.folder.path.rglob("*Z.json")) == []
    producer.commit_transaction(30)
    with broker.open(name) as topic:
        # The marker lies at the end; it is written a moment after the commit was answered.
        broker.until(lambda: topic.log_range(0)[1] == 901)
    assert project.ranges([0, 1]) == [(0, 300), (300, 600)]


@pytest.mark.nightly
def test_a_hundred_partitions_are_asked_together(broker, tmp_path):
    """Every partition is right; how long it takes is measured elsewhere."""
    name = broker.create(partitions=100)
    for partition in range(100):
        broker.produce(name, records([*day(0, 60), *day(1, 60 + partition)]), partition=partition)
    with broker.open(name) as topic:
        boundary = resolve_boundary(DatasetFolder(tmp_path, "many"), topic, at(1), skew_ms=DAY)
    assert {boundary.offset(partition) for partition in range(100)} == {60}
