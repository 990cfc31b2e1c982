"""Recorded topics: the files, and that they read like a topic of a broker."""

from __future__ import annotations

import json
import shutil

import pyarrow as pa
import pytest

from trainfeed.core.config import KafkaSettings
from trainfeed.errors import (
    ChecksumError,
    ConfigError,
    ConflictError,
    FormatError,
    OffsetOutOfRangeError,
    SourceReplacedError,
    TopicNotFoundError,
)
from trainfeed.files.stores import Location
from trainfeed.sources import (
    LANDING_SCHEMA,
    KafkaTopic,
    PartitionState,
    RecordedTopic,
    TopicIdentity,
    find_boundaries,
    open_topic,
    record_topic,
)
from trainfeed.sources.landing import LandingFile

MINUTE = 60_000
DAY = 1440 * MINUTE
START = 1_356_998_400_000  # 2013-01-01
UUID = "dGhlIHJlY29yZGluZw"


def records(offsets, *, stamp=lambda offset: START + offset * MINUTE):
    rows = [
        {
            "offset": offset,
            "timestamp": stamp(offset),
            "timestamp_type": 1,
            "key": b"key %d" % offset,
            "value": b"value %d" % offset,
            "headers": [],
        }
        for offset in offsets
    ]
    return pa.RecordBatch.from_pylist(rows, schema=LANDING_SCHEMA)


@pytest.fixture
def location(tmp_path):
    return Location.parse(str(tmp_path / "flights"))


@pytest.fixture
def topic(location):
    """Partition 0 holds even offsets 10 to 208 in four files, partition 1 nothing."""
    batches = [records(range(10, 80, 2)), records([]), records(range(80, 210, 2))]
    record_topic(location, "flights", UUID, {0: batches, 1: []}, 30)
    with RecordedTopic(location) as topic:
        yield topic


def offsets_of(batches):
    return [offset for batch in batches for offset in batch.column("offset").to_pylist()]


def stamps_of(topic, partition, start, end):
    found = topic.read_stamps(partition, start, end, max_records=1000)
    assert found.reached == end
    return list(zip(found.offsets.tolist(), found.stamps.tolist(), strict=True))


def test_a_folder_holds_landing_files_and_a_description(topic, tmp_path):
    folder = tmp_path / "flights"
    assert (folder / "TOPIC.json").read_text() == (
        '{"partitions":[{"end":209,"start":10},{"end":0,"start":0}],'
        f'"topic":"flights","uuid":"{UUID}"}}'
    )
    assert sorted(path.name for path in (folder / "p=0").iterdir()) == [
        "00000000000000000010-00000000000000000069.arrow",
        "00000000000000000069-00000000000000000129.arrow",
        "00000000000000000129-00000000000000000189.arrow",
        "00000000000000000189-00000000000000000209.arrow",
    ]
    assert list((folder / "p=1").iterdir()) == []


def test_it_is_described_like_a_topic_of_a_broker(topic):
    assert topic.identity == TopicIdentity("flights", UUID, "recorded")
    assert topic.partitions() == [0, 1]
    assert topic.log_range(0) == (10, 209)
    assert topic.log_range(1) == (0, 0)
    assert topic.states()[0] == PartitionState(10, 209, 209, None)


@pytest.mark.parametrize("start", [10, 11, 68, 69, 70, 128, 130, 208, 209])
@pytest.mark.parametrize("end", [10, 11, 69, 70, 129, 190, 208, 209])
def test_a_range_gives_exactly_its_records(topic, start, end):
    if start <= end:
        batches = list(topic.iter_batches(0, start, end))
        assert offsets_of(batches) == [o for o in range(10, 210, 2) if start <= o < end]
        assert all(batch.num_rows for batch in batches)


def test_records_come_back_whole(topic):
    (batch,) = topic.iter_batches(0, 100, 104)
    assert batch.equals(records([100, 102]))


