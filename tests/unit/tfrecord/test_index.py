"""Records by number: one, lists, ranges, and the facts that headers alone give."""

from __future__ import annotations

import io
import os

import numpy as np
import pytest

from trainfeed.errors import ChecksumError, ConfigError, FormatError, TruncatedError
from trainfeed.tfrecord import (
    TFRecordAccess,
    TFRecordIndex,
    TFRecordRange,
    TFRecordWriter,
)

RECORDS = [bytes([i % 251]) * (i * i % 5000) for i in range(120)] + [b"", b"x" * 200_000, b"end"]


@pytest.fixture
def path(tmp_path):
    with TFRecordWriter(tmp_path / "a") as writer:
        for record in RECORDS:
            writer.write(record)
    return tmp_path / "a"


def test_headers_tell_how_many_records_there_are_and_how_long(path):
    index = TFRecordIndex.load(path)
    assert index.num_records == len(RECORDS)
    assert index.sizes.tolist() == list(map(len, RECORDS))
    with path.open("rb") as file:
        assert TFRecordIndex.load(file).offsets.tolist() == index.offsets.tolist()


def test_every_record_is_had_by_its_number(path):
    with TFRecordAccess(path) as records:
        assert len(records) == len(RECORDS)
        for i in reversed(range(len(RECORDS))):
            assert records.get(i) == RECORDS[i]
        wanted = [5, 122, 5, 0, 121, 120]
        expected = [RECORDS[i] for i in wanted]
        assert records.get_many(wanted) == expected
        assert records.get_many(np.array(wanted)) == expected
        assert records.get_many([]) == []
    with pytest.raises(ValueError, match="closed"):
        records.get(0)


@pytest.mark.parametrize("i", [-1, 123, 2**70])
def test_number_out_of_range_is_an_index_error(path, i):
    with TFRecordAccess(path) as records:
        with pytest.raises(IndexError, match=f"from 0 to 122, got {i}"):
            records.get(i)
        with pytest.raises(IndexError):
            records.get_many([0, i])
        with pytest.raises(TypeError):
            records.get(1.0)


@pytest.mark.parametrize("start", [-5, 0, 7, 122, 123, 500])
@pytest.mark.parametrize("length", [-1, 0, 1, 50, 500])
def test_range_gives_what_a_slice_gives(path, start, length):
    found = TFRecordRange(path, TFRecordIndex.load(path), start=start, length=length)
    first = max(start, 0)
    expected = RECORDS[first:] if length < 0 else RECORDS[first : first + length]
    assert list(found) == expected
    assert list(found) == expected, "again"


def test_file_without_records_has_an_index(tmp_path):
    (tmp_path / "a").touch()
    index = TFRecordIndex.load(tmp_path / "a")
    assert index.num_records == 0
    assert list(TFRecordRange(tmp_path / "a", index)) == []


@pytest.mark.parametrize("compression", ["GZIP", "ZLIB"])
def test_compressed_file_has_no_places_to_go_to(compression):
    file = io.BytesIO()
    with TFRecordWriter(file, compression) as writer:
        writer.write(b"abc")
    with pytest.raises(ConfigError, match=compression):
        TFRecordIndex.load(file)


def test_every_truncation_is_noticed(tmp_path):
    records = [b"hello", b"", b"world" * 3]
    file = io.BytesIO()
    with TFRecordWriter(file) as writer:
        for record in records:
            writer.write(record)
    data = file.getvalue()
    ends = {0: 0, 21: 1, 37: 2}
    for length in range(len(data)):
        cut = io.BytesIO(data[:length])
        if length in ends:
            assert TFRecordIndex.load(cut).num_records == ends[length]
            continue
        with pytest.raises(TruncatedError) as caught:
            TFRecordIndex.load(cut)
        assert caught.value.offset_bytes in ends


def test_every_flipped_bit_is_noticed_by_the_index_or_by_reading(tmp_path):
    records = [b"hello", b"", b"hello", b"world" * 3]
    path = tmp_path / "a"
    with TFRecordWriter(path) as writer:
        for record in records:
            writer.write(record)
    data = path.read_bytes()
    index = TFRecordIndex.load(path)
    for bit in range(8 * len(data)):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        with TFRecordAccess(path, index) as access, pytest.raises((ChecksumError, FormatError)):
            access.get_many(range(4))


def test_index_of_another_file_is_refused(path, tmp_path):
    index = TFRecordIndex.load(path)
    with TFRecordWriter(tmp_path / "b") as writer:
        for record in reversed(RECORDS):
            writer.write(record)
    with TFRecordAccess(tmp_path / "b", index) as records, pytest.raises(FormatError):
        records.get(5)


def test_record_beyond_the_limit_is_refused(path):
    with (
        TFRecordAccess(path, max_record_bytes=1000) as records,
        pytest.raises(FormatError, match="raise max_record_bytes"),
    ):
        records.get(121)


@pytest.mark.timeout(30)
@pytest.mark.parametrize("what", ["fifo", "folder", "device"])
def test_what_is_no_file_is_refused_at_once(tmp_path, what):
    path = tmp_path / "a"
    if what == "fifo":
        os.mkfifo(path)
    elif what == "folder":
        path.mkdir()
    else:
        path.symlink_to("/dev/zero")
    for opening in (TFRecordIndex.load, TFRecordAccess):
        with pytest.raises(FormatError, match="expected a plain file"):
            opening(path)


def test_of_records_longer_than_a_window_the_headers_alone_are_read(tmp_path):
    class Counted(io.FileIO):
        num_bytes = 0

        def read(self, size=-1):
            data = super().read(size)
            self.num_bytes += len(data)
            return data

    with TFRecordWriter(tmp_path / "long") as writer:
        for i in range(50):
            writer.write(bytes(100_000 + i))
        writer.write(b"short")
    with Counted(tmp_path / "long") as file:
        index = TFRecordIndex.load(file)
        # A window in the beginning, and one that the last record is read with.
        assert file.num_bytes < 3 * 65536
    assert index.sizes.tolist() == [*range(100_000, 100_050), 5]
