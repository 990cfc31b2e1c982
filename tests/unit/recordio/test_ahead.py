"""Chunks by threads ahead of the caller, and files that are mapped."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from trainfeed.errors import (
    ChecksumError,
    ConfigError,
    FormatError,
    NotFoundError,
    TruncatedError,
)
from trainfeed.recordio import (
    BufferPool,
    ChunkPlace,
    Codec,
    MappedFile,
    RandomAccess,
    RecordIndex,
    RecordWriter,
    decode_chunks,
    iter_chunks,
    read_chunk,
    read_chunks,
    split_records,
    verify_shard,
)

RECORDS = [bytes([i % 251]) * (i % 90) for i in range(2000)]


@pytest.fixture(params=Codec, ids=lambda codec: codec.name)
def path(request, tmp_path):
    path = tmp_path / "a"
    with RecordWriter(path, codec=request.param, max_chunk_bytes=2000) as writer:
        for record in RECORDS:
            writer.write(record)
    return path


def places_of(file, path=None):
    chunks = RecordIndex.load(path or file).chunks
    return [ChunkPlace(file, info, number) for number, info in enumerate(chunks)]


def records_of(chunks):
    return [
        bytes(record)
        for place, framing in chunks
        for record in split_records(framing, place.info.num_records)
    ]


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("lend", [False, True])
@pytest.mark.parametrize("mapped", [False, True])
def test_chunks_come_in_their_order(path, threads, lend, mapped):
    file = MappedFile(path) if mapped else path
    places = places_of(file)
    assert records_of(read_chunks(places, threads=threads, lend=lend)) == RECORDS
    backwards = [place for place, _ in read_chunks(places[::-1], threads=threads)]
    assert backwards == places[::-1]


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("pool", [None, BufferPool()], ids=["own", "pool"])
def test_chunks_are_decoded_in_their_order(path, threads, pool):
    places = places_of(path)
    records = decode_chunks(
        places,
        lambda number, framing: records_of([(places[number], framing)]),
        threads=threads,
        pool=pool,
    )
    assert [record for of_chunk in records for record in of_chunk] == RECORDS


@pytest.mark.parametrize("threads", [1, 2])
def test_what_decoding_raises_comes_in_order(path, threads):
    def decode(number, _framing):
        if number == 2:
            raise FormatError("no sample")
        return number

    decoded = decode_chunks(places_of(path), decode, threads=threads)
    assert [next(decoded), next(decoded)] == [0, 1]
    with pytest.raises(FormatError, match="no sample"):
        next(decoded)


@pytest.mark.parametrize("threads", [1, 3])
def test_framing_that_is_not_lent_stays_as_it_is(path, threads):
    kept = list(read_chunks(places_of(path), threads=threads, lend=False))
    assert records_of(kept) == RECORDS


@pytest.mark.parametrize("threads", [1, 3])
def test_several_files_are_read_one_after_another(tmp_path, threads):
    places = []
    for name in "abc":
        with RecordWriter(tmp_path / name, max_chunk_bytes=100) as writer:
            for record in RECORDS[:50]:
                writer.write(record)
        places += places_of(tmp_path / name)
    assert records_of(read_chunks(places, threads=threads)) == RECORDS[:50] * 3


@pytest.mark.parametrize("threads", [1, 2])
def test_damaged_chunk_is_named_after_those_before_it(path, threads):
    places = places_of(path)
    data = bytearray(path.read_bytes())
    data[places[3].info.end_bytes - 1] ^= 1
    path.write_bytes(data)
    seen = []
    chunks = (seen.append(place.number) for place, _ in read_chunks(places, threads=threads))
    with pytest.raises(ChecksumError, match="chunk 3: ") as caught:
        list(chunks)
    assert seen == [0, 1, 2]
    assert caught.value.path == str(path)
    assert caught.value.offset_bytes == places[3].info.offset_bytes


@pytest.mark.parametrize("threads", [1, 2])
def test_stopping_early_leaves_no_thread_and_no_open_file(path, threads):
    def held():
        return threading.active_count(), len(list(Path("/proc/self/fd").iterdir()))

    before = held()
    chunks = read_chunks(places_of(path), threads=threads)
    next(chunks)
    chunks.close()
    assert held() == before


def test_index_of_another_file_is_refused(path, tmp_path):
    places = places_of(path)
    other = tmp_path / "b"
    other.write_bytes(path.read_bytes()[places[0].info.end_bytes :])
    with pytest.raises(FormatError):
        list(read_chunks([ChunkPlace(other, place.info) for place in places]))


def test_no_threads_are_refused(path):
    with pytest.raises(ConfigError, match="got 0"):
        next(read_chunks(places_of(path), threads=0))


def test_mapped_file_is_read_by_everything_that_reads_files(path):
    with MappedFile(path) as file:
        index = RecordIndex.load(file)
        assert index == RecordIndex.load(path) == verify_shard(file)
        assert file.num_bytes() == path.stat().st_size
        framings = [framing for _, framing in iter_chunks(file)]
        for info, framing in zip(index.chunks, framings, strict=True):
            assert read_chunk(file, info) == framing
    assert b"".join(framings)
    with pytest.raises(ValueError, match="closed"):
        file.num_bytes()


def test_mapped_file_that_is_too_short_is_truncated(path):
    places = places_of(path)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(TruncatedError):
        list(read_chunks([place._replace(file=MappedFile(path)) for place in places]))
    with pytest.raises(TruncatedError):
        RecordIndex.load(MappedFile(path))


def test_empty_file_is_mapped(tmp_path):
    (tmp_path / "a").touch()
    with MappedFile(tmp_path / "a") as file:
        assert RecordIndex.load(file).chunks == ()


def test_what_is_no_file_is_not_mapped(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    for name, kind in (("fifo", FormatError), ("", FormatError), ("none", NotFoundError)):
        with pytest.raises(kind):
            MappedFile(tmp_path / name)


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_rows_are_gathered_in_the_order_asked_for(tmp_path, codec, mapped):
    records = [i.to_bytes(9, "little") for i in range(500)]
    with RecordWriter(tmp_path / "a", codec=codec, max_chunk_bytes=400) as writer:
        for record in records:
            writer.write(record)
    with RandomAccess(tmp_path / "a", mapped=mapped) as access:
        for _ in range(2):
            wanted = [499, 0, 7, 7, 250, 100]
            rows = access.gather(wanted)
            assert [row.tobytes() for row in rows] == [records[i] for i in wanted]
            assert access.get_many(wanted) == [records[i] for i in wanted]
            assert [access.get(i) for i in wanted] == [records[i] for i in wanted]
        assert access.gather([]).shape == (0, 0)
        assert [row.tobytes() for row in access.gather(range(500))] == records
        rows[:] = 0
        assert access.get(499) == records[499], "rows are the caller's own"


@pytest.mark.parametrize("mapped", [False, True])
def test_rows_of_records_that_differ_in_size_are_refused(path, mapped):
    with RandomAccess(path, mapped=mapped) as access:
        with pytest.raises(FormatError, match="one size"):
            access.gather([1, 2])
        assert access.get_many(range(2000)) == RECORDS
        assert access.get_many([1, 2, 1999, 5]) == [RECORDS[i] for i in (1, 2, 1999, 5)]


@pytest.mark.parametrize("mapped", [False, True])
def test_every_chunk_is_verified_before_a_record_of_it_is_shown(path, mapped):
    index = RecordIndex.load(path)
    data = bytearray(path.read_bytes())
    for info in index.chunks:
        data[info.end_bytes - 1] ^= 1
    path.write_bytes(data)
    with RandomAccess(path, index, mapped=mapped) as access:
        for i in (0, 700, 1999):
            with pytest.raises(ChecksumError):
                access.get(i)
            with pytest.raises(ChecksumError):
                access.gather([i])
