"""Batches: content, sizes and shares of ranks, for all kinds of data sets."""

import gc
import pickle

import numpy as np
import pytest

from tests.unit.loader.conftest import NOTES, SCHEMA, image_columns, labels, note, write_images
from tests.unit.loader.datasets import Squares
from trainfeed.errors import (
    BadMagicError,
    ChecksumError,
    ConfigError,
    FormatError,
    NotFoundError,
    SampleShapeError,
    TruncatedError,
)
from trainfeed.loader import DataLoader, RecordFiles, TFRecordFiles
from trainfeed.recordio import Codec, RecordIndex, RecordWriter
from trainfeed.tfrecord import ExampleCodec, TFRecordWriter

# --- record files ---------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("shuffle", [False, True])
def test_files_of_every_codec_give_what_was_written(tmp_path, codec, shuffle):
    images = write_images(tmp_path, [40, 1, 20], codec)
    with DataLoader(images, 9, shuffle=shuffle) as loader:
        found = []
        for batch in loader:
            assert batch["image"].dtype == np.uint8
            assert batch["image"].flags.aligned
            assert batch["label"].flags.aligned
            assert batch["image"].flags.writeable
            assert (batch["image"] == image_columns(0, 61)["image"][batch["label"]]).all()
            found += labels([batch])
    assert sorted(found) == list(range(61))
    assert (found == list(range(61))) is not shuffle


def test_samples_of_variable_size_are_decoded(notes):
    for shuffle in (False, True):
        with DataLoader(notes, 8, shuffle=shuffle, copy=shuffle) as loader:
            for batch in loader:
                for row, label in enumerate(batch["label"].tolist()):
                    expected = note(label)
                    assert batch["note"][row] == expected["note"]
                    assert batch["blob"][row] == expected["blob"]
                    assert batch["more"][row] == expected["more"]
                    np.testing.assert_array_equal(batch["curve"][row], expected["curve"])
                    assert (batch["flag"][row] is np.ma.masked) == (expected["flag"] is None)


def test_files_that_do_not_change_may_be_mapped(notes, tmp_path):
    mapped = RecordFiles(notes.paths, NOTES, immutable=True)
    with DataLoader(notes, 8, shuffle=True) as one, DataLoader(mapped, 8, shuffle=True) as other:
        for a, b in zip(one, other, strict=True):
            assert a["note"].tolist() == b["note"].tolist()
            assert a["more"].tolist() == b["more"].tolist()
    data = bytearray((tmp_path / "notes").read_bytes())
    data[50] ^= 1
    (tmp_path / "notes").write_bytes(data)
    with DataLoader(mapped, 8) as loader, pytest.raises(ChecksumError):
        list(loader)


def test_records_without_a_schema_are_bytes(tmp_path):
    with RecordWriter(tmp_path / "plain") as writer:
        for i in range(30):
            writer.write(b"%d" % i * (i % 3))
    with DataLoader(RecordFiles(tmp_path / "plain"), 4) as loader:
        found = [record for batch in loader for record in batch["record"]]
    assert found == [b"%d" % i * (i % 3) for i in range(30)]


def test_indexes_save_reading_the_headers(tmp_path, images):
    indexes = [RecordIndex.load(path) for path in images.paths]
    with DataLoader(RecordFiles(images.paths, SCHEMA, indexes=indexes), 8) as loader:
        assert labels(loader) == list(range(100))
    with pytest.raises(ConfigError, match="one index per file, got 1 for 3 files"):
        RecordFiles(images.paths, SCHEMA, indexes=indexes[:1])


def test_files_of_another_schema_are_refused(images, tmp_path):
    loader = DataLoader(RecordFiles(images.paths, NOTES), 8)
    with loader, pytest.raises(FormatError, match="announces more values than the chunk can hold"):
        list(loader)
    with RecordWriter(tmp_path / "short") as writer:
        writer.write(b"short")
    loader = DataLoader(RecordFiles(tmp_path / "short", SCHEMA), 8)
    with loader, pytest.raises(FormatError, match="expected 1 records of 4208 bytes each"):
        list(loader)


def test_an_empty_set_has_no_batches(tmp_path):
    with RecordWriter(tmp_path / "empty"):
        pass
    for options in ({}, {"num_workers": 1}, {"shuffle": True}, {"tail": "pad"}):
        with DataLoader(RecordFiles(tmp_path / "empty", SCHEMA), 8, **options) as loader:
            assert len(loader) == 0
            assert list(loader) == []
            assert loader.state_dict()["epoch"] == 1


