"""Readers and writers of files: which files, which compression, when a file is there."""

from __future__ import annotations

import errno
import io
import zlib

import pytest

from trainfeed.errors import (
    ChecksumError,
    ConfigError,
    ConflictError,
    FormatError,
    NotFoundError,
    QuotaExceededError,
)
from trainfeed.tfrecord import Compression, TFRecordReader, TFRecordWriter, iter_records

RECORDS = [b"hello", b"", b"x" * 300, b"y" * 300, b"last"]


def write(path, records=RECORDS, compression=""):
    with TFRecordWriter(path, compression) as writer:
        for record in records:
            writer.write(record)
    return path


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("compression", Compression)
@pytest.mark.parametrize("told", [False, True])
def test_what_is_written_is_read(tmp_path, compression, told):
    path = write(tmp_path / "a.tfrecord", compression=compression)
    reader = TFRecordReader(path, compression=compression if told else None)
    assert list(reader) == RECORDS
    assert list(reader) == RECORDS, "again"


@pytest.mark.parametrize("compression", Compression)
def test_file_without_records_is_read(tmp_path, compression):
    assert list(TFRecordReader(write(tmp_path / "a", [], compression))) == []
    empty = tmp_path / "empty"
    empty.write_bytes(b"")
    assert list(TFRecordReader(empty)) == []
    assert list(TFRecordReader(empty, compression=compression)) == []


@pytest.mark.parametrize("num_bytes", [120, 0x8B1F, 0x0178, 0x9C78])
def test_file_that_starts_like_a_compressed_one_is_read(tmp_path, num_bytes):
    path = write(tmp_path / "a", [bytes(num_bytes)])
    assert list(TFRecordReader(path)) == [bytes(num_bytes)]


def test_records_beyond_every_buffer_are_read(tmp_path):
    records = [bytes([i]) * size for i, size in enumerate([3 << 20, 1, (1 << 20) - 16, 1 << 20])]
    for compression in Compression:
        path = write(tmp_path / f"{compression}.tfrecord", records, compression)
        assert list(TFRecordReader(path)) == records


def test_paths_lists_and_globs_are_read_in_order(tmp_path):
    for name in ("b-2", "b-1", "b-10", "a"):
        write(tmp_path / name, [name.encode()])
    paths = f"{tmp_path}/b-*,{tmp_path}/a"
    assert list(TFRecordReader(paths)) == [b"b-1", b"b-10", b"b-2", b"a"]
    assert list(TFRecordReader([tmp_path / "a", f"{tmp_path}/b-?"])) == [b"a", b"b-1", b"b-2"]
    with pytest.raises(NotFoundError, match=r"no file matches .*nothing"):
        TFRecordReader(f"{tmp_path}/a,{tmp_path}/nothing*")


def test_several_gzip_members_are_one_file(framed):
    whole = framed(*RECORDS)
    cut = len(whole) // 2
    data = zlib.compress(whole[:cut], 6, 31) + zlib.compress(whole[cut:], 6, 31)
    assert list(iter_records(io.BytesIO(data))) == RECORDS


def test_bytes_behind_zlib_data_are_refused(framed):
    data = zlib.compress(framed(*RECORDS)) + b"\0"
    with pytest.raises(FormatError, match="nothing behind the end"):
        list(iter_records(io.BytesIO(data)))


class OneByteFile(io.BytesIO):
    def read(self, num_bytes=-1):
        return super().read(min(num_bytes, 1))


@pytest.mark.parametrize("compression", Compression)
def test_file_that_gives_a_byte_at_a_time_is_read(tmp_path, compression):
    data = write(tmp_path / "a", compression=compression).read_bytes()
    assert list(iter_records(OneByteFile(data))) == RECORDS


def test_file_that_takes_a_byte_at_a_time_is_written(framed):
    class Slow(io.BytesIO):
        def write(self, data):
            return super().write(bytes(data[:1]))

    file = Slow()
    write(file)
    assert file.getvalue() == framed(*RECORDS)


