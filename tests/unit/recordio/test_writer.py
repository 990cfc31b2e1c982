"""Chunks as the writer cuts them, and files that appear whole or not at all."""

from __future__ import annotations

import errno
import io
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainfeed.errors import (
    ConfigError,
    ConflictError,
    FormatError,
    NotFoundError,
    QuotaExceededError,
    StorageError,
)
from trainfeed.recordio import (
    ChunkFraming,
    ChunkLimits,
    Codec,
    RecordIndex,
    RecordWriter,
    iter_chunks,
    split_records,
)

MIB = 1 << 20


def write(records, **options):
    """Return the file's bytes and its chunks."""
    file = io.BytesIO()
    with RecordWriter(file, **options) as writer:
        for record in records:
            writer.write(record)
    return file.getvalue(), writer.chunks


def read(data):
    """Return the records of every chunk."""
    return [
        [bytes(record) for record in split_records(framing, info.num_records)]
        for info, framing in iter_chunks(io.BytesIO(data))
    ]


@pytest.mark.parametrize(
    ("sizes", "max_chunk_bytes", "expected"),
    [
        ([5, 4, 2], 10, [[5, 4], [2]]),
        ([6, 4], 10, [[6, 4]]),
        ([6, 5], 10, [[6], [5]]),
        ([MIB] * 70, 32 * MIB, [[MIB] * 32, [MIB] * 32, [MIB] * 6]),
        ([1, 40 * MIB, 1], 32 * MIB, [[1], [40 * MIB], [1]]),
        ([5, 0, 0, 3, 0], 0, [[5], [0, 0], [3], [0]]),
        ([0, 0, 5, 5], 0, [[0, 0], [5], [5]]),
        ([10, 10, 0], 10, [[10], [10, 0]]),
        ([], 10, []),
    ],
)
def test_chunk_is_closed_before_the_record_that_would_exceed_it(sizes, max_chunk_bytes, expected):
    data, chunks = write((bytes(size) for size in sizes), max_chunk_bytes=max_chunk_bytes)
    assert [[len(record) for record in chunk] for chunk in read(data)] == expected
    assert [chunk.num_records for chunk in chunks] == [len(chunk) for chunk in expected]


@pytest.mark.parametrize(
    ("num_records", "size", "max_chunk_bytes", "expected"),
    [
        (1000, 100, 30_000, [256, 256, 256, 232]),
        (2000, 100, 60_000, [512, 512, 512, 464]),
        (300, 4096, MIB, [256, 44]),
        (300, 4097, MIB, [255, 45]),
        (600, 4096, 2 * MIB, [512, 88]),
        (600, 4097, 2 * MIB, [511, 89]),
        (600, 100, 25_599, [255, 255, 90]),
        (1500, 792, MIB, [1280, 220]),
        (300, 100, MIB, [300]),
    ],
)
def test_chunks_of_small_records_hold_multiples_of_the_quantum(
    num_records, size, max_chunk_bytes, expected
):
    """All but the last chunk, as long as the limit leaves room for one quantum."""
    _, chunks = write([bytes(size)] * num_records, max_chunk_bytes=max_chunk_bytes)
    assert [chunk.num_records for chunk in chunks] == expected
    with RecordWriter(io.BytesIO(), max_chunk_bytes=max_chunk_bytes) as writer:
        writer.write_array(np.zeros(num_records, dtype=f"V{size}"))
    assert writer.chunks == chunks


def test_one_large_record_ends_the_quantum_of_its_chunk():
    records = [bytes(100)] * 290 + [bytes(4097)] + [bytes(100)] * 300
    _, chunks = write(records, max_chunk_bytes=35_000)
    assert [chunk.num_records for chunk in chunks] == [290 + 1 + 19, 281]
    _, chunks = write(records, max_chunk_bytes=33_000)
    assert [chunk.num_records for chunk in chunks] == [256, 34 + 1 + 255, 45]


def test_quantum_of_one_fills_every_chunk():
    _, chunks = write([bytes(100)] * 700, max_chunk_bytes=30_000, quantum_records=1)
    assert [chunk.num_records for chunk in chunks] == [300, 300, 100]


