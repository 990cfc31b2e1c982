"""Files of other implementations, byte for byte."""

from __future__ import annotations

import io

import pytest

from trainfeed.recordio import Codec, RecordIndex, RecordScanner, RecordWriter, verify_shard

R3 = [b"Hello", b"", b"World!"]
R4 = [*R3, b"x" * 100]

FILES = {
    "g1_snappy_four_records": R4,
    "g2_snappy_stored_frame": R3,
    "g3_none": R3,
    "g4_gzip": R3,
    "g5_one_empty_record": [b""],
    "g6_no_records": [],
}
COMPOSITES = {
    "three codecs": (["g3_none", "g4_gzip", "g2_snappy_stored_frame"], R3 * 3),
    "no records first": (["g6_no_records", "g3_none"], R3),
    "no records between": (["g3_none", "g6_no_records", "g3_none"], R3 * 2),
    "no records last": (["g3_none", "g6_no_records"], R3),
    "nothing": ([], []),
}


@pytest.mark.parametrize("name", FILES)
def test_golden_file_is_read(golden, name):
    path = golden / f"{name}.recordio"
    assert list(RecordScanner(path)) == FILES[name]
    assert RecordIndex.load(path) == verify_shard(path)
    assert RecordIndex.load(path).num_records == len(FILES[name])


@pytest.mark.parametrize("name", COMPOSITES)
def test_concatenated_files_are_one_file(golden, tmp_path, name):
    parts, records = COMPOSITES[name]
    path = tmp_path / "composite.recordio"
    path.write_bytes(b"".join((golden / f"{part}.recordio").read_bytes() for part in parts))
    assert list(RecordScanner(path)) == records
    assert RecordIndex.load(path) == verify_shard(path)


@pytest.mark.parametrize(
    ("name", "codec"),
    [
        ("g1_snappy_four_records", Codec.SNAPPY),
        ("g2_snappy_stored_frame", Codec.SNAPPY),
        ("g3_none", Codec.NONE),
        ("g5_one_empty_record", Codec.SNAPPY),
    ],
)
def test_writer_gives_the_golden_bytes(golden, name, codec):
    file = io.BytesIO()
    with RecordWriter(file, codec=codec) as writer:
        for record in FILES[name]:
            writer.write(record)
    assert file.getvalue() == (golden / f"{name}.recordio").read_bytes()


def test_extended_codecs_have_the_documented_bytes():
    """An LZ4 block behind its raw length, a zstd frame of one stored block: written out by hand."""
    framing = b"\x05\0\0\0Hello"
    lz4_block = bytes([len(framing) << 4]) + framing
    zstd_frame = (
        b"\x28\xb5\x2f\xfd\x20"
        + bytes([len(framing)])
        + (len(framing) << 3 | 1).to_bytes(3, "little")
        + framing
    )
    assert _payload(Codec.LZ4) == len(framing).to_bytes(4, "little") + lz4_block
    assert _payload(Codec.ZSTD) == zstd_frame


def _payload(codec):
    file = io.BytesIO()
    with RecordWriter(file, codec=codec) as writer:
        writer.write(b"Hello")
    return file.getvalue()[20:]
