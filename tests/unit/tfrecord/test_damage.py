"""Damaged and hostile files: every flipped bit, every length, wrong sizes, bombs."""

from __future__ import annotations

import io
import os
import tracemalloc
import zlib

import pytest

from trainfeed.damage import DamagePolicy
from trainfeed.errors import ChecksumError, FormatError, TruncatedError
from trainfeed.tfrecord import MAX_RECORD_BYTES, TFRecordReader, iter_records

TAIL = DamagePolicy.tolerate_truncated_tail()
HEADER_BYTES = 12
RECORDS = [b"hello", b"", b"x" * 30, b"y" * 30]
WINDOW_BITS = {"GZIP": 31, "ZLIB": 15}
TRAILER_BYTES = {"GZIP": 8, "ZLIB": 4}
SMALL_BYTES = 256 << 10


def compress(kind, data, level=6):
    return zlib.compress(data, level, WINDOW_BITS[kind])


def ends_of(framed):
    return [len(framed(*RECORDS[:i])) for i in range(len(RECORDS) + 1)]


def test_every_flipped_bit_is_reported(tmp_path, framed):
    data, ends = framed(*RECORDS), ends_of(framed)
    path = tmp_path / "flipped.tfrecord"
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        with pytest.raises(ChecksumError) as caught:
            list(TFRecordReader(path, compression=""))
        assert caught.value.path == str(path)
        number = sum(end <= bit // 8 for end in ends) - 1
        assert caught.value.offset_bytes == ends[number], f"bit {bit}"
        assert caught.value.args[0].startswith(f"record {number}: ")
        with pytest.raises(FormatError):
            list(TFRecordReader(path))


@pytest.mark.parametrize("kind", WINDOW_BITS)
@pytest.mark.parametrize("told", [False, True])
def test_flipped_bits_of_compressed_files_are_reported_or_harmless(framed, kind, told):
    """The time in a header says nothing about the data, nor do bits that fill up the last byte."""
    data = compress(kind, framed(*RECORDS))
    num_harmless = 0
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        file = io.BytesIO(flipped)
        try:
            assert list(iter_records(file, compression=kind if told else None)) == RECORDS
        except FormatError:
            continue
        num_harmless += 1
        last_byte = len(data) - TRAILER_BYTES[kind] - 1
        assert bit // 8 < 10 or bit // 8 == last_byte, f"bit {bit} of the data went unnoticed"
    assert num_harmless <= 72


def test_every_prefix_is_truncated(tmp_path, framed):
    data, ends = framed(*RECORDS), ends_of(framed)
    path = tmp_path / "prefix.tfrecord"
    for size in range(len(data) + 1):
        path.write_bytes(data[:size])
        num_whole = sum(end <= size for end in ends) - 1
        tolerant = TFRecordReader(path, on_damage=TAIL)
        assert list(tolerant) == RECORDS[:num_whole]
        if size in ends:
            assert list(TFRecordReader(path)) == RECORDS[:num_whole]
            assert tolerant.report.dropped == []
            continue
        with pytest.raises(
            TruncatedError, match=f"the file has {size - ends[num_whole]}"
        ) as caught:
            list(TFRecordReader(path))
        assert caught.value.offset_bytes == ends[num_whole]
        (torn,) = tolerant.report.dropped
        assert (torn.path, torn.start_bytes, torn.end_bytes) == (str(path), ends[num_whole], size)
        assert torn.num_records == (1 if size - ends[num_whole] >= HEADER_BYTES else None)


@pytest.mark.parametrize("kind", WINDOW_BITS)
def test_every_prefix_of_a_compressed_file_is_truncated(tmp_path, framed, kind):
    data = compress(kind, framed(*RECORDS))
    path = tmp_path / "prefix.tfrecord"
    for size in range(1, len(data)):
        path.write_bytes(data[:size])
        tolerant = TFRecordReader(path, compression=kind, on_damage=TAIL)
        got = list(tolerant)
        assert got == RECORDS[: len(got)]
        assert tolerant.report.num_chunks == 1
        with pytest.raises(TruncatedError):
            list(TFRecordReader(path))
        with pytest.raises(TruncatedError):
            list(TFRecordReader(path, compression=kind))


def test_tolerance_goes_on_with_the_next_file_and_forgives_nothing_else(tmp_path, framed):
    whole = framed(*RECORDS)
    (tmp_path / "a").write_bytes(whole[:-1])
    (tmp_path / "b").write_bytes(whole)
    reader = TFRecordReader(f"{tmp_path}/*", on_damage=TAIL)
    for _ in range(2):
        assert list(reader) == RECORDS[:-1] + RECORDS
        assert [torn.path for torn in reader.report.dropped] == [f"{tmp_path}/a"]
    (tmp_path / "a").write_bytes(whole[:-1] + b"?")
    with pytest.raises(ChecksumError):
        list(reader)


@pytest.mark.parametrize("num_stray", [1, 11, 12, 4096])
def test_zeros_behind_the_last_record_are_reported(framed, num_stray):
    with pytest.raises(FormatError):
        list(iter_records(io.BytesIO(framed(*RECORDS) + bytes(num_stray))))


def peak_bytes_of_refusal(data, **options):
    tracemalloc.start()
    try:
        with pytest.raises(FormatError):
            for _ in iter_records(io.BytesIO(data), **options):
                pass
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("num_bytes", [MAX_RECORD_BYTES + 1, 2**31, 2**32, 2**63, 2**64 - 1])
def test_length_beyond_the_limit_is_refused_before_memory_is_taken(header, num_bytes):
    data = header(num_bytes) + bytes(99)
    with pytest.raises(FormatError, match="raise max_record_bytes"):
        list(iter_records(io.BytesIO(data)))
    assert peak_bytes_of_refusal(data) < SMALL_BYTES


@pytest.mark.parametrize("kind", ["", *WINDOW_BITS])
def test_length_beyond_the_file_is_refused_before_memory_is_taken(header, kind):
    data = header(MAX_RECORD_BYTES) + bytes(99)
    data = compress(kind, data) if kind else data
    # A block of a compressed file is inflated into memory of its own.
    assert peak_bytes_of_refusal(data) < SMALL_BYTES + (2 << 20 if kind else 0)


@pytest.mark.parametrize("kind", WINDOW_BITS)
def test_bomb_is_refused_before_it_goes_off(header, kind):
    """64 MiB of zeros as one record, which a limit of 1 MiB does not let in."""
    data = compress(kind, header(MAX_RECORD_BYTES) + bytes(MAX_RECORD_BYTES), 9)
    assert len(data) < 100 << 10
    assert peak_bytes_of_refusal(data, max_record_bytes=1 << 20) < 4 << 20


@pytest.mark.parametrize("kind", WINDOW_BITS)
def test_bomb_of_small_records_takes_the_memory_of_a_block(framed, kind):
    num_records = 1 << 18
    data = compress(kind, framed(b"") * num_records, 9)
    tracemalloc.start()
    try:
        assert sum(1 for _ in iter_records(io.BytesIO(data))) == num_records
        assert tracemalloc.get_traced_memory()[1] < 6 << 20
    finally:
        tracemalloc.stop()


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
    with pytest.raises(FormatError, match="expected a plain file") as caught:
        list(TFRecordReader(path))
    assert caught.value.path == str(path)