def test_framing_stays_within_what_readers_take():
    """Record bytes alone would never close a chunk of empty records."""
    _, chunks = write([b""] * 10_000, max_raw_bytes=4096)
    assert max(chunk.raw_bytes for chunk in chunks) == 4096
    assert sum(chunk.num_records for chunk in chunks) == 10_000


records_and_limits = st.fixed_dictionaries(
    {
        "records": st.lists(st.binary(max_size=40), max_size=60),
        "codec": st.sampled_from(Codec),
        "max_chunk_bytes": st.integers(0, 400),
        "quantum_records": st.sampled_from([1, 2, 5, 8]),
    }
)


@given(records_and_limits)
@settings(derandomize=True, deadline=None)
def test_records_come_back_and_chunks_keep_their_limits(case):
    records, limit = case.pop("records"), case["max_chunk_bytes"]
    data, chunks = write(records, **case)
    assert write(records, **case)[0] == data
    per_chunk = read(data)
    assert [record for chunk in per_chunk for record in chunk] == records
    assert list(RecordIndex.load(io.BytesIO(data)).chunks) == chunks
    for chunk in per_chunk:
        assert sum(map(len, chunk)) <= limit or len(chunk) == 1


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("raw_bytes", [4, 255, 256, 257, 65_791, 65_792, 65_793, 1 << 17, 300_000])
def test_size_of_the_framing_is_stated_whatever_it_is(codec, raw_bytes):
    """Codecs write it in fields of different width, and in several blocks."""
    record = bytes(number * number % 251 for number in range(raw_bytes - 4))
    data, chunks = write([record], codec=codec)
    assert [chunk.raw_bytes for chunk in chunks] == [raw_bytes]
    assert list(RecordIndex.load(io.BytesIO(data)).chunks) == chunks
    assert read(data) == [[record]]


@given(
    st.lists(st.tuples(st.sampled_from([1, 3, 12]), st.integers(0, 40)), max_size=6),
    st.integers(0, 200),
    st.sampled_from([1, 4, 7]),
    st.integers(16, 120),
)
@settings(derandomize=True, deadline=None, max_examples=300)
def test_arrays_give_the_same_file_as_their_records(blocks, max_chunk_bytes, quantum, max_raw):
    """Also when single records and arrays of other sizes take turns."""
    options = {
        "max_chunk_bytes": max_chunk_bytes,
        "quantum_records": quantum,
        "max_raw_bytes": max_raw,
    }
    one_by_one, by_array = io.BytesIO(), io.BytesIO()
    with RecordWriter(one_by_one, **options) as left, RecordWriter(by_array, **options) as right:
        for size, number in blocks:
            items = np.arange(size * number, dtype=np.uint8).view(f"V{size}")
            right.write_array(items)
            for item in items:
                left.write(item.tobytes())
            left.write(b"single")
            right.write(b"single")
            assert left.num_records == right.num_records
    assert one_by_one.getvalue() == by_array.getvalue()
    assert left.chunks == right.chunks


@pytest.mark.parametrize("num_small", [10, 255, 256, 300, 700])
def test_array_of_large_records_closes_a_chunk_of_small_ones_as_they_do_one_by_one(num_small):
    one_by_one, by_array = io.BytesIO(), io.BytesIO()
    items = np.zeros(3, "V5000")
    with (
        RecordWriter(one_by_one, max_chunk_bytes=6000) as left,
        RecordWriter(by_array, max_chunk_bytes=6000) as right,
    ):
        for writer in (left, right):
            for _ in range(num_small):
                writer.write(b"small")
        right.write_array(items)
        for item in items:
            left.write(item.tobytes())
    assert one_by_one.getvalue() == by_array.getvalue()
    assert left.chunks == right.chunks


def test_framing_that_somebody_looks_at_stays_as_it_is():
    pending = ChunkFraming(ChunkLimits(100, 1 << 20, 2))
    expected = [bytes([i]) * (30 if i < 100 else i % 40) for i in range(200)]
    taken = []
    for record in expected:
        while not pending.append(record):
            taken.append(pending.take())
    taken.append(pending.take(last=True))
    for i in range(5):
        assert pending.extend(np.full(20, i, "u1").view("V5")) == 4
        expected += [bytes([i]) * 5] * 4
        taken.append(pending.take(last=True))
    records = [bytes(r) for framing, number in taken for r in split_records(framing, number)]
    assert records == expected