def test_file_appears_when_it_is_closed_and_not_before(tmp_path):
    path = tmp_path / "a.tfrecord"
    writer = TFRecordWriter(path)
    writer.write(b"record")
    assert not path.exists()
    writer.close()
    writer.close()
    assert names_in(tmp_path) == ["a.tfrecord"]
    assert writer.num_records == 1
    with pytest.raises(ValueError, match="closed"):
        writer.write(b"")


def test_file_is_dropped_after_an_exception(tmp_path):
    with pytest.raises(TypeError), TFRecordWriter(tmp_path / "a") as writer:
        writer.write("text")
    assert names_in(tmp_path) == []


def test_existing_file_is_kept(tmp_path):
    path = write(tmp_path / "a")
    with pytest.raises(ConflictError, match="exists"):
        TFRecordWriter(path)
    late = TFRecordWriter(tmp_path / "b")
    (tmp_path / "b").write_bytes(b"other")
    with pytest.raises(ConflictError):
        late.close()
    assert (tmp_path / "b").read_bytes() == b"other"
    assert names_in(tmp_path) == ["a", "b"]


def test_full_disk_drops_the_file():
    class Full(io.BytesIO):
        def write(self, _):
            raise OSError(errno.ENOSPC, "No space left on device")

    writer = TFRecordWriter(Full())
    with pytest.raises(QuotaExceededError):
        writer.write(bytes(2 << 20))
    with pytest.raises(ValueError, match="closed"):
        writer.write(b"")


def test_options_are_checked(tmp_path):
    for compression, level in (("LZ4", None), ("", 1), ("GZIP", 0), ("ZLIB", 10)):
        with pytest.raises(ConfigError):
            TFRecordWriter(tmp_path / "a", compression, level=level)
    with pytest.raises(ConfigError):
        TFRecordReader(tmp_path / "a", compression="gzip")
    with pytest.raises(ConfigError):
        list(iter_records(io.BytesIO(), compression="gzip"))
    assert names_in(tmp_path) == []


def test_writer_refuses_what_readers_would(tmp_path):
    file = io.BytesIO()
    with TFRecordWriter(file, max_record_bytes=10) as writer:
        writer.write(memoryview(bytes(10)))
        with pytest.raises(FormatError, match="at most 10 bytes, got 11"):
            writer.write(bytearray(11))
    assert list(iter_records(io.BytesIO(file.getvalue()), max_record_bytes=10)) == [bytes(10)]


def test_level_changes_the_size_and_not_the_records():
    sizes = []
    for level in (1, 9):
        file = io.BytesIO()
        with TFRecordWriter(file, "GZIP", level=level) as writer:
            for i in range(300):
                writer.write(str(i**3).encode())
        sizes.append(len(file.getvalue()))
        assert len(list(iter_records(io.BytesIO(file.getvalue())))) == 300
    assert sizes[1] < sizes[0]


@pytest.mark.parametrize("num_records", [1, 2, 3, 7, 100])
def test_batches_go_across_files(tmp_path, num_records):
    records = [bytes([i]) * (i // 4) for i in range(20)]
    write(tmp_path / "a", records[:9])
    write(tmp_path / "b", records[9:], "GZIP")
    batches = list(TFRecordReader(f"{tmp_path}/*").iter_batches(num_records))
    assert [record for batch in batches for record in batch] == records
    assert {len(batch) for batch in batches[:-1]} <= {num_records}
    assert 0 < len(batches[-1]) <= num_records


def test_batches_before_damage_are_read(tmp_path, framed):
    data = framed(*[b"record"] * 10)
    (tmp_path / "a").write_bytes(data[:-1] + b"?")
    batches = TFRecordReader(tmp_path / "a").iter_batches(4)
    assert [next(batches), next(batches)] == [[b"record"] * 4] * 2
    with pytest.raises(ChecksumError, match="record 9: "):
        next(batches)
    with pytest.raises(ValueError, match="at least 1 record"):
        next(TFRecordReader(tmp_path / "a").iter_batches(0))
