"""Small files of every format, damaged: an error with its place, or the data of the whole file.

These tests try a part of the bits, lengths and zeros of ``tests/fuzz/damage.py``.
"""

from __future__ import annotations

import os
import socket
from itertools import pairwise, permutations

import numpy as np
import pytest

from tests.fuzz.damage import DAMAGES, FORMATS, RECORDS, SCHEMA, damage_all
from trainfeed.conversion import (
    ConvertOptions,
    FileFormat,
    Format,
    ShardManifest,
    SourceOptions,
    convert,
    format_of,
    open_sample_file,
    repair_file,
)
from trainfeed.errors import FormatError, NotFoundError, TrainFeedError
from trainfeed.files.stores import Location
from trainfeed.loader import RecordFiles, TFRecordFiles
from trainfeed.readers import idx, recordio, text_file, tfrecord
from trainfeed.recordio import (
    ChunkPlace,
    FluidScanner,
    MappedFile,
    RandomAccess,
    RecordAppender,
    RecordIndex,
    RecordScanner,
    RecordWriter,
    read_chunks,
    verify_shard,
)
from trainfeed.samples import SampleReader
from trainfeed.sources import LandingFile
from trainfeed.tfrecord import TFRecordAccess, TFRecordIndex, TFRecordReader
from trainfeed.versions import Version

# Odd, so that a share of the bits has all places in a byte.
STEPS = {"every bit flipped": 61, "every length": 7, "zeros": 23, "more behind it": 3}
# Bits that say nothing, and in landing files metadata of Arrow and what the digest leaves out.
NOT_ALL_COVERED = {"TFRecord GZIP", "TFRecord ZLIB", "landing file", "digest of the manifest"}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", FORMATS)
def test_damage_is_told_with_its_place_and_never_gives_other_data(tmp_path, name, damage):
    tally = damage_all(FORMATS[name], DAMAGES[damage], tmp_path, step=STEPS[damage])
    assert tally.num_tried > 5
    if damage == "every bit flipped" and name not in NOT_ALL_COVERED:
        assert tally.num_told == tally.num_tried
    # What is only behind a shard is not read; what its manifest says of the size is not asked for.
    if not (name.startswith("shard of") and damage == "more behind it"):
        assert tally.num_told > tally.num_tried / 3


def moved(data, ends):
    """Yield a file with two of its parts exchanged, each of them twice, and each of them lost."""
    parts = [data[start:end] for start, end in pairwise(ends)]
    orders = [list(order) for order in permutations(range(len(parts)))][1:]
    orders += [[*range(i + 1), *range(i, len(parts))] for i in range(len(parts))]
    orders += [[j for j in range(len(parts)) if j != i] for i in range(len(parts))]
    for order in orders:
        moved_data = b"".join(parts[i] for i in order)
        if moved_data != data:
            yield moved_data


@pytest.mark.parametrize("name", ["shard of a version", "shard of Examples"])
def test_parts_of_a_shard_that_are_exchanged_doubled_or_lost_are_noticed(tmp_path, name):
    """With the index of the version; the parts have one size each, so only checksums tell."""
    kind = FORMATS[name]
    path = kind.write(tmp_path)
    chunks = Version.open(tmp_path).chunks("train")
    ends = [*(chunk.info.offset_bytes for chunk in chunks), path.stat().st_size]
    expected, data = kind.read(path), path.read_bytes()
    num_told = 0
    for damaged in moved(data, ends[:5] + ends[-1:] if len(ends) > 6 else ends):
        path.write_bytes(damaged)
        try:
            # What is behind the parts of the index is not read.
            assert kind.read(path) == expected
            assert damaged.startswith(data)
        except TrainFeedError:
            num_told += 1
        with pytest.raises(FormatError, match=path.name):
            Version.open(tmp_path).verify()
    assert num_told > 20


def test_chunks_that_are_exchanged_doubled_or_lost_are_noticed_with_an_index(tmp_path):
    with RecordWriter(tmp_path / "a", max_chunk_bytes=4, quantum_records=1) as writer:
        for record in (b"aaaa", b"bbbb", b"cccc"):
            writer.write(record)
    index = RecordIndex.load(tmp_path / "a")
    data = (tmp_path / "a").read_bytes()
    ends = [*(chunk.offset_bytes for chunk in index.chunks), len(data)]
    places = [ChunkPlace(tmp_path / "a", chunk) for chunk in index.chunks]
    num_tried = 0
    for damaged in moved(data, ends):
        (tmp_path / "a").write_bytes(damaged)
        if damaged.startswith(data):
            continue
        num_tried += 1
        with pytest.raises(FormatError):
            list(read_chunks(places))
    assert num_tried == 5 + 2 + 3


