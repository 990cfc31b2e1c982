"""Chunks made to harm: right checksums, lying sizes, bombs."""

from __future__ import annotations

import io
import random
import struct
import tracemalloc
import zlib
from typing import Any

import cramjam
import pyarrow  # noqa: F401 (the first decompression would import it, which takes memory)
import pytest

from trainfeed.errors import FormatError
from trainfeed.recordio import (
    MAX_RAW_BYTES,
    ChunkBuffers,
    Codec,
    RecordIndex,
    RecordScanner,
    iter_chunks,
    split_records,
    verify_shard,
)

EXTREMES = [2**31 - 1, 2**31, 2**32 - 1]
SMALL_BYTES = 256 << 10
# To read a stored payload of up to 3 MiB; the bombs below hold at least 16 MiB.
STORED_BYTES = 6 << 20


def zstd_frame(content: int, *, field: int = 3) -> bytes:
    """A frame without window that states ``content`` bytes and holds one empty last block."""
    return (
        b"\x28\xb5\x2f\xfd" + bytes([field << 6 | 0x20]) + content.to_bytes(8, "little") + b"\1\0\0"
    )


def snappy_stream(*frames: tuple[int, bytes]) -> bytes:
    head = b"\xff\x06\0\0sNaPpY"
    return head + b"".join(
        bytes([kind]) + len(body).to_bytes(3, "little") + body for kind, body in frames
    )


def gzip_with_size(data: bytes, num_bytes: int) -> bytes:
    return zlib.compress(data, 6, 31)[:-4] + num_bytes.to_bytes(4, "little")


HOSTILE = {
    "many records in nothing": (b"", 2**32 - 1, Codec.NONE),
    "more records than framing": (b"\0" * 400, 101, Codec.NONE),
    "fewer records than framing": (b"\0" * 400, 99, Codec.NONE),
    "empty payload of a codec": (b"", 0, Codec.SNAPPY),
    "gzip of a few bytes": (b"\x1f\x8b", 0, Codec.GZIP),
    "gzip without end": (zlib.compress(bytes(99), 6, 31)[:-9] + b"\x63\0\0\0", 1, Codec.GZIP),
    "two gzip members": (zlib.compress(b"", 6, 31) + zlib.compress(b"", 6, 31), 0, Codec.GZIP),
    "gzip with bytes behind": (zlib.compress(b"", 6, 31) + bytes(8), 0, Codec.GZIP),
    "gzip damaged inside": (b"\x1f\x8b\x08" + b"\xff" * 40 + b"\x04\0\0\0", 1, Codec.GZIP),
    "gzip that ends before its size": (gzip_with_size(b"\0" * 40, 44), 11, Codec.GZIP),
    "lz4 without length": (b"\0\0", 0, Codec.LZ4),
    "lz4 without block": (b"\4\0\0\0", 1, Codec.LZ4),
    "lz4 that ends before its size": (b"\x08\0\0\0\x40\0\0\0\0", 1, Codec.LZ4),
    "zstd without magic": (bytes(20), 0, Codec.ZSTD),
    "zstd of 2^63": (zstd_frame(2**63), 1, Codec.ZSTD),
    "zstd of 2^64 - 1": (zstd_frame(2**64 - 1), 1, Codec.ZSTD),
    "zstd that ends before its size": (zstd_frame(4), 1, Codec.ZSTD),
    "zstd without content size": (b"\x28\xb5\x2f\xfd\0\x58\x01\0\0", 0, Codec.ZSTD),
    "zstd with dictionary": (b"\x28\xb5\x2f\xfd\x21\x07\0\x01\0\0", 0, Codec.ZSTD),
    "zstd header cut": (zstd_frame(0)[:9], 0, Codec.ZSTD),
    "zstd without last block": (zstd_frame(0)[:-3] + b"\0\0\0", 0, Codec.ZSTD),
    "zstd with reserved block": (zstd_frame(0)[:-3] + b"\x07\0\0", 0, Codec.ZSTD),
    "two zstd frames": (zstd_frame(0) * 2, 0, Codec.ZSTD),
    "zstd and a frame to skip": (zstd_frame(0) + b"\x50\x2a\x4d\x18\0\0\0\0", 0, Codec.ZSTD),
    "snappy without identifier": (b"\x01\x04\0\0\0\0\0\0", 0, Codec.SNAPPY),
    "snappy of an unknown frame": (snappy_stream((0x02, bytes(8))), 0, Codec.SNAPPY),
    "snappy stored frame without checksum": (snappy_stream((0x01, b"\0")), 0, Codec.SNAPPY),
    "snappy frame without size": (snappy_stream((0x00, bytes(4))), 0, Codec.SNAPPY),
    "snappy frame past the end": (snappy_stream((0x01, bytes(9)))[:-1], 0, Codec.SNAPPY),
    "snappy block too large": (
        snappy_stream((0x00, b"\0\0\0\0\xff\xff\xff\xff\x0f" + bytes(8))), 1, Codec.SNAPPY,
    ),
    "snappy of a wrong checksum": (snappy_stream((0x01, bytes(8))), 1, Codec.SNAPPY),
    "snappy of frames to skip": (snappy_stream(*[(0xFE, b"")] * 65), 0, Codec.SNAPPY),
    "snappy of frames without data": (snappy_stream(*[(0x01, bytes(4))] * 65), 0, Codec.SNAPPY),
}  # fmt: skip
for size in EXTREMES:
    HOSTILE[f"{size} records"] = (b"\0" * 400, size, Codec.NONE)
    HOSTILE[f"record of {size} bytes"] = (struct.pack("<I", size) + bytes(9), 1, Codec.NONE)
    HOSTILE[f"lz4 of {size} bytes"] = (struct.pack("<I", size) + bytes(99), 1, Codec.LZ4)
    HOSTILE[f"gzip of {size} bytes"] = (gzip_with_size(bytes(9), size), 1, Codec.GZIP)
    HOSTILE[f"zstd of {size} bytes"] = (zstd_frame(size), 1, Codec.ZSTD)

