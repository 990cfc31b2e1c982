"""Every compression of logs gives the lines of the plain file, or an error: never other lines."""

import bz2
import gzip
import io
import struct
import zlib
from contextlib import closing

import cramjam
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainfeed.errors import FormatError
from trainfeed.files.stores import Location
from trainfeed.sources import LineRange, iter_lines
from trainfeed.sources.compressed_logs import decompressed
from trainfeed.sources.log_folders import compression_of

TEXT = b"".join(b"line %d of the log, twice: line %d\r\n" % (n, n) for n in range(4_000))
ERRORS = (EOFError, OSError, ValueError, pa.ArrowException, zlib.error)


def blocks(compress, data, block=30_000, piece=7_000):
    """Blocks as Hadoop writes them, of several pieces each."""
    out = b""
    for start in range(0, len(data), block):
        whole = data[start : start + block]
        out += struct.pack(">I", len(whole))
        for at in range(0, len(whole), piece):
            packed = compress(whole[at : at + piece])
            out += struct.pack(">I", len(packed)) + packed
    return out


def lz4_piece(data):
    return bytes(cramjam.lz4.compress_block(data, store_size=False))


def snappy_piece(data):
    return bytes(cramjam.snappy.compress_raw(data))


WRITERS = {
    "a.gz": gzip.compress,
    "a.zst": lambda data: bytes(cramjam.zstd.compress(data)),
    "a.bz2": bz2.compress,
    "a.lz4": lambda data: bytes(cramjam.lz4.compress(data)),
    "hadoop.lz4": lambda data: blocks(lz4_piece, data),
    "a.snappy": lambda data: bytes(cramjam.snappy.compress(data)),
    "a.sz": lambda data: bytes(cramjam.snappy.compress(data)),
    "hadoop.snappy": lambda data: blocks(snappy_piece, data),
}
# Blocks of Hadoop have no checksums, and frames of zstd need not have one.
CHECKED = ["a.gz", "a.bz2", "a.lz4", "a.snappy", "a.sz"]
all_kinds = pytest.mark.parametrize("name", WRITERS)


def content(name, data, size=1 << 16):
    with closing(decompressed(io.BytesIO(data), compression_of(name))) as stream:
        return b"".join(iter(lambda: stream.read(size), b""))


@all_kinds
@pytest.mark.parametrize("size", [1_000, 1 << 20])
def test_a_file_gives_its_content_in_any_pieces(name, size):
    assert content(name, WRITERS[name](TEXT), size) == TEXT


@all_kinds
def test_files_one_after_another_are_one(name):
    write = WRITERS[name]
    assert content(name, write(TEXT[:500]) + write(TEXT[500:])) == TEXT


@all_kinds
def test_the_lines_of_a_log_are_those_of_the_plain_file(tmp_path, name):
    def lines(path):
        span = LineRange(
            location=Location.parse(str(path)),
            compression=compression_of(path.name),
            size_bytes=path.stat().st_size,
            start=0,
            end=path.stat().st_size,
            timestamp_ms=0,
            max_line_bytes=100,
        )
        batches = list(iter_lines(span))
        return [(o.as_py(), v.as_py()) for b in batches for o, v in zip(b[0], b[4], strict=True)]

    (tmp_path / "plain").write_bytes(TEXT)
    (tmp_path / name).write_bytes(WRITERS[name](TEXT))
    assert lines(tmp_path / name) == lines(tmp_path / "plain")
    assert len(lines(tmp_path / name)) == 4_000
    (tmp_path / name).write_bytes(WRITERS[name](TEXT)[:-3])
    with pytest.raises(FormatError, match="do not decompress"):
        lines(tmp_path / name)


@all_kinds
def test_a_file_that_was_cut_is_an_error_or_ends_between_two_parts(name):
    data = WRITERS[name](TEXT[:2_000])
    whole = 0
    for length in range(1, len(data)):
        try:
            found = content(name, data[:length])
        except ERRORS:
            continue
        whole += 1
        assert TEXT.startswith(found)
    # Behind the mark of a stream of snappy; other parts end with the file.
    assert whole == (name in {"a.snappy", "a.sz"})


@pytest.mark.parametrize("name", CHECKED)
def test_a_changed_byte_never_gives_other_content(name):
    text = TEXT[:600]
    data = WRITERS[name](text)
    for place in range(len(data)):
        damaged = bytearray(data)
        damaged[place] ^= 0x11
        try:
            found = content(name, bytes(damaged))
        except ERRORS:
            continue
        assert found == text, place


@all_kinds
@given(data=st.binary(max_size=200))
def test_any_bytes_are_content_or_one_of_the_known_errors(name, data):
    try:
        content(name, data)
    except ERRORS:
        return


@pytest.mark.parametrize("name", ["hadoop.lz4", "hadoop.snappy"])
@pytest.mark.parametrize(
    "data",
    [
        struct.pack(">II", 100, 1 << 31),
        struct.pack(">II", 1 << 31, 4) + b"\xff\xff\xff\xff",
        struct.pack(">II", 100, 0),
        struct.pack(">II", 10, 5) + b"\xff\xff\xff\xff\x0f",
        struct.pack(">II", 1, len(snappy_piece(b"ab"))) + snappy_piece(b"ab"),
        b"\0\0",
    ],
    ids=["piece", "block", "nothing", "claim", "more than its block", "cut"],
)
def test_sizes_that_cannot_be_are_refused_before_memory_is_taken(name, data):
    with pytest.raises(ERRORS):
        content(name, data)


def test_frames_that_may_be_skipped_are_and_others_are_not():
    data = WRITERS["a.sz"](b"text\n")
    padding = b"\xfe\x03\x00\x00abc"
    assert content("a.sz", data + padding + data) == b"text\ntext\n"
    with pytest.raises(ValueError, match="kind 2"):
        content("a.sz", data + b"\x02\x00\x00\x00")