def test_an_empty_range_of_an_empty_partition_has_no_records(topic):
    assert list(topic.iter_batches(1, 0, 0)) == []
    assert stamps_of(topic, 1, 0, 0) == []
    assert topic.offsets_at({1: START}) == {1: None}


def test_stamps_are_those_of_the_records(topic):
    expected = [(offset, START + offset * MINUTE) for offset in range(130, 210, 2)]
    assert stamps_of(topic, 0, 129, 209) == expected
    assert stamps_of(topic, 0, 129, 150) == expected[:10]


@pytest.mark.parametrize(("most", "reached"), [(1, 131), (3, 135), (35, 199), (39, 207), (40, 209)])
def test_stamps_end_at_the_limit_and_say_how_far_they_reach(topic, most, reached):
    found = topic.read_stamps(0, 129, 209, max_records=most)
    assert (len(found.offsets), found.reached) == (most, reached)
    assert len(topic.read_stamps(0, 129, 209, max_records=most, max_bytes=1).offsets) == 1


@pytest.mark.parametrize(
    ("minutes", "expected"), [(-5, 10), (10, 10), (11, 12), (127, 128), (129, 130), (208, 208)]
)
def test_the_index_answers_with_the_first_record_at_or_after_a_time(topic, minutes, expected):
    assert topic.offsets_at({0: START + minutes * MINUTE}) == {0: expected}
    assert topic.offsets_at({0: START + 209 * MINUTE}) == {0: None}


def test_a_record_stamped_ahead_answers_for_every_later_time_as_a_broker_would(location):
    """KA-14."""
    ahead = records(range(1000), stamp=lambda o: 4_070_908_800_000 if o == 3 else START + o)
    record_topic(location, "flights", UUID, {0: [ahead]}, 100)
    topic = RecordedTopic(location)
    assert topic.offsets_at({0: START + 500}) == {0: 3}
    found = find_boundaries(topic, START + MINUTE, skew_ms=100, clock_ms=START + DAY, known={})
    boundary = found[0]
    assert (boundary.offset, boundary.method, boundary.leader_epoch) == (1000, "end", None)


def test_stamps_stay_in_memory_for_the_next_opening_of_the_topic(topic, location, monkeypatch):
    before = stamps_of(topic, 0, 129, 209)
    monkeypatch.setattr(LandingFile, "iter_stamps", lambda _: pytest.fail("read again"))
    assert stamps_of(RecordedTopic(location), 0, 129, 209) == before


def test_another_recording_with_the_same_names_has_stamps_of_its_own(topic, location, tmp_path):
    assert topic.offsets_at({0: START}) == {0: 10}
    shutil.rmtree(tmp_path / "flights")
    later = records(range(10, 210, 2), stamp=lambda offset: START - DAY + offset)
    record_topic(location, "flights", UUID[::-1], {0: [later], 1: []}, 30)
    assert RecordedTopic(location).offsets_at({0: START}) == {0: None}


def test_offsets_outside_of_the_recording_are_refused(topic):
    with pytest.raises(OffsetOutOfRangeError, match=r"'flights' partition 0 .*\[5, 10\)"):
        list(topic.iter_batches(0, 5, 20))
    with pytest.raises(OffsetOutOfRangeError, match="planned end 210 > log end 209"):
        list(topic.iter_batches(0, 200, 210))
    with pytest.raises(OffsetOutOfRangeError, match="got 10"):
        topic.read_stamps(0, 5, 20, max_records=1)
    with pytest.raises(TopicNotFoundError, match="partitions 0 to 1, got 2"):
        topic.log_range(2)


def test_a_missing_file_is_a_hole_and_not_a_gap(topic, tmp_path):
    (tmp_path / "flights/p=0/00000000000000000069-00000000000000000129.arrow").unlink()
    with pytest.raises(FormatError, match=r"cover offsets \[10, 209\) without a hole"):
        list(topic.iter_batches(0, 150, 160))