@pytest.mark.parametrize("file_format", ["recordio", "tfrecord"])
def test_parts_of_converted_shards_that_are_exchanged_doubled_or_lost_are_noticed(
    tmp_path, file_format
):
    samples = [(n, "n") for n in range(3)]
    options = ConvertOptions(file_format=FileFormat(file_format), max_chunk_bytes=1)
    convert(tmp_path, lambda: iter(samples), 1, "p", schema=SCHEMA, options=options)
    path = tmp_path / "p-00000-of-00000"
    data = path.read_bytes()
    if file_format == "recordio":
        ends = [*(chunk.offset_bytes for chunk in RecordIndex.load(path).chunks), len(data)]
    else:
        ends = [*TFRecordIndex.load(path).offsets.tolist(), len(data)]
    assert len(ends) == 4
    manifest = ShardManifest.load(tmp_path, "p")
    assert manifest.problems(tmp_path, deep=True) == []
    for damaged in moved(data, ends):
        path.write_bytes(damaged)
        (problem,) = manifest.problems(tmp_path, deep=True)
        assert path.name in problem


def odd_file(kind, path):
    """Put something else in place of a file."""
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(str(path))
    else:
        path.symlink_to({"zeros": "/dev/zero", "nothing": "/dev/null"}[kind])


def open_landing(path):
    with LandingFile.open(Location.parse(str(path))):
        pass


def read_as(file_format):
    return lambda path: list(
        open_sample_file(path, SourceOptions(file_format=file_format)).samples()
    )


READERS = {
    "records of RecordIO": lambda path: list(RecordScanner([path])),
    "index of RecordIO": RecordIndex.load,
    "records by number": RandomAccess,
    "verified": verify_shard,
    "appended to": RecordAppender,
    "mapped": MappedFile,
    "Fluid layout": lambda path: list(FluidScanner(path)),
    "records of TFRecord": lambda path: list(TFRecordReader([path])),
    "index of TFRecord": TFRecordIndex.load,
    "TFRecord by number": lambda path: TFRecordAccess(
        path, TFRecordIndex(np.array([0]), np.array([9]))
    ),
    "samples": lambda path: list(SampleReader([path], SCHEMA).iter_batches(2)),
    "mapped samples": lambda path: list(SampleReader([path], SCHEMA, mapped=True).iter_batches(2)),
    "landing file": open_landing,
    "reader of RecordIO": lambda path: list(recordio([path], bytes)()),
    "reader of TFRecord": lambda path: list(tfrecord([path])()),
    "reader of IDX": lambda path: list(idx(path)()),
    "reader of lines": lambda path: list(text_file(path)()),
    "loader of RecordIO": lambda path: RecordFiles([path], SCHEMA).source(),
    "loader of TFRecord": lambda path: TFRecordFiles([path]).source(),
    "format": format_of,
    "repaired RecordIO": lambda path: repair_file(path, path.with_name("b"), Format.RECORDIO),
    "repaired TFRecord": lambda path: repair_file(path, path.with_name("b"), Format.TFRECORD),
    **{f"converted {each}": read_as(each) for each in Format if each is not Format.LIBSVM},
}


@pytest.mark.timeout(30)
@pytest.mark.parametrize("kind", ["fifo", "folder", "socket", "zeros", "nothing"])
@pytest.mark.parametrize("name", READERS)
def test_what_is_no_file_is_an_error_with_its_place_at_once(tmp_path, monkeypatch, name, kind):
    # The name of a socket has to be short.
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "a"
    odd_file(kind, path.relative_to(tmp_path))
    with pytest.raises((FormatError, NotFoundError)) as caught:
        READERS[name](path)
    # A link that is written to is followed first.
    assert any(str(place) in str(caught.value) for place in (path, path.resolve()))
    assert not (tmp_path / "b").exists()


@pytest.mark.timeout(30)
@pytest.mark.parametrize("kind", ["fifo", "zeros", "nothing"])
def test_a_location_of_something_else_is_not_opened(tmp_path, kind):
    odd_file(kind, tmp_path / "a")
    with pytest.raises(NotFoundError, match=r"expected a plain file, got a (pipe|device)"):
        Location.parse(str(tmp_path / "a")).open_read()


def test_whole_files_of_the_audit_hold_what_was_written(tmp_path):
    """Else nothing above would show anything."""
    for name in ("RecordIO zstd", "Fluid layout snappy", "TFRecord GZIP"):
        (tmp_path / name).mkdir()
        assert FORMATS[name].read(FORMATS[name].write(tmp_path / name)) == RECORDS
