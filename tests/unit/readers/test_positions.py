"""Readers that begin at a place: the rest is the same, and what comes before is not read."""

import numpy as np
import pytest

from tests.unit.readers.test_creators import (
    FIXED,
    VARIABLE,
    idx_file,
    samples_of_fixed,
    topic,
)
from tests.unit.readers.test_dataset import read
from trainfeed.decorators import batch, resumable, shuffle
from trainfeed.errors import ChecksumError, FormatError, ReaderEndedError, TruncatedError
from trainfeed.readers import (
    BlockReader,
    BlockSource,
    SampleSource,
    SeekableReader,
    idx,
    kafka_range,
    np_array,
    num_rows,
    recordio,
    tfrecord,
)
from trainfeed.recordio import RecordIndex, RecordWriter
from trainfeed.samples import TypedCodec
from trainfeed.tfrecord import ExampleCodec, TFRecordWriter


def plain(sample):
    if isinstance(sample, dict):
        return {name: plain(value) for name, value in sample.items()}
    if isinstance(sample, tuple):
        return tuple(map(plain, sample))
    return sample.tolist() if hasattr(sample, "tolist") else sample


def check_every_place(reader, *, step=1):
    assert isinstance(reader, SeekableReader)
    whole = list(map(plain, reader()))
    for position in {*range(0, len(whole) + 1, step), len(whole)}:
        assert list(map(plain, reader.samples_from(position))) == whole[position:]
        if isinstance(reader, BlockReader):
            assert sum(map(num_rows, reader.blocks_from(position))) == len(whole) - position
    for position in (len(whole) + 1, len(whole) + 1000):
        with pytest.raises(ReaderEndedError, match=f"at least {position} samples") as caught:
            list(reader.samples_from(position))
        assert caught.value.num_samples == len(whole)
    return whole


@pytest.fixture
def records(tmp_path):
    """Files of several chunks, one of them without a record."""
    codec, samples = TypedCodec(FIXED), iter(samples_of_fixed(40))
    for number, length in enumerate((17, 0, 1, 22)):
        with RecordWriter(tmp_path / f"r-{number}", max_chunk_bytes=100) as writer:
            for _ in range(length):
                writer.write(codec.encode(next(samples)))
    return str(tmp_path / "r-*")


@pytest.mark.parametrize("schema", [FIXED, bytes])
@pytest.mark.parametrize("world_size", [1, 3])
def test_record_files_begin_at_every_place(records, schema, world_size):
    for rank in range(world_size):
        check_every_place(recordio(records, schema, rank=rank, world_size=world_size))


@pytest.mark.parametrize("schema", [FIXED, None])
def test_tfrecord_files_begin_at_every_place(tmp_path, schema, monkeypatch):
    monkeypatch.setattr("trainfeed.readers.files._ROWS_PER_BLOCK", 7)
    for number, compression in enumerate(("", "GZIP")):
        with TFRecordWriter(tmp_path / f"t-{number}", compression) as writer:
            for sample in samples_of_fixed(20):
                label = sample["label"]
                sample["label"] = None if label is None else np.int64(label)
                writer.write(ExampleCodec(FIXED).encode(sample))
    assert len(check_every_place(tfrecord(str(tmp_path / "t-*"), schema))) == 40


def test_examples_of_variable_size_begin_at_every_place(tmp_path):
    with TFRecordWriter(tmp_path / "t") as writer:
        for i in range(9):
            sample = {"x": np.arange(i, dtype=np.int32), "note": "n" * i}
            writer.write(ExampleCodec(VARIABLE).encode(sample))
    check_every_place(tfrecord(tmp_path / "t", VARIABLE))


@pytest.mark.parametrize("compress", [False, True])
def test_idx_files_begin_at_every_place(tmp_path, compress, monkeypatch):
    monkeypatch.setattr("trainfeed.readers.files._BLOCK_BYTES", 50)
    images = np.arange(13 * 4 * 3, dtype=np.uint8).reshape(13, 4, 3)
    path = idx_file(tmp_path / "i", images, compress=compress)
    labels = idx_file(tmp_path / "l", np.arange(13, dtype=np.int32), compress=compress)
    check_every_place(idx(path))
    check_every_place(idx(path, labels))