def test_array_with_gaps_between_its_items_is_written_as_its_records():
    items = np.zeros(20, dtype=[("a", "<i4"), ("b", "u1")])
    items["a"] = np.arange(20)
    file = io.BytesIO()
    with RecordWriter(file) as writer:
        writer.write_array(items[::2])
    assert read(file.getvalue()) == [[item.tobytes() for item in items[::2]]]


@pytest.mark.parametrize(
    "array",
    [np.zeros((2, 2)), np.array([object()]), np.zeros(3, dtype="V0")],
    ids=["two dimensions", "objects", "no bytes"],
)
def test_array_that_is_no_list_of_records_is_refused(array):
    with pytest.raises(TypeError, match=r"expected an array of shape \(n,\)"):
        RecordWriter(io.BytesIO()).write_array(array)


@pytest.mark.parametrize("record", ["text", [1, 2], 5, None])
def test_record_that_is_no_bytes_is_refused(record):
    with pytest.raises(TypeError):
        RecordWriter(io.BytesIO()).write(record)


def test_bytes_of_any_buffer_are_a_record():
    numbers = np.arange(3, dtype="<u2")
    data, _ = write([bytearray(b"ab"), memoryview(numbers)])
    assert read(data) == [[b"ab", numbers.tobytes()]]


def test_record_beyond_the_limit_is_refused_and_the_others_stay():
    """SP-12: refused before it is copied."""
    file = io.BytesIO()
    with RecordWriter(file, max_raw_bytes=104) as writer:
        writer.write(bytes(100))
        with pytest.raises(FormatError, match="at most 100 bytes, got 101; raise max_raw_bytes"):
            writer.write(bytes(101))
        with pytest.raises(FormatError):
            writer.write_array(np.zeros(1, dtype="V101"))
        writer.write(bytes(100))
    assert read(file.getvalue()) == [[bytes(100)], [bytes(100)]]


@pytest.mark.parametrize(
    "options",
    [
        {"codec": Codec.ZSTD, "level": 0},
        {"codec": Codec.ZSTD, "level": 23},
        {"codec": Codec.GZIP, "level": 10},
        {"codec": Codec.LZ4, "level": 1},
        {"max_chunk_bytes": -1},
        {"quantum_records": 0},
        {"max_raw_bytes": 2**31},
    ],
)
def test_option_out_of_range_is_refused_before_a_file_is_made(tmp_path, options):
    with pytest.raises(ConfigError):
        RecordWriter(tmp_path / "shard", **options)
    assert list(tmp_path.iterdir()) == []


def test_unknown_codec_is_refused_at_once():
    with pytest.raises(ValueError, match="7 is not a valid Codec"):
        RecordWriter(io.BytesIO(), codec=7)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.ZSTD])
def test_level_is_used(codec):
    records = [bytes(number % 7 * number % 251 for number in range(i, i + 3000)) for i in range(50)]
    small, large = (len(write(records, codec=codec, level=level)[0]) for level in (9, 1))
    assert small < large
    assert read(write(records, codec=codec, level=9)[0])[0] == records


def test_file_appears_when_it_is_closed_and_not_before(tmp_path):
    path = tmp_path / "shard.recordio"
    with RecordWriter(path) as writer:
        writer.write(b"record")
        assert not path.exists()
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]
    assert read(path.read_bytes()) == [[b"record"]]


def test_writer_without_records_leaves_an_empty_file(tmp_path):
    with RecordWriter(tmp_path / "empty"):
        pass
    assert (tmp_path / "empty").read_bytes() == b""


def test_exception_leaves_no_file(tmp_path):
    def write_half() -> None:
        with RecordWriter(tmp_path / "shard", max_chunk_bytes=0) as writer:
            writer.write(b"first")
            writer.write(b"second")
            raise KeyError

    with pytest.raises(KeyError):
        write_half()
    assert list(tmp_path.iterdir()) == []


def test_writer_that_is_dropped_leaves_no_file(tmp_path):
    writer = RecordWriter(tmp_path / "shard")
    with pytest.raises(TypeError):
        writer.write("abc")
    del writer
    assert list(tmp_path.iterdir()) == []