@pytest.mark.parametrize("verify", ["always", "first", "never"])
def test_checksums_are_compared_when_asked_for(tmp_path, verify):
    images = write_images(tmp_path, [12])
    with DataLoader(images, 4, verify=verify) as loader:
        list(loader)
        path = tmp_path / "images-0"
        data = bytearray(path.read_bytes())
        data[100] ^= 1
        path.write_bytes(data)
        if verify == "always":
            with pytest.raises(ChecksumError):
                list(loader)
        else:
            assert len(labels(loader)) == 12


def test_a_file_cut_while_it_is_read_is_an_error_and_no_signal(tmp_path):
    images = write_images(tmp_path, [12])
    path = tmp_path / "images-0"
    with DataLoader(images, 4) as loader:
        list(loader)
        path.write_bytes(path.read_bytes()[:-1])
        with pytest.raises(TruncatedError) as caught:
            list(loader)
    assert caught.value.path == str(path)


def test_a_file_with_another_header_is_an_error(tmp_path):
    images = write_images(tmp_path, [12])
    path = tmp_path / "images-0"
    with DataLoader(images, 4) as loader:
        data = bytearray(path.read_bytes())
        path.write_bytes(b"nope" + data[4:])
        with pytest.raises(BadMagicError):
            list(loader)
        path.write_bytes(data[:4] + b"crc!" + data[8:])
        with pytest.raises(FormatError, match="expected the chunk of the index"):
            list(loader)


def test_files_that_are_removed_are_named_with_what_to_do(tmp_path):
    """LD-20: open files are read to their end, others are missed."""
    images = write_images(tmp_path, [12, 12])
    with DataLoader(images, 4) as loader:
        list(loader)
        for path in images.paths:
            (tmp_path / path).unlink()
        assert labels(loader) == list(range(24))
        loader.close()
        with pytest.raises(NotFoundError, match="is gone; bring it back from a copy"):
            list(loader)


# --- TFRecord -------------------------------------------------------------------------------------


@pytest.fixture
def examples(tmp_path):
    codec = ExampleCodec(NOTES)
    for number, (start, stop) in enumerate([(0, 35), (35, 60)]):
        with TFRecordWriter(tmp_path / f"t-{number}.tfrecord") as writer:
            for i in range(start, stop):
                writer.write(codec.encode(note(i)))
    return str(tmp_path / "t-*.tfrecord")


@pytest.mark.parametrize("options", [{}, {"shuffle": True}, {"num_workers": 1, "shuffle": True}])
def test_tfrecord_files_give_what_was_written(examples, options):
    with DataLoader(TFRecordFiles(examples, NOTES), 7, **options) as loader:
        found = []
        for batch in loader:
            for row, label in enumerate(batch["label"].tolist()):
                assert batch["note"][row] == note(label)["note"]
                assert batch["more"][row] == note(label)["more"]
                np.testing.assert_array_equal(batch["curve"][row], note(label)["curve"])
            found += labels([batch])
    assert sorted(found) == list(range(60))


def test_tfrecord_records_without_fields_are_bytes(examples):
    with DataLoader(TFRecordFiles(examples), 60) as loader:
        (batch,) = loader
    assert ExampleCodec(NOTES).decode(batch["record"][41])["note"] == "nöte 41"


def test_a_damaged_tfrecord_file_is_reported(examples, tmp_path):
    path = tmp_path / "t-1.tfrecord"
    data = path.read_bytes()
    with DataLoader(TFRecordFiles(examples, NOTES), 7) as loader:
        path.write_bytes(data[:40] + b"X" + data[41:])
        with pytest.raises(ChecksumError) as caught:
            list(loader)
        assert caught.value.path == str(path)
        path.write_bytes(data[:-1])
        with pytest.raises(TruncatedError):
            list(loader)
        with pytest.raises(TruncatedError):
            DataLoader(TFRecordFiles(examples, NOTES), 7)


def test_compressed_tfrecord_files_are_refused(tmp_path):
    with TFRecordWriter(tmp_path / "z.tfrecord", compression="GZIP") as writer:
        writer.write(b"x" * 100)
    with pytest.raises(FormatError, match="cannot be read from the middle; iterate"):
        DataLoader(TFRecordFiles(tmp_path / "z.tfrecord"), 1)


# --- anything else --------------------------------------------------------------------------------


class Odd(list):
    """A list of whatever samples."""


@pytest.mark.parametrize(
    ("samples", "names"),
    [
        ([1, 2, 3], ["0"]),
        ([(1, b"a"), (2, b"b")], ["0", "1"]),
        ([{"x": np.ones(3), "t": "a"}, {"t": None, "x": np.zeros(3)}], ["x", "t"]),
        ([np.ones((2, 2))], ["0"]),
    ],
)
def test_any_samples_make_batches(samples, names):
    with DataLoader(Odd(samples), 5) as loader:
        (batch,) = loader
    assert list(batch) == names
    assert batch.num_rows == len(samples)


