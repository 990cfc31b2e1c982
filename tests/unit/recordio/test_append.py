"""Appending: to whole files, and to files that a crash has cut."""

from __future__ import annotations

import io
import os

import pytest

from trainfeed.errors import (
    BadMagicError,
    ChecksumError,
    ConfigError,
    ConflictError,
    FormatError,
    NotFoundError,
    StorageError,
    TruncatedError,
    UnsupportedCodecError,
)
from trainfeed.recordio import Codec, RecordAppender, RecordIndex, RecordScanner, RecordWriter

CHUNKS = [[b"Hello", b""], [b"World!"], [b"x" * 30, b"end"]]
NEW = [b"appended", b""]


def shard(codec):
    """Return a file, and where its chunks start and the last one ends."""
    file, ends = io.BytesIO(), [0]
    for records in CHUNKS:
        with RecordWriter(file, codec=codec) as writer:
            for record in records:
                writer.write(record)
        ends.append(file.tell())
    return file.getvalue(), ends


def append(path, **options):
    with RecordAppender(path, **options) as appender:
        for record in NEW:
            appender.write(record)
    return appender.num_cut_bytes


@pytest.mark.parametrize("new", Codec)
@pytest.mark.parametrize("old", Codec)
def test_whole_file_gets_chunks_of_any_codec(tmp_path, old, new):
    data, _ = shard(old)
    path = tmp_path / "shard"
    path.write_bytes(data)
    assert append(path, codec=new) == 0
    assert path.read_bytes()[: len(data)] == data
    assert list(RecordScanner(path)) == [record for part in [*CHUNKS, NEW] for record in part]
    assert [chunk.codec for chunk in RecordIndex.load(path).chunks] == [old] * 3 + [new]


@pytest.mark.parametrize("codec", Codec)
def test_every_torn_tail_is_cut_and_counted(tmp_path, codec):
    """RD-03, exhaustive: the whole chunks stay, byte for byte."""
    data, ends = shard(codec)
    path = tmp_path / "torn"
    for size in range(len(data) + 1):
        path.write_bytes(data[:size])
        whole = max(end for end in ends if end <= size)
        assert append(path, codec=codec) == size - whole
        assert path.read_bytes()[:whole] == data[:whole]
        kept = CHUNKS[: ends.index(whole)]
        assert list(RecordScanner(path)) == [record for part in [*kept, NEW] for record in part]


@pytest.mark.parametrize("codec", Codec)
def test_flipped_bit_never_cuts_a_whole_chunk(tmp_path, codec):
    """RD-01 and RD-02, exhaustive: only a last chunk of a wrong checksum is cut, or nothing."""
    data, ends = shard(codec)
    path = tmp_path / "flipped"
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        try:
            cut = append(path)
        except FormatError:
            assert path.read_bytes() == flipped, f"bit {bit}"
            continue
        is_last = bit // 8 >= ends[-2]
        assert cut == (ends[-1] - ends[-2] if is_last else 0), f"bit {bit}"
        assert path.read_bytes()[: len(data) - cut] == flipped[: len(data) - cut]


@pytest.mark.parametrize("garbage", [bytes(4096), bytes(7), b"\xff" * 50, bytes(4096) + b"late"])
def test_tail_of_lost_pages_is_cut(tmp_path, garbage):
    data, ends = shard(Codec.ZSTD)
    path = tmp_path / "lost"
    path.write_bytes(data + garbage)
    assert append(path) == len(garbage)
    zeroed = data[: ends[1] + 20] + bytes(len(data) - ends[1] - 20)
    path.write_bytes(zeroed)
    assert append(path) == len(data) - ends[1]


def test_several_last_chunks_without_their_pages_are_cut(tmp_path):
    data, ends = shard(Codec.NONE)
    damaged = bytearray(data)
    damaged[ends[2] - 1] ^= 1
    damaged[ends[3] - 1] ^= 1
    path = tmp_path / "shard"
    path.write_bytes(damaged)
    assert append(path) == ends[3] - ends[1]
    assert list(RecordScanner(path)) == [*CHUNKS[0], *NEW]


def test_whole_chunk_behind_damage_is_named_and_kept(tmp_path):
    data, ends = shard(Codec.NONE)
    path = tmp_path / "shard"
    for size in range(ends[1] + 1, ends[2]):
        path.write_bytes(data[:size] + data)
        with pytest.raises(FormatError):
            append(path)
        assert path.read_bytes() == data[:size] + data
    path.write_bytes(data[: ends[1] + 3] + b"lost" + data)
    with pytest.raises(FormatError, match="chunk 1: "):
        append(path)
    path.write_bytes(data + b"lost" * 9 + data)
    with pytest.raises(BadMagicError, match=f"a whole chunk is at byte {len(data) + 36}, so"):
        append(path)
    damaged_length = bytearray(data)
    damaged_length[ends[2] + 15] ^= 1
    path.write_bytes(damaged_length)
    with pytest.raises(TruncatedError, match=r"chunk 2: .* a whole chunk is here"):
        append(path)
    assert path.read_bytes() == damaged_length


