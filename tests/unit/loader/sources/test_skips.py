"""L6: damaged chunks are left out as far as that is allowed; everything else keeps its place."""

import itertools
import logging
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tests.unit.loader.conftest import NOTES, labels, note, write_images
from tests.unit.loader.datasets import Squares
from trainfeed import mix
from trainfeed.errors import ChecksumError, ConfigError, FormatError
from trainfeed.loader import DataLoader, RecordFiles, TFRecordFiles
from trainfeed.loader.chunks import SkippedChunks
from trainfeed.recordio import Codec, RecordIndex, RecordWriter
from trainfeed.samples import TypedCodec


def damage(path, chunk):
    """Change a byte in the middle of a chunk; return how many samples it has."""
    info = RecordIndex.load(path).chunks[chunk]
    data = bytearray(path.read_bytes())
    data[info.offset_bytes + 20 + info.stored_bytes // 2] ^= 1
    path.write_bytes(data)
    return info.num_records


@pytest.fixture(params=[Codec.NONE, Codec.LZ4])
def torn(tmp_path, request):
    """Samples 0 to 29 in 10 chunks, of which that of samples 3, 4 and 5 is damaged."""
    files = write_images(tmp_path, [30], request.param)
    assert damage(tmp_path / "images-0", 1) == 3
    return files


GONE = {3, 4, 5}


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("options", [{}, {"num_threads": 2}, {"copy": True}])
def test_all_other_samples_stay_where_they_are(tmp_path, torn, shuffle, options, caplog):
    (tmp_path / "whole").mkdir()
    with DataLoader(write_images(tmp_path / "whole", [30]), 4, shuffle=shuffle) as loader:
        # The order depends on the content, which the index tells.
        whole = [labels([batch]) for batch in loader] if not shuffle else None
    with DataLoader(torn, 4, shuffle=shuffle, max_skipped_chunks=1, **options) as loader:
        first = [labels([batch]) for batch in loader]
        loader.set_epoch(0)
        assert [labels([batch]) for batch in loader] == first
        assert loader.report().skipped_samples == 6
        assert loader.report().samples == 54
    assert sorted(itertools.chain(*first)) == sorted(set(range(30)) - GONE)
    assert len(first) == 8
    if whole is not None:
        assert first == [[label for label in batch if label not in GONE] for batch in whole]
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "images-0" in caplog.text
    assert "left out a chunk of 3 samples" in caplog.text


def test_workers_leave_out_the_same(tmp_path):
    images = write_images(tmp_path, [30])
    damage(tmp_path / "images-0", 1)
    with DataLoader(images, 4, shuffle=True, max_skipped_chunks=1) as loader:
        expected = [labels([batch]) for batch in loader]
    with DataLoader(images, 4, shuffle=True, max_skipped_chunks=1, num_workers=1) as loader:
        assert [labels([batch]) for batch in loader] == expected
        assert loader.report().skipped_samples == 3


def test_states_restore_behind_a_damaged_chunk(torn):
    with DataLoader(torn, 4, shuffle=True, max_skipped_chunks=1) as loader:
        states, batches = [loader.state_dict()], []
        for batch in loader:
            batches.append(labels([batch]))
            states.append(loader.state_dict())
        for number, state in enumerate(states[:-1]):
            loader.load_state_dict(state)
            assert [labels([batch]) for batch in loader] == batches[number:]


def test_ranks_get_equally_many_batches_all_the_same(torn):
    found, sizes = [], []
    for rank in range(2):
        options = {"rank": rank, "world_size": 2, "max_skipped_chunks": 1}
        with DataLoader(torn, 4, shuffle=True, tail="pad", **options) as loader:
            batches = list(loader)
            found += labels(batches)
            sizes.append(len(batches))
    assert sizes == [4, 4]
    assert sorted(found) == sorted(set(range(30)) - GONE)


def test_one_more_than_allowed_is_an_error(tmp_path, torn):
    damage(tmp_path / "images-0", 4)
    with DataLoader(torn, 3, max_skipped_chunks=1) as loader:
        batches = iter(loader)
        assert [len(next(batches)["label"]) for _ in range(4)] == [3, 0, 3, 3]
        with pytest.raises(ChecksumError) as caught:
            next(batches)
    assert caught.value.__notes__ == ["1 chunks were left out before, no more may be"]
    with DataLoader(torn, 3) as loader, pytest.raises(FormatError):
        list(loader)


def test_a_chunk_that_threads_read_at_the_same_time_counts_once(torn, caplog):
    info = RecordIndex.load(torn.paths[0]).chunks[1]
    both = threading.Barrier(2)
    skipped = SkippedChunks(1)

    def read():
        both.wait(60)
        raise ChecksumError("damaged")

    def read_other():
        raise ChecksumError("damaged as well")

    with ThreadPoolExecutor(2) as threads:
        attempts = [threads.submit(skipped.attempt, 1, info, read) for _ in range(2)]
        assert [attempt.result() for attempt in attempts] == [False, False]
    assert len(caplog.records) == 1
    with pytest.raises(ChecksumError, match="damaged as well"):
        skipped.attempt(2, info, read_other)


@pytest.mark.parametrize("schema", [NOTES, None])
@pytest.mark.parametrize("immutable", [False, True])
def test_records_of_any_size_likewise(tmp_path, schema, immutable):
    codec = TypedCodec(NOTES)
    for number, start in enumerate((0, 20, 40)):
        with RecordWriter(tmp_path / f"notes-{number}") as writer:
            for i in range(start, start + 20):
                writer.write(codec.encode(note(i)))
    damage(tmp_path / "notes-1", 0)
    files = RecordFiles(str(tmp_path / "notes-*"), schema, immutable=immutable)
    with DataLoader(files, 6, shuffle=True, max_skipped_chunks=3) as loader:
        rows = [
            dict(zip(batch, values, strict=True))
            for batch in loader
            for values in zip(*batch.values(), strict=True)
        ]
    assert len(rows) == 40
    if schema is not None:
        expected = [i for i in range(60) if not 20 <= i < 40]
        assert sorted(int(row["label"]) for row in rows) == expected
        assert {row["blob"] for row in rows} == {note(i)["blob"] for i in expected}


def test_a_mixture_leaves_out_its_sets_chunks(tmp_path, torn):
    (tmp_path / "other").mkdir()
    other = write_images(tmp_path / "other", [30])
    mixed = mix([(torn, 1), (other, 1)], epoch_samples=60)
    with DataLoader(mixed, 5, shuffle=True, max_skipped_chunks=1) as loader:
        assert len(labels(loader)) == 57


def test_what_has_no_chunks_is_refused(tmp_path):
    shutil.copy(__file__, tmp_path / "x.tfrecord")
    for dataset in (Squares(3), iter, TFRecordFiles(tmp_path / "x.tfrecord")):
        with pytest.raises(ConfigError, match="max_skipped_chunks"):
            DataLoader(dataset, max_skipped_chunks=1)
    with pytest.raises(ConfigError, match="max_skipped_chunks as a whole number from 0 on"):
        DataLoader(Squares(3), max_skipped_chunks=-1)


def test_whole_batches_are_views_although_chunks_may_be_left_out(images):
    with DataLoader(images, 3, max_skipped_chunks=1) as loader:
        batch = next(iter(loader))
    assert batch["image"].base is not None
    assert np.array_equal(batch["label"], [0, 1, 2])