@pytest.mark.parametrize(
    "samples",
    [
        [{"a": 1}, {"b": 1}],
        [{"a": 1}, {"a": 1, "b": 2}],
        [np.ones(3), np.ones(2)],
        [np.ones(3), np.ones(3, int)],
        [[object()]],
    ],
)
def test_samples_that_do_not_fit_together_are_refused(samples):
    with DataLoader(Odd(samples), 5) as loader, pytest.raises(SampleShapeError):
        list(loader)


def test_what_cannot_be_read_is_refused():
    with pytest.raises(ConfigError, match="got int"):
        DataLoader(7, 1)


# --- cuts -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("world_size", [1, 2, 3, 4, 7, 16, 33])
def test_ranks_share_the_set_in_equally_many_batches(images, shuffle, world_size):
    """LD-15."""
    found, counts = [], set()
    for rank in range(world_size):
        options = {"rank": rank, "world_size": world_size, "shuffle": shuffle}
        with DataLoader(images, 4, **options) as loader:
            batches = list(loader)
            assert len(loader) == len(batches)
            assert all(set(batch) == {"image", "label"} for batch in batches)
            counts.add(len(batches))
            found += labels(batches)
    assert len(counts) == 1
    assert sorted(found) == list(range(100))


@pytest.mark.parametrize("world_size", [1, 3])
def test_padding_is_marked_and_evaluation_sees_every_sample_once(images, world_size):
    rows, valid, padded = 0, [], 0
    for rank in range(world_size):
        options = {"rank": rank, "world_size": world_size, "tail": "pad"}
        with DataLoader(images, 9, **options) as loader:
            for batch in loader:
                rows += batch.num_rows
                assert batch.num_rows == 9
                assert batch.valid.sum() == 9 - batch.num_padded
                padded += batch.num_padded
                valid += labels([batch])
    assert sorted(valid) == list(range(100))
    assert rows == 100 + padded == {1: 108, 3: 108}[world_size]


def test_repeating_fills_the_last_batch_from_the_start(images):
    with DataLoader(images, 30, tail="repeat") as loader:
        batches = list(loader)
        assert labels(batches[-1:]) == [*range(90, 100), *range(20)]
    with DataLoader(images, 250, tail="repeat") as loader:
        (batch,) = loader
        assert batch["label"].tolist() == [i % 100 for i in range(250)]
    with DataLoader(images, 30, tail="repeat", shuffle=True) as loader:
        batches = list(loader)
        assert labels(batches[-1:])[10:] == labels(batches[:1])[:20]


def test_dropping_and_keeping_the_rest(images):
    with DataLoader(images, 30, tail="drop") as loader:
        assert [batch.num_rows for batch in loader] == [30, 30, 30]
    with DataLoader(images, 30) as loader:
        assert [batch.num_rows for batch in loader] == [30, 30, 30, 10]
        assert len(loader) == 4


# --- memory ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"num_threads": 2}, {"copy": True}, {"shuffle": True}])
def test_batches_that_are_kept_do_not_change(images, options):
    with DataLoader(images, 7, window_bytes=1000, **options) as loader:
        kept = [batch for _ in range(3) for batch in loader]
    for batch in kept:
        assert (batch["image"] == image_columns(0, 100)["image"][batch["label"]]).all()


def test_memory_is_used_again_when_nobody_looks(images):
    with DataLoader(images, 50) as loader:
        places, others = set(), []
        for _ in range(10):
            for batch in loader:
                places.add(batch["image"].__array_interface__["data"][0])
            size = 2 * batch["image"].nbytes
            del batch
            gc.collect()
            # Takes the place of anything that was given back to the allocator.
            others.append(np.empty(size, np.uint8))
    assert len(places) <= 6


def test_a_copied_batch_holds_no_more_than_it_shows(images):
    with DataLoader(images, 2, copy=True) as loader:
        for batch in loader:
            assert batch["image"].flags.owndata


def test_batches_can_be_pickled(images):
    with DataLoader(images, 30, tail="pad") as loader:
        batch = list(loader)[-1]
    copy = pickle.loads(pickle.dumps(batch))
    assert (copy["label"] == batch["label"]).all()
    assert (copy.num_padded, copy.state) == (20, batch.state)


@pytest.mark.parametrize(
    "options",
    [
        {"batch_size": 0},
        {"batch_size": 2.0},
        {"rank": 1},
        {"tail": "cut"},
        {"verify": "sometimes"},
        {"num_workers": -1},
        {"num_workers": 1, "num_threads": 1},
        {"prefetch": 0},
        {"seed": 1.5},
        {"timeout_s": 0},
        {"window_bytes": 0},
    ],
)
def test_settings_without_sense_are_refused(options):
    with pytest.raises(ConfigError):
        DataLoader(Squares(5), **options)
