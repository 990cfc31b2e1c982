"""Damaged files: every flipped bit, every length, and typical damage of disks."""

from __future__ import annotations

import io
import os
import random
import zlib
from itertools import pairwise

import pytest

from trainfeed.damage import DamagePolicy
from trainfeed.errors import (
    BadMagicError,
    ChecksumError,
    FormatError,
    TruncatedError,
    UnsupportedCodecError,
)
from trainfeed.recordio import (
    Codec,
    RangeScanner,
    RecordIndex,
    RecordScanner,
    RecordWriter,
    iter_chunks,
    read_chunk,
    verify_shard,
)
from trainfeed.recordio import chunk as _byte_source

RECORDS = [b"Hello", b"", b"World!", b"x" * 60, b"\x04\x03\x02\x01" * 5, b"end"]


def shard(codec: Codec) -> tuple[bytes, list[int]]:
    """Three chunks of two records, and where each ends."""
    file = io.BytesIO()
    ends = [0]
    for start in range(0, len(RECORDS), 2):
        with RecordWriter(file, codec=codec) as writer:
            writer.write(RECORDS[start])
            writer.write(RECORDS[start + 1])
        ends.append(len(file.getvalue()))
    return file.getvalue(), ends


@pytest.mark.parametrize("codec", Codec)
def test_every_flipped_bit_is_reported(tmp_path, codec):
    """RD-01 and RD-02, exhaustive: header and payload."""
    data, ends = shard(codec)
    path = tmp_path / "flipped.recordio"
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        with pytest.raises(FormatError) as caught:
            list(RecordScanner(path))
        assert caught.value.path == str(path)
        assert caught.value.offset_bytes in ends, f"bit {bit}"


def test_flipped_bits_of_a_chunk_without_records_are_reported_or_harmless(golden, tmp_path, chunk):
    data = chunk(b"", 0)
    path = tmp_path / "flipped.recordio"
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        try:
            assert list(RecordScanner(path)) == []
        except FormatError:
            continue
        pytest.fail(f"bit {bit} went unnoticed")


@pytest.mark.parametrize("codec", Codec)
def test_every_prefix_is_truncated(tmp_path, codec):
    """RD-03, exhaustive."""
    data, ends = shard(codec)
    path = tmp_path / "prefix.recordio"
    for size in range(len(data) + 1):
        path.write_bytes(data[:size])
        if size in ends:
            assert list(RecordScanner(path)) == RECORDS[: 2 * ends.index(size)]
            continue
        for read in (verify_shard, RecordIndex.load, lambda path: list(RecordScanner(path))):
            with pytest.raises(TruncatedError):
                read(path)


@pytest.mark.parametrize(
    ("garbage", "error"),
    [
        (b"\0" * 4096, BadMagicError),
        (b"\0" * 5, TruncatedError),
        (b"\x04\x03\x02\x01", TruncatedError),
        (b"\xff" * 64, BadMagicError),
        (b"HTTP/1.1 404 Not Found", BadMagicError),
    ],
)
@pytest.mark.parametrize("where", ["before", "between", "after"])
def test_foreign_bytes_are_reported(tmp_path, garbage, error, where):
    """RD-07: zeroed pages, stale tails."""
    data, ends = shard(Codec.NONE)
    cut = {"before": 0, "between": ends[1], "after": len(data)}[where]
    path = tmp_path / "garbage.recordio"
    path.write_bytes(data[:cut] + garbage + data[cut:])
    if where != "after" and len(garbage) < 20:
        error = FormatError  # it takes bytes of the next chunk to fill a header
    with pytest.raises(error) as caught:
        verify_shard(path)
    assert caught.value.offset_bytes == cut
    assert str(caught.value).startswith(f"chunk {ends.index(cut)}: ")


def test_the_layout_of_mxnet_is_named(tmp_path):
    path = tmp_path / "mxnet.rec"
    path.write_bytes(bytes.fromhex("0a23d7ce 05000000") + b"Hello" + bytes(27))
    with pytest.raises(BadMagicError, match="got 0xced7230a, which is MXNet's RecordIO"):
        verify_shard(path)


