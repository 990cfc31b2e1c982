"""The Fluid layout: read behind an explicit call, told apart by checksum."""

from __future__ import annotations

import io
import struct
import zlib

import cramjam
import pytest

from trainfeed.errors import (
    BadMagicError,
    ChecksumError,
    FormatError,
    TruncatedError,
    UnsupportedCodecError,
)
from trainfeed.recordio import Codec, FluidScanner, RecordIndex, RecordScanner, RecordWriter

CHUNKS = [[b"Hello", b""], [b"World!"], [b"x" * 30, b"end"]]
RECORDS = [record for records in CHUNKS for record in records]


@pytest.fixture(params=[0, 1], ids=["none", "snappy"])
def codec(request):
    return request.param


@pytest.fixture
def fluid(frame, codec):
    """Return a file, and where its chunks start and the last one ends."""
    data, ends = b"", [0]
    for records in CHUNKS:
        payload = frame(*records)
        if codec:
            payload = bytes(cramjam.snappy.compress(payload))
        words = (0x01020304, len(records), zlib.crc32(payload), codec, len(payload))
        data += struct.pack("<5I", *words) + payload
        ends.append(len(data))
    return data, ends


def test_records_are_read_raw_and_again(tmp_path, fluid):
    path = tmp_path / "fluid"
    path.write_bytes(fluid[0])
    scanner = FluidScanner(path)
    assert list(scanner) == list(scanner) == RECORDS
    assert list(FluidScanner(io.BytesIO(fluid[0] * 2))) == RECORDS * 2


def test_files_without_records_are_read():
    empty_chunk = struct.pack("<5I", 0x01020304, 0, 0, 0, 0)
    assert list(FluidScanner(io.BytesIO())) == []
    assert list(FluidScanner(io.BytesIO(empty_chunk * 2))) == []


def test_other_calls_name_the_layout_and_the_call_that_reads_it(tmp_path, fluid):
    path = tmp_path / "fluid"
    path.write_bytes(fluid[0])
    for read in (RecordIndex.load, lambda path: list(RecordScanner(path))):
        with pytest.raises(FormatError, match=r"Fluid layout, not Go layout; .* FluidScanner"):
            read(path)


@pytest.mark.parametrize("go", Codec)
def test_go_layout_is_named(go):
    file = io.BytesIO()
    with RecordWriter(file, codec=go) as writer:
        writer.write(b"a record of some length")
    with pytest.raises(FormatError, match="this is the Go layout; read it with RecordScanner"):
        list(FluidScanner(file))


def test_every_flipped_bit_is_reported(fluid):
    """RD-01 and RD-02, exhaustive."""
    data, ends = fluid
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        found = []
        with pytest.raises(FormatError) as caught:
            found.extend(FluidScanner(io.BytesIO(flipped)))
        assert caught.value.offset_bytes in ends, f"bit {bit}"
        assert found == RECORDS[: len(found)]


def test_every_prefix_is_truncated(fluid):
    """RD-03, exhaustive."""
    data, ends = fluid
    for size in range(len(data) + 1):
        found = []
        if size in ends:
            whole = [record for records in CHUNKS[: ends.index(size)] for record in records]
            assert list(FluidScanner(io.BytesIO(data[:size]))) == whole
            continue
        with pytest.raises(TruncatedError):
            found.extend(FluidScanner(io.BytesIO(data[:size])))
        assert found == RECORDS[: len(found)]


@pytest.mark.parametrize("words", [(2, 20), (3, 20), (2**32 - 1, 20)])
def test_codec_that_the_layout_lacks_is_named(words):
    data = struct.pack("<5I", 0x01020304, 1, 0, words[0], words[1]) + bytes(words[1])
    with pytest.raises(UnsupportedCodecError, match=f"codec 0 or 1 .* got {words[0]}"):
        list(FluidScanner(io.BytesIO(data)))


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (bytes(20), BadMagicError),
        (struct.pack("<5I", 0x01020304, 1, 1, 0, 4) + bytes(4), ChecksumError),
        (
            struct.pack("<5I", 0x01020304, 2**32 - 1, zlib.crc32(bytes(4)), 0, 4) + bytes(4),
            FormatError,
        ),
        (struct.pack("<5I", 0x01020304, 1, 0, 0, 2**32 - 1), TruncatedError),
    ],
    ids=["no magic", "checksum", "too many records", "longer than the file"],
)
def test_damage_is_reported(data, error):
    with pytest.raises(error, match="chunk 0: ") as caught:
        list(FluidScanner(io.BytesIO(data)))
    assert caught.value.offset_bytes == 0


def test_chunk_beyond_the_limit_is_refused(fluid):
    with pytest.raises(FormatError, match="raise max_raw_bytes"):
        list(FluidScanner(io.BytesIO(fluid[0]), max_raw_bytes=20))