# Sizes within the limit, which these few bytes cannot yield.
UNREACHABLE = {
    Codec.SNAPPY: snappy_stream(*[(0x00, b"\0\0\0\0\x80\x80\x04\0")] * 900),
    Codec.GZIP: gzip_with_size(bytes(9), 60 << 20),
    Codec.LZ4: (60 << 20).to_bytes(4, "little") + bytes(99),
    Codec.ZSTD: zstd_frame(60 << 20),
}


def read_all(data: bytes, **options: Any) -> None:
    for info, framing in iter_chunks(io.BytesIO(data), **options):
        split_records(framing, info.num_records)


def peak_bytes_of_refusal(data: bytes, **options: Any) -> int:
    """Return the most memory it took to refuse a file."""
    tracemalloc.start()
    try:
        with pytest.raises(FormatError):
            read_all(data, **options)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_chunk_is_refused_before_memory_is_taken(chunk, name):
    """RD-04."""
    assert peak_bytes_of_refusal(chunk(*HOSTILE[name])) < SMALL_BYTES


@pytest.mark.parametrize("codec", UNREACHABLE)
def test_size_that_the_payload_cannot_yield_is_refused_before_memory_is_taken(chunk, codec):
    """RD-04: raw size against stored size."""
    assert peak_bytes_of_refusal(chunk(UNREACHABLE[codec], 1, codec)) < SMALL_BYTES


def test_index_refuses_more_records_than_fit(chunk):
    """RD-04: the index reads no payload, so nothing else would notice."""
    for size in EXTREMES:
        with pytest.raises(FormatError, match=f"{size} records cannot be in 8 bytes"):
            RecordIndex.load(io.BytesIO(chunk(bytes(8), size)))


class Counted(io.BytesIO):
    """Counts how often, and how much, it is read."""

    num_reads = num_bytes = 0

    def read(self, size: int | None = -1) -> bytes:
        data = super().read(size)
        self.num_reads, self.num_bytes = self.num_reads + 1, self.num_bytes + len(data)
        return data


def test_index_does_not_read_every_small_snappy_frame_by_itself(chunk):
    """RD-04: 4 MiB of hostile frames took as many reads as there were frames."""
    frame = (0x01, bytes(4) + b"x")
    file = Counted(chunk(snappy_stream(*[frame] * 40_000), 1, Codec.SNAPPY))
    assert RecordIndex.load(file).chunks[0].raw_bytes == 40_000
    assert file.num_reads < 20
    skips = Counted(chunk(snappy_stream(*[(0xFE, b"")] * 40_000), 0, Codec.SNAPPY))
    with pytest.raises(FormatError, match="snappy frames without data"):
        RecordIndex.load(skips)
    assert skips.num_bytes < 1 << 17


def test_index_reads_little_of_large_snappy_frames(chunk):
    payload = bytes(cramjam.snappy.compress(random.Random(3).randbytes(4 << 20)))
    file = Counted(chunk(payload, 1, Codec.SNAPPY))
    assert RecordIndex.load(file).chunks[0].raw_bytes == 4 << 20
    assert file.num_bytes < 4096


def test_index_refuses_a_frame_with_dictionary(chunk):
    payload, num_records, codec = HOSTILE["zstd with dictionary"]
    with pytest.raises(FormatError, match="without dictionary"):
        RecordIndex.load(io.BytesIO(chunk(payload, num_records, codec)))


def test_payload_that_ends_early_does_not_show_the_chunk_before_it(chunk, frame):
    """Buffers are used again: what is not overwritten would pass for the rest."""
    framing = frame(b"secret", b"record")
    whole = chunk(b"\x14\0\0\0\xf0\x05" + framing, 2, Codec.LZ4)
    early = chunk(b"\x14\0\0\0\xa0" + framing[:10], 2, Codec.LZ4)
    with pytest.raises(FormatError, match="announces 20 bytes and yields 10"):
        read_all(whole + early, buffers=ChunkBuffers())