def test_zeroed_page_in_a_payload_is_a_checksum_error(tmp_path):
    """RD-07."""
    path = tmp_path / "hole.recordio"
    with RecordWriter(path) as writer:
        writer.write(random.Random(1).randbytes(20_000))
    data = bytearray(path.read_bytes())
    data[4096:8192] = bytes(4096)
    path.write_bytes(data)
    with pytest.raises(ChecksumError, match=r"chunk 0: expected CRC-32 0x[0-9a-f]{8}, got"):
        verify_shard(path)


def test_unknown_codec_is_named(tmp_path, chunk):
    """RD-08."""
    path = tmp_path / "newer.recordio"
    path.write_bytes(chunk(b"payload", 1, codec=18))
    with pytest.raises(UnsupportedCodecError, match=r"17 zstd; got 18: .* newer version") as caught:
        list(RecordScanner(path))
    assert (caught.value.path, caught.value.offset_bytes) == (str(path), 0)


def test_fluid_layout_is_named(tmp_path, frame):
    path = tmp_path / "fluid.recordio"
    payload = frame(b"Hello")
    words = (0x01020304, 1, zlib.crc32(payload), 0, len(payload))
    path.write_bytes(b"".join(word.to_bytes(4, "little") for word in words) + payload)
    with pytest.raises(FormatError, match="this is the Fluid layout"):
        list(RecordScanner(path))


def test_elasticdl_layout_is_named(tmp_path):
    """0xe3069283 is the published CRC-32C of the nine digits."""
    path = tmp_path / "elasticdl.recordio"
    words = (0x01020304, 1, 0xE3069283, 1, 9)
    path.write_bytes(b"".join(word.to_bytes(4, "little") for word in words) + b"123456789")
    with pytest.raises(FormatError, match="this is the ElasticDL layout"):
        RecordIndex.load(path)


@pytest.mark.parametrize("change", ["swapped", "doubled", "dropped"])
def test_index_notices_exchanged_chunks(tmp_path, change):
    """RD-06: every chunk is intact, but not where the index has it."""
    data, ends = shard(Codec.ZSTD)
    chunks = [data[start:end] for start, end in pairwise(ends)]
    path = tmp_path / "shard.recordio"
    path.write_bytes(data)
    index = RecordIndex.load(path)
    order = {"swapped": [1, 0, 2], "doubled": [0, 0, 1, 2], "dropped": [0, 2]}[change]
    path.write_bytes(b"".join(chunks[number] for number in order))
    with pytest.raises(FormatError) as caught:
        list(RangeScanner(path, index))
    assert caught.value.path == str(path)


@pytest.mark.parametrize("number", range(6))
def test_chunk_must_agree_with_the_index_in_every_number(tmp_path, number):
    data, _ = shard(Codec.LZ4)
    path = tmp_path / "shard.recordio"
    path.write_bytes(data)
    info = RecordIndex.load(path).chunks[1]
    values = list(vars(info).values())
    values[number] = Codec.ZSTD if number == 5 else values[number] + 1
    with path.open("rb") as file, pytest.raises(FormatError):
        read_chunk(file.fileno(), type(info)(*values))


def test_file_that_shrinks_while_it_is_read_is_truncated(tmp_path):
    """RD-11."""
    data, ends = shard(Codec.NONE)
    path = tmp_path / "shrinking.recordio"
    path.write_bytes(data)
    chunks = iter_chunks(path)
    next(chunks)
    os.truncate(path, ends[1] + 25)
    with pytest.raises(TruncatedError):
        next(chunks)


@pytest.mark.parametrize("left", [0, 3, 30])
def test_a_file_that_becomes_shorter_while_it_is_read_ends_the_search_for_whole_chunks(
    tmp_path, monkeypatch, left
):
    path = tmp_path / "a"
    with RecordWriter(path, max_chunk_bytes=1, quantum_records=1) as writer:
        writer.write(b"first")
        writer.write(bytes(3_000_000))
    first = writer.chunks[0]
    reads, read_into = [], _byte_source._Descriptor.read_into

    def counted(self, offset_bytes, out):
        reads.append(offset_bytes)
        assert len(reads) < 100, "reads without end"
        return read_into(self, offset_bytes, out)

    monkeypatch.setattr(_byte_source._Descriptor, "read_into", counted)
    scanner = RecordScanner(path, on_damage=DamagePolicy.skip_chunk(max=9))
    records = iter(scanner)
    assert next(records) == b"first"
    os.truncate(path, first.end_bytes + left)
    assert list(records) == []
    assert scanner.report.num_chunks == 1
