"""Records by number: one, lists, and the index of one chunk."""

from __future__ import annotations

import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainfeed.errors import ChecksumError, FormatError, NotFoundError
from trainfeed.recordio import (
    Codec,
    RandomAccess,
    RangeScanner,
    RecordIndex,
    RecordScanner,
    RecordWriter,
)
from trainfeed.recordio import read as access_module

RECORDS = [bytes([number]) * (number % 5) for number in range(23)]


@pytest.fixture(params=Codec, ids=lambda codec: codec.name)
def path(request, tmp_path):
    """Files joined: chunks of a codec, two without records, chunks without codec."""
    file = io.BytesIO()
    with RecordWriter(file, codec=request.param, max_chunk_bytes=9) as writer:
        for record in RECORDS[:12]:
            writer.write(record)
    file.write(bytes.fromhex("04030201" + "00" * 16) * 2)
    with RecordWriter(file, max_chunk_bytes=9) as writer:
        for record in RECORDS[12:]:
            writer.write(record)
    path = tmp_path / "shard.recordio"
    path.write_bytes(file.getvalue())
    return path


def test_every_record_is_had_by_its_number(path):
    with RandomAccess(path) as records:
        assert len(records) == len(RECORDS)
        for i in [*range(23), *reversed(range(23))]:
            assert records.get(i) == RECORDS[i]
        assert records.get(np.int64(7)) == RECORDS[7]


@pytest.mark.parametrize("i", [-1, 23, 2**70])
def test_number_out_of_range_is_an_index_error_and_nothing_is_read(path, i):
    index = RecordIndex.load(path)
    path.write_bytes(b"")
    with RandomAccess(path, index) as records:
        with pytest.raises(IndexError, match=f"from 0 to 22, got {i}"):
            records.get(i)
        with pytest.raises(IndexError):
            records.get_many([0, 1, i])
        with pytest.raises(TypeError):
            records.get(1.0)


@given(st.lists(st.integers(0, 22), max_size=40))
@settings(derandomize=True, deadline=None)
def test_list_gives_its_records_in_its_order(ordinals):
    file = io.BytesIO()
    with RecordWriter(file, codec=Codec.LZ4, max_chunk_bytes=9) as writer:
        for record in RECORDS:
            writer.write(record)
    with RandomAccess(file, RecordIndex.load(file)) as records:
        expected = [RECORDS[i] for i in ordinals]
        assert records.get_many(ordinals) == expected
        assert records.get_many(np.array(ordinals, dtype=np.int32)) == expected


def test_each_chunk_of_a_list_is_decoded_once(path, monkeypatch):
    decoded = []

    class CountingReader(access_module.ChunkReader):
        def read_known(self, info):
            decoded.append(info.offset_bytes)
            return super().read_known(info)

    monkeypatch.setattr(access_module, "ChunkReader", CountingReader)
    index = RecordIndex.load(path)
    filled = [chunk.offset_bytes for chunk in index.chunks if chunk.num_records]
    with RandomAccess(path, index) as records:
        records.get_many([*reversed(range(23)), *range(23)])
        assert decoded == filled
        last = index.chunks[-1].num_records
        records.get_many(range(23 - last, 23))
        assert decoded == filled


def test_index_of_one_chunk_counts_from_its_first_record(path):
    """The unit in which work is handed out."""
    index = RecordIndex.load(path)
    found = []
    for number, chunk in enumerate(index.chunks):
        part = index.of_chunk(number)
        assert part.chunks == (chunk,)
        assert part.num_records == chunk.num_records
        with RandomAccess(path, part) as records:
            mine = [records.get(i) for i in range(len(records))]
            with pytest.raises(IndexError):
                records.get(len(records))
        assert list(RangeScanner(path, part)) == mine
        found += mine
    assert found == RECORDS == list(RecordScanner(path))


@pytest.mark.parametrize("number", [-1, 99])
def test_chunk_number_out_of_range_is_an_index_error(path, number):
    with pytest.raises(IndexError, match=f"got {number}"):
        RecordIndex.load(path).of_chunk(number)


def test_file_without_records_has_none_to_get(tmp_path, chunk):
    for data in (b"", chunk(b"", 0)):
        path = tmp_path / "empty"
        path.write_bytes(data)
        with RandomAccess(path) as records:
            assert (len(records), records.get_many([])) == (0, [])
            with pytest.raises(IndexError):
                records.get(0)


def test_damaged_chunk_is_named_and_never_shown_afterwards(path):
    index = RecordIndex.load(path)
    data = bytearray(path.read_bytes())
    data[index.chunks[1].end_bytes - 1] ^= 1
    path.write_bytes(data)
    start = index.chunks[0].num_records
    with RandomAccess(path, index) as records:
        assert records.get(0) == RECORDS[0]
        for _ in range(2):
            with pytest.raises(ChecksumError, match="chunk 1: ") as caught:
                records.get(start)
            assert caught.value.path == str(path)
        assert records.get_many([0, 22]) == [RECORDS[0], RECORDS[22]]


def test_index_of_another_file_is_refused(path):
    index = RecordIndex.load(path)
    data = path.read_bytes()
    path.write_bytes(data[index.chunks[0].end_bytes :])
    with RandomAccess(path, index) as records, pytest.raises(FormatError):
        records.get(0)


def test_closed_file_refuses_and_may_be_closed_again(path):
    records = RandomAccess(path)
    records.close()
    records.close()
    with pytest.raises(ValueError, match="closed"):
        records.get(0)


def test_missing_file_is_not_found(path):
    index = RecordIndex.load(path)
    path.unlink()
    with pytest.raises(NotFoundError):
        RandomAccess(path, index)
