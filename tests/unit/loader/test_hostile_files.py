"""Record files made to harm, read by number: wrong sizes, and the memory that they would take."""

import struct
import tracemalloc
import zlib
from dataclasses import replace

import cramjam
import pytest

from tests.unit.loader.conftest import labels
from trainfeed.errors import FormatError
from trainfeed.loader import DataLoader, RecordFiles
from trainfeed.recordio import Codec, RecordIndex


def write_chunk(path, framing, num_records):
    payload = bytes(cramjam.zstd.compress(framing, level=1))
    words = 0x01020304, zlib.crc32(payload), Codec.ZSTD, len(payload), num_records
    path.write_bytes(struct.pack("<5I", *words) + payload)
    return path


def cost_of(act):
    """Return the most bytes that were taken meanwhile."""
    tracemalloc.start()
    try:
        act()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_chunk_that_decompresses_to_more_than_the_limit_is_refused(tmp_path):
    record = struct.pack("<I", (65 << 20) - 4) + bytes((65 << 20) - 4)
    path = write_chunk(tmp_path / "bomb", record, 1)
    del record

    def read():
        with pytest.raises(FormatError, match="raise max_raw_bytes") as caught:
            DataLoader(RecordFiles(path))
        assert (caught.value.path, caught.value.offset_bytes) == (str(path), 0)

    assert cost_of(read) < 1 << 20
    with DataLoader(RecordFiles(path, max_raw_bytes=1 << 27)) as loader:
        assert len(next(iter(loader))["record"][0]) == (65 << 20) - 4


def test_many_empty_records_cost_a_few_times_their_framing(tmp_path):
    path = write_chunk(tmp_path / "empty", bytes(1 << 20), 1 << 18)
    with DataLoader(RecordFiles(path), 8) as loader:
        assert cost_of(lambda: next(iter(loader))) < 16 << 20


@pytest.mark.parametrize(
    "lie",
    [
        {"raw_bytes": -120},
        {"num_records": -10, "raw_bytes": -120},
        {"num_records": -10},
        {"offset_bytes": -5},
        {"stored_bytes": 1 << 40},
        {"num_records": 1 << 32},
        {"num_records": 20},
        {"crc32": 1 << 32},
        {"raw_bytes": 1 << 40},
    ],
)
def test_an_index_that_cannot_be_right_is_refused(tmp_path, lie):
    path = write_chunk(tmp_path / "file", struct.pack("<I", 3) * 10 + b"abc" * 10, 10)
    (chunk,) = RecordIndex.load(path).chunks
    lying = RecordIndex((replace(chunk, **({"raw_bytes": 70} | lie)),))
    with pytest.raises(FormatError, match=str(path)):
        DataLoader(RecordFiles(path, indexes=[lying]))


def test_true_indexes_are_believed(images):
    indexes = [RecordIndex.load(path) for path in images.paths]
    with DataLoader(RecordFiles(images.paths, images.schema, indexes=indexes), 10) as loader:
        assert labels(loader) == list(range(100))