def test_existing_file_is_not_replaced(tmp_path):
    path = tmp_path / "shard"
    path.write_bytes(b"other")
    with pytest.raises(ConflictError, match="exists"):
        RecordWriter(path)
    path.unlink()
    writer = RecordWriter(path)
    path.write_bytes(b"faster")
    with pytest.raises(ConflictError):
        writer.close()
    assert path.read_bytes() == b"faster"
    assert list(tmp_path.iterdir()) == [path]


def test_missing_folder_is_not_found(tmp_path):
    with pytest.raises(NotFoundError):
        RecordWriter(tmp_path / "missing" / "shard")


def test_open_file_gets_chunks_at_its_end_and_stays_open(tmp_path):
    path = tmp_path / "shard"
    data, _ = write([b"first"])
    path.write_bytes(data)
    with path.open("ab") as file:
        with RecordWriter(file) as writer:
            writer.write(b"second")
        assert not file.closed
    assert read(path.read_bytes()) == [[b"first"], [b"second"]]
    assert writer.chunks == list(RecordIndex.load(path).chunks[1:])


def test_closed_writer_refuses_records_and_may_be_closed_again():
    writer = RecordWriter(io.BytesIO())
    writer.write(b"record")
    writer.close()
    writer.close()
    for call in (lambda: writer.write(b""), lambda: writer.write_array(np.zeros(1))):
        with pytest.raises(ValueError, match="closed"):
            call()


class SlowFile(io.RawIOBase):
    """Takes at most seven bytes at once, and no more than it has room for."""

    def __init__(self, room: int) -> None:
        self.data = bytearray()
        self.room = room

    def tell(self):
        return 0

    def write(self, data):
        if len(self.data) >= self.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.data += bytes(data[:7])
        return len(data[:7])


def test_file_that_takes_little_at_once_gets_everything():
    file = SlowFile(room=1000)
    with RecordWriter(file) as writer:
        writer.write(b"a record of more than seven bytes")
    assert read(bytes(file.data)) == [[b"a record of more than seven bytes"]]


def test_full_disk_is_a_quota_error_and_closes_the_writer():
    file = SlowFile(room=30)
    writer = RecordWriter(file, max_chunk_bytes=0)
    writer.write(bytes(50))
    with pytest.raises(QuotaExceededError):
        writer.write(bytes(50))
    with pytest.raises(ValueError, match="closed"):
        writer.write(bytes(50))
    writer.close()
    assert len(file.data) < 40
    assert writer.chunks == []


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4, Codec.ZSTD])
@pytest.mark.parametrize("max_chunk_bytes", [0, 5000, MIB])
def test_plain_files_get_chunks_together_and_the_same_bytes(tmp_path, codec, max_chunk_bytes):
    records = [bytes([i % 251]) * 900 for i in range(8000)]
    options = {"codec": codec, "max_chunk_bytes": max_chunk_bytes}
    path = tmp_path / "shard"
    with path.open("xb", buffering=0) as file, RecordWriter(file, **options) as writer:
        for record in records[:4000]:
            writer.write(record)
        writer.write_array(np.array(records[4000:], "S900").view("V900"))
    assert path.read_bytes() == write(records, **options)[0]


def test_file_that_takes_part_of_what_is_given_together_gets_everything(tmp_path, monkeypatch):
    real, sizes = os.writev, []

    def part(fd, pieces):
        whole = b"".join(pieces)
        sizes.append(len(pieces))
        return os.write(fd, whole[: max(1, len(whole) // 3)]) if pieces else real(fd, pieces)

    monkeypatch.setattr(os, "writev", part)
    records = [bytes([i % 251]) * 1000 for i in range(5000)]
    with RecordWriter(tmp_path / "shard") as writer:
        for record in records:
            writer.write(record)
    assert (tmp_path / "shard").read_bytes() == write(records)[0]
    assert max(sizes) > 2


@pytest.mark.parametrize(
    ("number", "expected"), [(errno.ENOSPC, QuotaExceededError), (errno.EIO, StorageError)]
)
def test_refused_bytes_that_waited_are_an_error_at_the_end(tmp_path, monkeypatch, number, expected):
    def refuse(_fd, _pieces):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "writev", refuse)
    writer = RecordWriter(tmp_path / "shard")
    writer.write(b"a record")
    with pytest.raises(expected, match="shard"):
        writer.close()
    with pytest.raises(ValueError, match="closed"):
        writer.write(b"another")
    assert not list(tmp_path.iterdir())
