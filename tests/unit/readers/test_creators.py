"""Reader creators: arrays, text, record files, IDX files, topics."""

import gzip
import itertools
import os
import struct
import tracemalloc
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pytest

from trainfeed.core.config import KafkaSettings
from trainfeed.errors import (
    BadMagicError,
    ChecksumError,
    ConfigError,
    FormatError,
    NotFoundError,
    OffsetOutOfRangeError,
    SourceReplacedError,
    StorageError,
    TruncatedError,
)
from trainfeed.files.stores import Location
from trainfeed.readers import (
    BlockReader,
    RowForm,
    idx,
    kafka_range,
    np_array,
    num_rows,
    recordio,
    rows,
    text_file,
    tfrecord,
)
from trainfeed.readers import topics as _kafka
from trainfeed.recordio import RecordWriter
from trainfeed.samples import Field, Schema, TypedCodec
from trainfeed.sources import LANDING_SCHEMA, record_topic
from trainfeed.tfrecord import ExampleCodec, TFRecordWriter

FIXED = Schema((Field("x", "float32", (2,)), Field("label", "int64", (), optional=True)))
VARIABLE = Schema((Field("x", "int32", (None,)), Field("note", "str")))


def test_the_rows_of_an_array_are_views():
    array = np.arange(6).reshape(3, 2)
    reader = np_array(array)
    assert [row.tolist() for row in reader()] == array.tolist()
    assert all(np.shares_memory(row, array) for row in reader())
    assert isinstance(reader, BlockReader)


def test_an_array_without_dimensions_gives_its_value_once():
    assert list(np_array(np.array(5))()) == list(np_array(5)()) == [5]
    assert list(np_array([])()) == []


def test_blocks_of_a_large_array_are_of_one_size_and_complete():
    array = np.arange(1_000_000)
    blocks = [block["value"] for block in np_array(array).blocks()]
    assert len(blocks) > 1
    assert np.array_equal(np.concatenate(blocks), array)


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        ("", []),
        ("a", ["a"]),
        ("a\n", ["a"]),
        ("a\r\nb\n\n", ["a\r", "b", ""]),
        ("é\u2028x\x0cy\n", ["é\u2028x\x0cy"]),
    ],
)
def test_lines_lose_their_newline_and_nothing_else(tmp_path, data, lines):
    path = tmp_path / "lines"
    path.write_text(data, encoding="utf-8", newline="")
    assert list(text_file(path)()) == list(text_file(str(path))()) == lines


def test_a_line_that_is_no_text_is_told_after_those_before_it(tmp_path):
    path = tmp_path / "lines"
    path.write_bytes(b"a\nb\n\xff\nc\n")
    lines = text_file(path)()
    assert [next(lines), next(lines)] == ["a", "b"]
    with pytest.raises(FormatError, match="line 3: expected UTF-8") as caught:
        next(lines)
    assert caught.value.path == str(path)


def test_a_text_file_that_was_left_is_closed(tmp_path):
    path = tmp_path / "lines"
    path.write_text("a\nb\n")
    assert next(text_file(path)()) == "a"
    with pytest.raises(NotFoundError, match="nothing"):
        list(text_file(tmp_path / "nothing")())


@pytest.fixture
def shards(tmp_path):
    paths = [tmp_path / f"s-{i:05d}-of-00002" for i in range(3)]
    for number, path in enumerate(paths):
        with RecordWriter(path, max_chunk_bytes=64) as writer:
            for i in range(5):
                writer.write(f"{number}.{i}".encode())
    return paths


EXPECTED = [f"{number}.{i}".encode() for number in range(3) for i in range(5)]


def test_record_files_are_named_in_four_ways(shards, tmp_path):
    text = [str(path) for path in shards]
    for paths in (shards, text, ",".join(text), str(tmp_path / "s-*"), [str(tmp_path / "s-*")]):
        reader = recordio(paths)
        assert list(reader()) == list(reader()) == EXPECTED
    assert list(recordio(shards[1])()) == EXPECTED[5:10]
    assert list(recordio(shards, len)()) == [3] * 15


def test_no_match_is_an_error_at_once(tmp_path):
    with pytest.raises(NotFoundError, match="no-such"):
        recordio(str(tmp_path / "no-such-*"))
    with pytest.raises(NotFoundError, match="no-such"):
        tfrecord([str(tmp_path / "no-such-*")])


def test_a_name_with_a_comma_is_one_file(shards, tmp_path):
    path = tmp_path / "a,b*"
    shards[0].rename(path)
    assert list(recordio(path)()) == EXPECTED[:5]


def test_empty_records_and_zero_bytes_are_samples(tmp_path):
    with RecordWriter(tmp_path / "s") as writer:
        for record in (b"", b"a\0b", b"", b"\0"):
            writer.write(record)
    assert list(recordio(tmp_path / "s")()) == [b"", b"a\0b", b"", b"\0"]