def test_arrays_begin_at_every_place():
    check_every_place(np_array(np.arange(30).reshape(10, 3)))
    check_every_place(np_array(np.array(5)))
    check_every_place(np_array([]))


def test_topics_begin_at_every_place(tmp_path):
    check_every_place(kafka_range("t", settings=topic(tmp_path), ranges={1: (3, 5), 0: (0, 12)}))


def test_published_sets_begin_at_every_place(project):
    for name in ("2024-03-01", "2024-03-02"):
        project.prebuilt(name)
    whole = read(project, "2024-03-01/2024-03-02")
    for rank, world_size, step in ((0, 1, 17), (0, 3, 7), (2, 3, 5), (7, 50, 1), (0, 999, 1)):
        check_every_place(whole.reader(rank=rank, world_size=world_size), step=step)


def test_published_sets_of_variable_size_begin_at_every_place(project):
    project.edit(
        "value: {dtype: float32}", "value: {dtype: float32}\n  steps: {dtype: int32, shape: [null]}"
    )
    project.edit('"label": n', '"label": n, "steps": list(range(n))', "preprocess.py")
    project.prebuilt("2024-03-01")
    reader = read(project, "2024-03-01").reader(rank=1, world_size=2)
    assert not isinstance(reader, BlockReader)
    check_every_place(reader, step=5)


def damage(path, offset_bytes):
    data = bytearray(path.read_bytes())
    data[offset_bytes] ^= 1
    path.write_bytes(data)


def test_chunks_before_the_place_are_not_read(records, tmp_path):
    first = RecordIndex.load(tmp_path / "r-0").chunks[0]
    damage(tmp_path / "r-0", first.offset_bytes + 20)
    for schema in (FIXED, bytes):
        reader = recordio(records, schema)
        assert len(list(reader.samples_from(first.num_records))) == 40 - first.num_records
        with pytest.raises(ChecksumError):
            list(reader.samples_from(first.num_records - 1))


def test_shards_before_the_place_are_not_read(project):
    for name in ("2024-03-01", "2024-03-02"):
        project.prebuilt(name)
    whole = read(project, "2024-03-01/2024-03-02")
    expected = [plain(sample) for sample in whole.reader()()]
    num_first = read(project, "2024-03-01").num_samples
    for path in whole.versions[0].shard_paths("train"):
        path.chmod(0o644)
        path.write_bytes(bytes(path.stat().st_size))
    assert [plain(s) for s in whole.reader().samples_from(num_first)] == expected[num_first:]
    with pytest.raises(FormatError):
        list(whole.reader().samples_from(num_first - 1))


def test_a_file_that_ends_before_the_place_is_truncated(tmp_path):
    path = idx_file(tmp_path / "i", np.zeros((9, 4), np.uint8))
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(TruncatedError):
        list(idx(path).samples_from(8))


def test_a_pipeline_over_a_version_goes_on_from_every_place(project):
    project.prebuilt("2024-03-01")

    def make():
        return resumable(batch(shuffle(read(project, "2024-03-01").reader(), 10, seed=3), 4))

    whole = [[plain(sample) for sample in items] for items in make()()]
    for position in range(0, len(whole) + 1, 3):
        reader = make()
        reader.load_state_dict({"epoch": 0, "position": position})
        assert [[plain(s) for s in items] for items in reader()] == whole[position:]


def test_sources_of_ones_own_say_where_they_can_begin():
    asked = []

    def blocks_from(position):
        asked.append(position)
        yield {"x": np.arange(position, 9)}

    reader = BlockSource(lambda: blocks_from(0), blocks_from=blocks_from)
    assert [s["x"] for s in reader.samples_from(7)] == [7, 8]
    assert [s["x"] for s in reader.samples_from(0)] == list(range(9))
    assert asked == [7, 0]
    assert list(SampleSource(lambda position: iter(range(position, 3))).samples_from(1)) == [1, 2]