def test_empty_records_take_no_memory_of_their_own(chunk):
    """RD-05: 4 bytes of framing each, of which few bytes make millions."""
    num_records = 1 << 18
    data = chunk(compressed_zeros(Codec.ZSTD, 4 * num_records), num_records, Codec.ZSTD)
    tracemalloc.start()
    try:
        path = io.BytesIO(data)
        assert verify_shard(path).num_records == num_records
        # The framing, and a position per record.
        assert tracemalloc.get_traced_memory()[1] < 5 * 4 * num_records
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("stored", [23, 24, *EXTREMES])
def test_stored_size_beyond_the_file_is_refused_before_memory_is_taken(chunk, stored):
    """RD-04."""
    data = bytearray(chunk(struct.pack("<I", 18) + bytes(18), 1))
    data[12:16] = stored.to_bytes(4, "little")
    assert peak_bytes_of_refusal(bytes(data)) < SMALL_BYTES


def test_stored_size_beyond_the_limit_is_refused(chunk):
    for size, message in ((5000, "at most 4774 stored bytes"), (3004, "at most 3000 bytes")):
        with pytest.raises(FormatError, match=message):
            read_all(chunk(bytes(size), size // 4), max_raw_bytes=3000)


def compressed_zeros(codec: Codec, num_bytes: int) -> bytes:
    zeros = bytes(num_bytes)
    match codec:
        case Codec.NONE:
            return zeros
        case Codec.SNAPPY:
            return bytes(cramjam.snappy.compress(zeros))
        case Codec.GZIP:
            return zlib.compress(zeros, 9, 31)
        case Codec.LZ4:
            return bytes(cramjam.lz4.compress_block(zeros, store_size=True))
        case Codec.ZSTD:
            return bytes(cramjam.zstd.compress(zeros, level=19))


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec is not Codec.NONE])
def test_bomb_is_refused_before_it_goes_off(tmp_path, chunk, codec):
    """RD-05: beyond the default limit, announced truthfully."""
    data = chunk(compressed_zeros(codec, MAX_RAW_BYTES + 4), MAX_RAW_BYTES // 4 + 1, codec)
    assert peak_bytes_of_refusal(data) < STORED_BYTES
    path = tmp_path / "bomb.recordio"
    path.write_bytes(data)
    for read in (verify_shard, lambda path: list(RecordScanner(path))):
        with pytest.raises(FormatError, match="raise max_raw_bytes if the file can be trusted"):
            read(path)
    assert RecordIndex.load(path).chunks[0].raw_bytes == MAX_RAW_BYTES + 4


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_bomb_that_announces_little_yields_no_more_than_it_announces(chunk, codec):
    """RD-05: 16 MiB of zeros behind a header that speaks of 4 bytes."""
    payload = bytearray(compressed_zeros(codec, 16 << 20))
    if codec is Codec.GZIP:
        payload[-4:] = b"\4\0\0\0"
    elif codec is Codec.LZ4:
        payload[:4] = b"\4\0\0\0"
    else:
        descriptor = payload[4]
        assert descriptor >> 6 == 2
        start = 5 if descriptor & 0x20 else 6
        payload[start : start + 4] = b"\4\0\0\0"
    data = chunk(bytes(payload), 1, codec)
    assert peak_bytes_of_refusal(data) < STORED_BYTES


def test_snappy_frame_that_announces_little_yields_no_more_than_it_announces(chunk):
    """RD-05."""
    block = bytearray(cramjam.snappy.compress_raw(bytes(1 << 16)))
    assert block[:3] == b"\x80\x80\x04"
    block[:3] = b"\x04"
    data = chunk(snappy_stream((0x00, b"\0\0\0\0" + bytes(block))), 1, Codec.SNAPPY)
    assert peak_bytes_of_refusal(data) < SMALL_BYTES


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec is not Codec.NONE])
def test_mutated_payloads_raise_nothing_but_format_errors(chunk, frame, codec):
    """RD-09, a small fixed share of it: damage that the checksum does not show."""
    choose = random.Random(7)
    framing = frame(*(choose.randbytes(choose.randrange(60)) * 3 for _ in range(40)))
    payload = compress(codec, framing)
    num_refused = 0
    for _ in range(600):
        mutated = bytearray(payload)
        for _ in range(choose.randint(1, 4)):
            mutated[choose.randrange(len(mutated))] = choose.randrange(256)
        del mutated[choose.choice([len(mutated), choose.randrange(len(mutated))]) :]
        try:
            read_all(chunk(bytes(mutated), 40, codec))
        except FormatError:
            num_refused += 1
    assert num_refused > 300


def compress(codec: Codec, framing: bytes) -> bytes:
    match codec:
        case Codec.SNAPPY:
            return bytes(cramjam.snappy.compress(framing))
        case Codec.GZIP:
            return zlib.compress(framing, 6, 31)
        case Codec.LZ4:
            return bytes(cramjam.lz4.compress_block(framing, store_size=True))
        case _:
            return bytes(cramjam.zstd.compress(framing, level=1))