def test_two_passes_over_files_are_independent(shards):
    reader = recordio(shards)
    assert list(zip(reader(), reader(), strict=True)) == [(r, r) for r in EXPECTED]


def samples_of_fixed(n):
    return [{"x": np.full(2, i, np.float32), "label": i if i % 3 else None} for i in range(n)]


def test_a_schema_without_variable_fields_gives_blocks(tmp_path):
    codec = TypedCodec(FIXED)
    with RecordWriter(tmp_path / "r", max_chunk_bytes=200) as writer:
        for sample in samples_of_fixed(50):
            writer.write(codec.encode(sample))
    with TFRecordWriter(tmp_path / "t") as writer:
        for sample in samples_of_fixed(50):
            label = sample["label"]
            label = None if label is None else np.int64(label)
            writer.write(ExampleCodec(FIXED).encode({**sample, "label": label}))
    for reader in (recordio(tmp_path / "r", FIXED), tfrecord(tmp_path / "t", FIXED)):
        assert isinstance(reader, BlockReader)
        assert reader.form is RowForm.MAPPING
        assert sum(map(num_rows, reader.blocks())) == 50
        for got, expected in zip(reader(), samples_of_fixed(50), strict=True):
            assert got["x"].tolist() == expected["x"].tolist()
            assert got["label"] == expected["label"]


def test_fields_of_variable_size_come_one_by_one(tmp_path):
    codec = TypedCodec(VARIABLE)
    with RecordWriter(tmp_path / "r") as writer:
        for i in range(4):
            writer.write(codec.encode({"x": np.arange(i), "note": "n" * i}))
    reader = recordio(tmp_path / "r", VARIABLE)
    assert not isinstance(reader, BlockReader)
    assert [(s["x"].tolist(), s["note"]) for s in reader()] == [
        (list(range(i)), "n" * i) for i in range(4)
    ]


def test_examples_of_variable_size_come_in_blocks_of_objects(tmp_path):
    with TFRecordWriter(tmp_path / "t") as writer:
        for i in range(4):
            sample = {"x": np.arange(i, dtype=np.int32), "note": "n" * i}
            writer.write(ExampleCodec(VARIABLE).encode(sample))
    reader = tfrecord(tmp_path / "t", VARIABLE)
    assert [(s["x"].tolist(), s["note"]) for s in reader()] == [
        (list(range(i)), "n" * i) for i in range(4)
    ]
    assert [type(record) for record in tfrecord(tmp_path / "t")()] == [bytes] * 4


def test_damage_is_told_with_its_file(shards):
    data = bytearray(shards[1].read_bytes())
    data[-1] ^= 1
    shards[1].write_bytes(data)
    with pytest.raises(ChecksumError) as caught:
        list(recordio(shards)())
    assert caught.value.path == str(shards[1])


def test_a_record_of_another_schema_is_told_with_its_file(shards):
    with pytest.raises(FormatError) as caught:
        list(recordio(shards, FIXED)())
    assert caught.value.path == str(shards[0])


def idx_file(path, array, *, compress=False):
    kinds = {"u1": 8, "i1": 9, "i2": 11, "i4": 12, "f4": 13, "f8": 14}
    header = struct.pack(
        f">HBB{array.ndim}I", 0, kinds[array.dtype.str[1:]], array.ndim, *array.shape
    )
    data = header + array.astype(array.dtype.newbyteorder(">")).tobytes()
    path.write_bytes(gzip.compress(data) if compress else data)
    return path


@pytest.mark.parametrize("compress", [False, True])
def test_images_and_labels_are_paired(tmp_path, compress):
    images = np.arange(7 * 4 * 3, dtype=np.uint8).reshape(7, 4, 3)
    labels = np.arange(7, dtype=np.uint8)
    reader = idx(
        idx_file(tmp_path / "i", images, compress=compress),
        str(idx_file(tmp_path / "l", labels, compress=compress)),
    )
    for _ in range(2):
        for i, (image, label) in enumerate(reader()):
            assert np.array_equal(image, images[i])
            assert label == i
    assert i == 6
    assert [list(block) for block in reader.blocks()] == [["image", "label"]]
    assert [image.tolist() for image in idx(tmp_path / "i")()] == images.tolist()


@pytest.mark.parametrize("dtype", ["u1", "i1", "i2", "i4", "f4", "f8"])
def test_every_type_comes_in_native_order(tmp_path, dtype):
    array = np.array([0, 1, 100], dtype)
    (block,) = idx(idx_file(tmp_path / "a", array)).blocks()
    assert block["value"].dtype == np.dtype(dtype)
    assert block["value"].dtype.isnative
    assert block["value"].tolist() == [0, 1, 100]


