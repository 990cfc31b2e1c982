"""Sets larger than memory: a shuffled order reads only the bytes of its samples from the disk."""

import mmap
import os
import pickle
import resource
from pathlib import Path

import numpy as np
import pytest

from tests.unit.loader.conftest import labels, write_images
from trainfeed.loader import DataLoader, RecordFiles, TFRecordFiles
from trainfeed.loader import files as _files
from trainfeed.loader.files import ShardFiles
from trainfeed.loader.windows import _NUM_AHEAD
from trainfeed.recordio import Codec, RecordWriter
from trainfeed.samples import Field, Schema, TypedCodec
from trainfeed.tfrecord import TFRecordWriter

BLOCK_BYTES = 512


@pytest.fixture
def asked(monkeypatch):
    """What the kernel is told: a list of (advice, start, stop) of maps, and of descriptors."""
    found = {"map": [], "file": []}

    class Map(mmap.mmap):
        def madvise(self, advice, start=0, length=None):
            found["map"].append((advice, start, len(self) if length is None else start + length))
            return super().madvise(advice, *(() if length is None else (start, length)))

    def fadvise(fd, start, length, advice):
        found["file"].append((advice, start, start + length))
        real(fd, start, length, advice)

    real = os.posix_fadvise
    monkeypatch.setattr(_files.mmap, "mmap", Map)
    monkeypatch.setattr(_files.os, "posix_fadvise", fadvise)
    return found


def lasting(files):
    """Return the same files, which may be mapped."""
    return RecordFiles(files.paths, files.schema, immutable=True)


@pytest.mark.parametrize("options", [{}, {"num_threads": 2}])
@pytest.mark.parametrize("kind", ["images", "notes"])
def test_every_view_of_a_shuffled_order_was_asked_for_before(
    request, asked, monkeypatch, kind, options
):
    uncovered, seen = [], []
    real = ShardFiles.view

    def view(self, shard, offset_bytes, num_bytes):
        seen.append(shard)
        wanted = [part for part in asked["file"] if part[0] == os.POSIX_FADV_WILLNEED]
        if not any(a <= offset_bytes and offset_bytes + num_bytes <= b for _, a, b in wanted):
            uncovered.append((shard, offset_bytes))
        return real(self, shard, offset_bytes, num_bytes)

    monkeypatch.setattr(ShardFiles, "view", view)
    files = lasting(request.getfixturevalue(kind))
    with DataLoader(files, 7, shuffle=True, **options) as loader:
        assert len(labels(loader)) in {60, 100}
    assert seen
    assert uncovered == []
    random = [part for part in asked["map"] if part[0] == mmap.MADV_RANDOM]
    assert len(random) == len(files.paths)


def test_every_read_of_a_shuffled_order_was_asked_for_before(tmp_path, asked):
    with TFRecordWriter(tmp_path / "a.tfrecord") as writer:
        for i in range(300):
            writer.write(bytes([i % 256]) * 5000)
    packed = tmp_path / "packed"
    packed.mkdir()
    sets = [
        TFRecordFiles(tmp_path / "a.tfrecord"),
        write_images(tmp_path, [40, 37]),
        write_images(packed, [40, 37], Codec.ZSTD),
    ]
    for files in sets:
        asked["file"].clear()
        with DataLoader(files, 7, shuffle=True) as loader:
            assert sum(batch.num_rows for batch in loader) in {77, 300}
        advice = [part[0] for part in asked["file"]]
        assert advice.count(os.POSIX_FADV_RANDOM) == len(files.paths)
        assert advice.count(os.POSIX_FADV_WILLNEED) >= len(files.paths)


def test_in_natural_order_the_kernel_reads_ahead_by_itself(images, notes, asked):
    for files in (images, lasting(images), notes, lasting(notes)):
        with DataLoader(files, 7) as loader:
            assert len(labels(loader)) in {60, 100}
    assert asked == {"map": [], "file": []}


def test_a_network_is_not_told_how_to_read(images, asked, monkeypatch):
    monkeypatch.setattr(_files, "is_network_type", lambda _: True)
    with DataLoader(images, 7, shuffle=True) as loader:
        assert len(labels(loader)) == 100
    assert asked["file"] == []


def test_worker_processes_know_the_order(images):
    files = images.source(in_order=False)._files
    copy = pickle.loads(pickle.dumps(files))
    assert copy._in_order is False
    assert pickle.loads(pickle.dumps(images.source()._files))._in_order is True


def test_what_is_expected_of_a_file_that_is_gone_or_cut_is_no_error(images):
    files = images.source(in_order=False)._files
    size = Path(files.paths[0]).stat().st_size
    files.expect(0, size + mmap.PAGESIZE, 10)
    files.expect(0, size - 10, 1 << 20)
    Path(files.paths[1]).unlink()
    files.expect(1, 0, 10)
    files.close()


@pytest.mark.parametrize("immutable", [True, False])
def test_a_first_shuffled_batch_reads_its_windows_and_the_next_and_nothing_more(
    tmp_path, immutable
):
    # 96 chunks of 1 MiB, 16 lanes: a batch of 16 needs the first window of each, which is a chunk.
    schema = Schema((Field("image", "uint8", (1 << 15,)),))
    rows = np.random.default_rng(0).integers(0, 256, (32 * 96, 1 << 15), np.uint8)
    with RecordWriter(tmp_path / "x", max_chunk_bytes=32 * (4 + (1 << 15))) as writer:
        writer.write_array(TypedCodec(schema).encode_columns({"image": rows}))
    with (tmp_path / "x").open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    files = RecordFiles(tmp_path / "x", schema, immutable=immutable)
    with DataLoader(files, 16, shuffle=True, window_bytes=1 << 20) as loader:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_inblock
        next(iter(loader))
        read = (resource.getrusage(resource.RUSAGE_SELF).ru_inblock - before) * BLOCK_BYTES
    # A lane may begin within a chunk: then its first window is the rest of that. Those that come
    # next have two chunks.
    assert read <= 1.1 * (16 + 2 * _NUM_AHEAD) * (1 << 20)