def test_a_damaged_file_gives_no_record(topic, tmp_path):
    path = tmp_path / "flights/p=0/00000000000000000069-00000000000000000129.arrow"
    other = records(range(70, 128, 2))
    trailer = pa.RecordBatch.from_pylist([], schema=LANDING_SCHEMA)
    with pa.ipc.new_file(path, LANDING_SCHEMA) as writer:
        writer.write_batch(other)
        writer.write_batch(trailer, custom_metadata={"trailer": "2", "content": "0" * 32})
    assert offsets_of(topic.iter_batches(0, 10, 69)) == list(range(10, 69, 2))
    with pytest.raises(ChecksumError, match="p=0"):
        next(topic.iter_batches(0, 70, 80))


def test_a_recording_that_changes_while_it_is_read_is_another_source(topic, tmp_path):
    batches = topic.iter_batches(0, 10, 209)
    next(batches)
    path = tmp_path / "flights/TOPIC.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"uuid": "other"}))
    with pytest.raises(SourceReplacedError, match=r"TOPIC\.json"):
        list(batches)


def test_a_folder_without_a_description_is_no_topic(location):
    with pytest.raises(TopicNotFoundError, match=r"flights/TOPIC\.json"):
        RecordedTopic(location).partitions()


@pytest.mark.parametrize(
    "text", ["", "[]", '{"topic": "t"}', '{"topic":"t","uuid":"u","partitions":[{"start":2}]}']
)
def test_a_damaged_description_is_named(location, tmp_path, text):
    location.make_dir()
    (tmp_path / "flights/TOPIC.json").write_text(text)
    with pytest.raises(FormatError, match=r"expected \{topic, uuid.*TOPIC\.json"):
        RecordedTopic(location).partitions()


def test_nothing_is_recorded_over_what_is_there(topic, location):
    with pytest.raises(ConflictError, match="expected an empty folder"):
        record_topic(location, "flights", UUID, {}, 10)


@pytest.mark.parametrize("offsets", [[3, 3], [3, 2], [5, 6, 1]])
def test_offsets_that_do_not_ascend_are_not_recorded(location, offsets):
    with pytest.raises(ValueError, match="expected offsets to ascend"):
        record_topic(location, "flights", UUID, {0: [records(offsets)]}, 2)
    with pytest.raises(TopicNotFoundError):
        RecordedTopic(location).partitions()


def test_partitions_are_numbered_from_0(location):
    with pytest.raises(ValueError, match=r"expected partitions 0 to 0 .* got \[1\]"):
        record_topic(location, "flights", UUID, {1: []}, 10)


def test_settings_with_a_recording_open_it(topic, tmp_path):
    for folder in (tmp_path, tmp_path / "flights"):
        opened = open_topic(KafkaSettings(recorded=str(folder)), "flights")
        assert isinstance(opened, RecordedTopic)
        assert opened.identity == topic.identity


def test_a_recording_of_another_topic_is_not_opened(topic, tmp_path):
    with pytest.raises(TopicNotFoundError, match=r"'weather'.* got 'flights'"):
        open_topic(KafkaSettings(recorded=str(tmp_path / "flights")), "weather")
    with pytest.raises(TopicNotFoundError, match=r"neither in .*weather nor in"):
        open_topic(KafkaSettings(recorded=str(tmp_path)), "weather")


def test_settings_without_a_recording_open_a_topic_of_a_cluster():
    settings = KafkaSettings(client={"bootstrap.servers": "localhost:9092"})
    assert isinstance(open_topic(settings, "flights"), KafkaTopic)
    with pytest.raises(ConfigError, match="topic name"):
        open_topic(settings, "../flights")


@pytest.mark.parametrize("name", ["offset", "timestamp"])
def test_a_record_without_offset_or_timestamp_is_refused_and_nothing_is_left(location, name):
    good = records([1, 2, 3])
    values = pa.array([1, None, 3], pa.int64())
    broken = good.set_column(LANDING_SCHEMA.get_field_index(name), name, values)
    with pytest.raises(ValueError, match=rf"have its {name}, got null in row 1"):
        record_topic(location, "flights", UUID, {0: [good.slice(0, 1), broken]}, 1)
    assert not location.exists()