def test_many_items_come_in_several_blocks(tmp_path):
    array = np.arange(600_000, dtype=np.int32)
    blocks = [block["value"] for block in idx(idx_file(tmp_path / "a", array)).blocks()]
    assert len(blocks) > 1
    assert np.array_equal(np.concatenate(blocks), array)


def test_every_prefix_of_an_idx_file_is_truncated(tmp_path):
    data = idx_file(tmp_path / "a", np.arange(5, dtype=np.uint8)).read_bytes()
    for length in range(len(data)):
        (tmp_path / "a").write_bytes(data[:length])
        with pytest.raises(TruncatedError):
            list(idx(tmp_path / "a")())
    (tmp_path / "a").write_bytes(data + b"x")
    with pytest.raises(FormatError, match="expected the end"):
        list(idx(tmp_path / "a")())


@pytest.mark.parametrize("head", [b"\0\0\x07\x01", b"\0\1\x08\x01", b"\0\0\x08\0", b"RIFF"])
def test_what_is_no_idx_file_is_told(tmp_path, head):
    (tmp_path / "a").write_bytes(head + bytes(16))
    with pytest.raises(BadMagicError, match="IDX"):
        list(idx(tmp_path / "a")())


@pytest.mark.parametrize(
    "sizes", [(2**32 - 1, 2**32 - 1), (1, 0, 2**32 - 1, 2**32 - 1), (1, 2**24 + 1), (1,) * 100]
)
def test_an_idx_file_that_promises_too_much_takes_no_memory(tmp_path, sizes):
    header = struct.pack(f">HBB{len(sizes)}I", 0, 8, len(sizes), *sizes)
    (tmp_path / "a").write_bytes(gzip.compress(header + bytes(1 << 25)))
    tracemalloc.start()
    try:
        with pytest.raises(FormatError):
            list(idx(tmp_path / "a")())
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


def test_something_else_than_a_file_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for reader in (idx, text_file, recordio, tfrecord):
        with pytest.raises((FormatError, StorageError)):
            list(reader(tmp_path / "pipe")())


def test_damaged_gzip_and_unequal_lengths_are_told(tmp_path):
    path = idx_file(tmp_path / "a", np.arange(5, dtype=np.uint8), compress=True)
    data = path.read_bytes()
    path.write_bytes(data[:-6])
    with pytest.raises(TruncatedError, match="the gzip stream ends early") as caught:
        list(idx(path)())
    assert caught.value.path == str(path)
    path.write_bytes(data[:-8] + bytes(8))
    with pytest.raises(FormatError, match="the gzip stream is damaged") as caught:
        list(idx(path)())
    assert caught.value.path == str(path)
    images = idx_file(tmp_path / "i", np.zeros((3, 2), np.uint8))
    labels = idx_file(tmp_path / "l", np.zeros(4, np.uint8))
    with pytest.raises(FormatError, match="4 labels for 3 images"):
        list(idx(images, labels)())
    with pytest.raises(NotFoundError):
        list(idx(tmp_path / "nothing")())


def topic(folder, uuid="u1", first=0):
    def batches(partition):
        for start in (first, first + 10):
            offsets = list(range(start, start + 10))
            yield pa.RecordBatch.from_pydict(
                {
                    "offset": offsets,
                    "timestamp": [1000 + i for i in offsets],
                    "timestamp_type": [1] * 10,
                    "key": [None if i % 2 else b"k" for i in offsets],
                    "value": [f"{partition}.{i}".encode() for i in offsets],
                    "headers": [[("h", b"1")] if i % 3 == 0 else None for i in offsets],
                },
                LANDING_SCHEMA,
            )

    location = Location.parse(str(folder)) / "t"
    record_topic(location, "t", uuid, {0: batches(0), 1: batches(1)}, rows_per_file=7)
    return KafkaSettings(recorded=str(folder))


def test_a_range_of_a_topic_is_read_again_and_again(tmp_path):
    reader = kafka_range("t", settings=topic(tmp_path), ranges={1: (3, 5), 0: (0, 12)})
    expected = [f"0.{i}".encode() for i in range(12)] + [b"1.3", b"1.4"]
    for _ in range(2):
        assert [sample["value"] for sample in reader()] == expected
    first, second, *_ = reader()
    assert (first["partition"], first["offset"], first["timestamp"]) == (0, 0, 1000)
    assert (first["key"], first["headers"]) == (b"k", [("h", b"1")])
    assert (second["key"], second["headers"]) == (None, [])


def test_without_ranges_it_is_what_the_topic_held_first(tmp_path):
    reader = kafka_range("t", settings=topic(tmp_path))
    assert sum(map(num_rows, reader.blocks())) == 40
    assert next(reader())["value"] == b"0.0"


