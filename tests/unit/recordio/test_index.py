"""Counting, locating and ranges, compared with slicing the list of all records."""

from __future__ import annotations

import io
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainfeed.errors import ChecksumError, NotFoundError
from trainfeed.recordio import (
    ChunkBuffers,
    Codec,
    RangeScanner,
    RecordIndex,
    RecordWriter,
    iter_chunks,
    read_chunk,
    split_records,
    verify_shard,
)

RECORDS = [bytes([number]) * (number % 5) for number in range(23)]


@pytest.fixture(params=Codec, ids=lambda codec: codec.name)
def path(request, tmp_path):
    """Chunks of every codec, with a chunk without records among them."""
    path = tmp_path / "shard.recordio"
    file = io.BytesIO()
    with RecordWriter(file, codec=request.param, max_chunk_bytes=9) as writer:
        for record in RECORDS[:12]:
            writer.write(record)
    file.write(bytes.fromhex("04030201" + "00" * 16))
    with RecordWriter(file, codec=Codec.NONE, max_chunk_bytes=9) as writer:
        for record in RECORDS[12:]:
            writer.write(record)
    path.write_bytes(file.getvalue())
    return path


def test_index_equals_what_verifying_finds(path):
    index = RecordIndex.load(path)
    assert index == verify_shard(path)
    assert index.num_records == len(RECORDS)
    assert index.chunks[-1].end_bytes == path.stat().st_size


def test_located_record_is_the_record(path):
    index = RecordIndex.load(path)
    for i, record in enumerate(RECORDS):
        number, place = index.locate(i)
        chunk = index.chunks[number]
        with path.open("rb") as file:
            records = split_records(read_chunk(file, chunk), chunk.num_records)
        assert records[place] == record


@pytest.mark.parametrize("i", [-1, len(RECORDS), 2**40])
def test_record_number_out_of_range_is_an_index_error(path, i):
    with pytest.raises(IndexError, match=f"from 0 to 22, got {i}"):
        RecordIndex.load(path).locate(i)


def test_empty_file_has_an_index():
    index = RecordIndex.load(io.BytesIO())
    assert (index.num_records, index.chunks) == (0, ())
    with pytest.raises(IndexError):
        index.locate(0)


def test_every_range_equals_slicing(path):
    index = RecordIndex.load(path)
    for start in range(-2, len(RECORDS) + 3):
        for length in range(-1, len(RECORDS) + 3):
            first = max(start, 0)
            expected = RECORDS[first:] if length < 0 else RECORDS[first : first + length]
            scanner = RangeScanner(path, index, start=start, length=length)
            assert list(scanner) == expected, (start, length)


def test_range_can_be_read_again(path):
    scanner = RangeScanner(path, RecordIndex.load(path), start=3, length=10)
    assert list(scanner) == list(scanner) == RECORDS[3:13]


def test_range_reads_only_the_chunks_it_needs(path):
    index = RecordIndex.load(path)
    damaged = bytearray(path.read_bytes())
    damaged[index.chunks[0].end_bytes - 1] ^= 1
    path.write_bytes(damaged)
    start = index.chunks[0].num_records
    assert list(RangeScanner(path, index, start=start)) == RECORDS[start:]
    with pytest.raises(ChecksumError, match="chunk 0: ") as caught:
        list(RangeScanner(path, index, start=start - 1))
    assert (caught.value.path, caught.value.offset_bytes) == (str(path), 0)


def test_chunk_is_read_from_path_descriptor_and_file_alike(path):
    chunk = RecordIndex.load(path).chunks[1]
    with path.open("rb") as file:
        file.seek(3)
        framings = [read_chunk(source, chunk) for source in (path, file.fileno(), file)]
        assert file.tell() == chunk.end_bytes
    assert framings[0] == framings[1] == framings[2]


def test_error_of_a_descriptor_names_the_file(path):
    data = bytearray(path.read_bytes())
    chunk = RecordIndex.load(path).chunks[1]
    data[chunk.end_bytes - 1] ^= 1
    path.write_bytes(data)
    with path.open("rb") as file, pytest.raises(ChecksumError) as caught:
        read_chunk(file.fileno(), chunk)
    assert (caught.value.path, caught.value.offset_bytes) == (str(path), chunk.offset_bytes)


def test_threads_may_share_a_descriptor(path):
    index = RecordIndex.load(path)
    expected = [bytes(framing) for _, framing in iter_chunks(path)]
    results: dict[int, list[bytes]] = {}

    def read(worker: int) -> None:
        buffers = ChunkBuffers()
        results[worker] = [
            bytes(read_chunk(file.fileno(), chunk, buffers=buffers))
            for _ in range(20)
            for chunk in index.chunks
        ]

    with path.open("rb") as file:
        threads = [threading.Thread(target=read, args=(worker,)) for worker in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert all(results[worker] == expected * 20 for worker in range(4))


def test_framing_without_buffers_outlives_the_next_chunk(path):
    kept = [framing for _, framing in iter_chunks(path)]
    assert kept == [bytes(framing) for _, framing in iter_chunks(path)]


def test_buffers_are_used_again(path):
    buffers = ChunkBuffers()
    chunk = RecordIndex.load(path).chunks[1]
    first = read_chunk(path, chunk, buffers=buffers)
    second = read_chunk(path, chunk, buffers=buffers)
    # The library that decompresses zstd in one step recycles memory of its own.
    assert (first.obj is second.obj) == (chunk.codec is not Codec.ZSTD)


def test_missing_file_is_not_found(tmp_path):
    with pytest.raises(NotFoundError, match="missing"):
        RecordIndex.load(tmp_path / "missing")


class Trickle(io.BytesIO):
    """Returns at most three bytes at once, as network files may."""

    def read(self, size=-1):
        return super().read(min(size, 3))


@given(st.lists(st.binary(max_size=30), max_size=12), st.sampled_from(Codec))
@settings(derandomize=True, deadline=None)
def test_file_that_gives_little_at_once_is_read_whole(records, codec):
    file = Trickle()
    with RecordWriter(file, codec=codec, max_chunk_bytes=40) as writer:
        for record in records:
            writer.write(record)
    assert RecordIndex.load(file).num_records == len(records)
    found = [
        bytes(record)
        for info, framing in iter_chunks(file)
        for record in split_records(framing, info.num_records)
    ]
    assert found == records
