"""TFRecord files read by number: errors name the place of a fault."""

import numpy as np
import pytest

from tests.unit.loader.datasets import record_of
from trainfeed.errors import ChecksumError, FormatError, TrainFeedError
from trainfeed.loader import DataLoader, TFRecordFiles
from trainfeed.readers import tfrecord
from trainfeed.samples import Field, Schema
from trainfeed.tfrecord import TFRecordIndex, TFRecordWriter, encode_example

RECORD_BYTES = 1024 + 16


@pytest.fixture
def path(tmp_path):
    """4,000 records of 1 KiB: one window of four chunks."""
    with TFRecordWriter(tmp_path / "a.tfrecord") as writer:
        for i in range(4000):
            writer.write(record_of(i))
    return tmp_path / "a.tfrecord"


def flip(path, offset_bytes):
    data = bytearray(path.read_bytes())
    data[offset_bytes] ^= 0x10
    path.write_bytes(data)


def numbers(batches):
    return [int.from_bytes(r[:4], "little") for batch in batches for r in batch["record"]]


@pytest.mark.parametrize("options", [{}, {"num_threads": 1}, {"num_workers": 1}])
def test_chunks_before_a_damaged_one_are_handed_over(path, options):
    flip(path, 3500 * RECORD_BYTES + 500)
    found = []
    with DataLoader(TFRecordFiles(path), 100, **options) as loader:
        with pytest.raises(ChecksumError) as caught:
            found.extend(loader)
        assert caught.value.offset_bytes == 3500 * RECORD_BYTES
        rows = numbers(found)
        assert rows == list(range(len(rows)))
        assert 3000 <= len(rows) <= 3500


def test_a_damaged_length_is_found_where_it_is_as_by_an_index(path):
    flip(path, 100 * RECORD_BYTES)
    errors = []
    for read in (lambda: DataLoader(TFRecordFiles(path)), lambda: TFRecordIndex.load(path)):
        with pytest.raises(ChecksumError) as caught:
            read()
        errors.append((str(caught.value), caught.value.path, caught.value.offset_bytes))
    assert errors[0] == errors[1]
    assert errors[0][2] == 100 * RECORD_BYTES


def test_what_is_no_file_is_refused_with_an_error_of_ours(tmp_path):
    with pytest.raises(TrainFeedError, match="nothing"):
        TFRecordFiles(tmp_path / "nothing").source()
    with pytest.raises(FormatError, match=str(tmp_path)):
        TFRecordFiles(tmp_path).source()


def test_batches_that_are_kept_do_not_change(path):
    with DataLoader(TFRecordFiles(path), 500, shuffle=True, window_bytes=1 << 20) as loader:
        kept = [batch for _ in range(2) for batch in loader]
    found = [record for batch in kept for record in batch["record"]]
    assert sorted(found) == sorted(record_of(i) for i in [*range(4000), *range(4000)])


FIELDS = Schema((Field("label", "int64"), Field("x", "float32", (3,))))


@pytest.fixture
def examples(tmp_path):
    """Two files of 2,000 Examples; record 1,333 of the second has another shape."""
    paths = [tmp_path / f"{name}.tfrecord" for name in "ab"]
    for start, path in enumerate(paths):
        with TFRecordWriter(path) as writer:
            for i in range(2000):
                size = 2 if (start, i) == (1, 1333) else 3
                x = np.zeros(size, np.float32)
                writer.write(encode_example({"label": np.array([2000 * start + i]), "x": x}))
    return paths


@pytest.mark.parametrize("options", [{}, {"num_threads": 1}, {"num_workers": 1}])
def test_batches_before_an_example_that_does_not_match_are_handed_over(examples, options):
    found = []
    with (
        DataLoader(TFRecordFiles(examples, FIELDS), 100, **options) as loader,
        pytest.raises(FormatError, match=r"^record 1333: .*x"),
    ):
        found.extend(loader)
    assert len(found) == 33
    assert np.concatenate([batch["label"] for batch in found]).tolist() == list(range(3300))


@pytest.mark.parametrize("options", [{}, {"shuffle": True}, {"world_size": 2, "rank": 1}])
def test_an_example_that_does_not_match_is_named_by_its_number_in_its_file(examples, options):
    start = TFRecordIndex.load(examples[1]).offsets[1333]
    with (
        DataLoader(TFRecordFiles(examples, FIELDS), 50, **options) as loader,
        pytest.raises(FormatError, match=r"^record 1333: ") as caught,
    ):
        list(loader)
    assert caught.value.path == str(examples[1])
    assert start < caught.value.offset_bytes < start + 100


@pytest.mark.parametrize("position", [0, 1, 2500, 3333])
def test_a_reader_names_an_example_that_does_not_match_by_its_number_in_its_file(
    examples, position
):
    blocks = tfrecord(examples, FIELDS).blocks_from(position)
    with pytest.raises(FormatError, match=r"^record 1333: ") as caught:
        list(blocks)
    assert caught.value.path == str(examples[1])