class Growing:
    """A topic that grows while a first pass looks at it, and another one does."""

    def __init__(self, topic, meanwhile):
        self._topic = topic
        self._meanwhile = meanwhile

    def __getattr__(self, name):
        return getattr(self._topic, name)

    def log_range(self, _):
        if not self._meanwhile:
            return (0, 10)
        self._meanwhile.pop()()
        return (0, 20)


def test_two_first_passes_at_once_give_the_same_records(tmp_path, monkeypatch):
    real, found = _kafka.open_topic, []

    @contextmanager
    def open_topic(*args):
        with real(*args) as opened:
            yield Growing(opened, meanwhile)

    monkeypatch.setattr(_kafka, "open_topic", open_topic)
    reader = kafka_range("t", settings=topic(tmp_path))
    meanwhile = [lambda: found.extend(reader())]
    assert [sample["value"] for sample in reader()] == [sample["value"] for sample in found]
    assert len(found) == 20


def test_a_range_that_is_not_there_is_an_error(tmp_path):
    settings = topic(tmp_path)
    with pytest.raises(OffsetOutOfRangeError):
        list(kafka_range("t", settings=settings, ranges={0: (0, 99)})())
    with pytest.raises(ConfigError, match="partition 0"):
        kafka_range("t", settings=settings, ranges={0: (5, 3)})


def test_a_topic_that_was_made_anew_is_refused(tmp_path):
    reader = kafka_range("t", settings=topic(tmp_path / "a"))
    assert len(list(reader())) == 40
    topic(tmp_path / "b", uuid="u2")
    (tmp_path / "a" / "t").rename(tmp_path / "old")
    (tmp_path / "b" / "t").rename(tmp_path / "a" / "t")
    with pytest.raises(SourceReplacedError, match="u2"):
        list(reader())


def test_rows_have_the_form_that_is_asked_for():
    block = {"a": np.arange(2), "b": np.ma.MaskedArray([[1, 2], [3, 4]], [[False] * 2, [True] * 2])}
    assert [(a, b.tolist() if b is not None else None) for a, b in rows(block, RowForm.TUPLE)] == [
        (0, [1, 2]),
        (1, None),
    ]
    assert [list(row) for row in rows(block, RowForm.MAPPING)] == [["a", "b"]] * 2
    assert list(rows({"a": np.arange(2)}, RowForm.VALUE)) == [0, 1]


@pytest.mark.parametrize("world_size", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("schema", [None, FIXED])
def test_parts_have_every_record_once_whatever_the_files(tmp_path, world_size, schema):
    codec, number = TypedCodec(FIXED), itertools.count()
    for i, length in enumerate((40, 0, 1, 3)):
        with RecordWriter(tmp_path / f"s-{i}", max_chunk_bytes=60) as writer:
            for _ in range(length):
                writer.write(codec.encode({"x": [0, 0], "label": next(number)}))
    parts = [
        list(recordio(str(tmp_path / "s-*"), schema, rank=rank, world_size=world_size)())
        for rank in range(world_size)
    ]
    assert all(parts)
    whole = [sample for part in parts for sample in part]
    labels = [s["label"] if schema else int(codec.decode(s)["label"]) for s in whole]
    assert sorted(labels) == list(range(44))


def test_more_ranks_than_chunks_are_refused(shards):
    with pytest.raises(ConfigError, match="for each of 99 ranks"):
        list(recordio(shards, rank=98, world_size=99)())
    with pytest.raises(ConfigError, match="rank from 0 to 1"):
        recordio(shards, rank=2, world_size=2)
    for rank in (1.0, "1", True):
        with pytest.raises(ConfigError, match=f"rank from 0 to 1, .* got {rank!r}"):
            recordio(shards, rank=rank, world_size=2)


def test_converted_shards_say_how_they_are_read(tmp_path):
    from trainfeed.conversion import convert

    samples = [{"x": np.full(2, i, np.float32), "label": i} for i in range(20)]
    convert(tmp_path / "typed", lambda: iter(samples), 3, "s", schema=FIXED)
    reader = recordio(str(tmp_path / "typed" / "s-*"))
    assert isinstance(reader, BlockReader)
    assert sorted(int(sample["label"]) for sample in reader()) == list(range(20))
    values = [(np.full(3, i), i) for i in range(20)]
    convert(tmp_path / "value", lambda: iter(values), 3, "s")
    got = sorted(recordio(str(tmp_path / "value" / "s-*"))(), key=lambda sample: sample[1])
    assert [type(sample) for sample in got] == [tuple] * 20
    assert [(a.tolist(), i) for a, i in got] == [([i] * 3, i) for i in range(20)]
    raw = recordio(str(tmp_path / "value" / "s-*"), bytes)
    assert {type(record) for record in raw()} == {bytes}
    both = [*tmp_path.glob("*/s-*-of-*")]
    with pytest.raises(ConfigError, match="of one kind"):
        recordio(both)