def test_whole_chunk_is_kept_where_a_torn_one_ends_with_the_file(tmp_path, chunk, frame):
    """The torn one announces just the bytes that another writer has put there."""
    good = chunk(frame(b"good"), 1)
    torn = chunk(frame(b"x" * 40), 1)[: 64 - len(good)]
    path = tmp_path / "shard"
    path.write_bytes(torn + good)
    with pytest.raises(ChecksumError, match=f"chunk 0: .* a whole chunk is at byte {len(torn)}"):
        append(path)
    assert path.read_bytes() == torn + good


@pytest.mark.parametrize("text", [b"no", b"not a record file", b"a text of many words " * 99])
def test_file_that_is_no_record_file_is_not_cut(tmp_path, text):
    path = tmp_path / "notes.txt"
    path.write_bytes(text)
    with pytest.raises(BadMagicError, match="nothing was cut"):
        append(path)
    assert path.read_bytes() == text


def test_chunk_that_is_only_unknown_is_not_cut(tmp_path, chunk, frame):
    data, _ = shard(Codec.NONE)
    path = tmp_path / "newer"
    path.write_bytes(data + chunk(b"payload", 1, codec=18))
    with pytest.raises(UnsupportedCodecError):
        append(path)
    path.write_bytes(data + chunk(frame(b"a"), 2))
    with pytest.raises(FormatError, match="2 records cannot be in 5 bytes"):
        append(path)
    assert path.stat().st_size == len(data) + 25


def test_empty_file_and_empty_chunks_are_appended_to(tmp_path, chunk):
    path = tmp_path / "shard"
    path.write_bytes(b"")
    assert append(path) == 0
    assert list(RecordScanner(path)) == NEW
    path.write_bytes(chunk(b"", 0) * 2 + b"\4\3")
    assert append(path) == 2
    assert list(RecordScanner(path)) == NEW
    assert RecordIndex.load(path).chunks[2].offset_bytes == 40


def test_exception_takes_back_what_was_appended(tmp_path):
    data, _ = shard(Codec.NONE)
    path = tmp_path / "shard"
    path.write_bytes(data + b"\4\3\2")

    def append_half() -> None:
        with RecordAppender(path, max_chunk_bytes=0) as appender:
            appender.write(b"first")
            appender.write(b"second")
            assert path.stat().st_size > len(data)
            raise KeyError

    with pytest.raises(KeyError):
        append_half()
    assert path.read_bytes() == data
    assert append(path) == 0


def test_full_disk_takes_back_what_was_appended(tmp_path):
    import resource
    import signal

    data, _ = shard(Codec.NONE)
    path = tmp_path / "shard"
    path.write_bytes(data)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(data) + 100, limits[1]))
    try:
        appender = RecordAppender(path, max_chunk_bytes=0)
        appender.write(bytes(70))
        appender.write(bytes(70))
        with pytest.raises(StorageError):
            appender.close()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert path.read_bytes() == data
    assert append(path) == 0


def test_second_appender_has_to_wait(tmp_path):
    """It would take the chunk that the first is writing for a torn one."""
    path = tmp_path / "shard"
    path.write_bytes(shard(Codec.NONE)[0])
    with RecordAppender(path), pytest.raises(ConflictError, match="is being appended to"):
        RecordAppender(path)
    assert append(path) == 0


@pytest.mark.parametrize("options", [{"level": 3}, {"max_chunk_bytes": -1}, {"max_raw_bytes": 0}])
def test_option_out_of_range_is_refused_before_anything_is_cut(tmp_path, options):
    data = shard(Codec.NONE)[0][:-1]
    path = tmp_path / "shard"
    path.write_bytes(data)
    with pytest.raises((ConfigError, FormatError)):
        RecordAppender(path, **options)
    assert path.read_bytes() == data
    assert append(path) > 0


def test_chunks_are_those_appended_and_closing_twice_is_fine(tmp_path):
    data, _ = shard(Codec.NONE)
    path = tmp_path / "shard"
    path.write_bytes(data)
    appender = RecordAppender(path, codec=Codec.LZ4)
    appender.write(b"new")
    assert appender.num_records == 1
    appender.close()
    appender.close()
    assert appender.chunks == list(RecordIndex.load(path).chunks[3:])
    with pytest.raises(ValueError, match="closed"):
        appender.write(b"")


@pytest.mark.parametrize("kind", ["missing", "folder", "fifo"])
def test_what_is_no_plain_file_is_refused(tmp_path, kind):
    path = tmp_path / "odd"
    if kind == "folder":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    with pytest.raises(NotFoundError if kind == "missing" else FormatError, match="odd"):
        RecordAppender(path)


def test_damage_before_the_last_chunk_stays_for_readers_to_find(tmp_path):
    data, ends = shard(Codec.GZIP)
    damaged = bytearray(data)
    damaged[ends[1] - 1] ^= 1
    path = tmp_path / "shard"
    path.write_bytes(damaged)
    assert append(path) == 0
    with pytest.raises(ChecksumError, match="chunk 0"):
        list(RecordScanner(path))
    assert path.read_bytes()[: len(data)] == damaged
