"""Batches of files, and chunks of records of different length as columns."""

from __future__ import annotations

import os
import struct

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trainfeed.errors import ChecksumError, ConfigError, FormatError, NotFoundError, StorageError
from trainfeed.recordio import Codec, RecordIndex, RecordWriter
from trainfeed.samples import Field, SampleReader, Schema, TypedCodec

FIXED = Schema(
    (
        Field("image", "uint8", (5, 8)),
        Field("label", "int64"),
        Field("flag", "bool"),
        Field("extra", "float32", (2,), optional=True),
    )
)
VARIABLE = Schema(
    (
        Field("blob", "bytes"),
        Field("label", "int64"),
        Field("name", "str", optional=True),
        Field("points", "float32", (None, 2), optional=True),
        Field("mask", "bool", (None,)),
        Field("size", "int16", (2,), optional=True),
    )
)
NUM_SAMPLES = 1000


def sample(schema, i):
    if schema is FIXED:
        return {
            "image": np.full((5, 8), i % 256, np.uint8),
            "label": i,
            "flag": i % 3 == 0,
            "extra": None if i % 4 else [i, -i],
        }
    return {
        "blob": bytes([i % 256]) * (i % 37),
        "label": i,
        "name": None if i % 5 == 0 else f"é{i}",
        "points": None if i % 7 == 0 else np.full((i % 4, 2), i, np.float32),
        "mask": np.arange(i % 3) % 2 == 0,
        "size": None if i % 6 == 0 else [i, 1],
    }


def write(path, schema, numbers, codec=Codec.NONE, max_chunk_bytes=3000, quantum_records=1):
    encode = TypedCodec(schema).encode
    with RecordWriter(
        path, codec=codec, max_chunk_bytes=max_chunk_bytes, quantum_records=quantum_records
    ) as writer:
        for i in numbers:
            writer.write(encode(sample(schema, i)))
    return path


@pytest.fixture(params=[Codec.NONE, Codec.ZSTD], ids=["none", "zstd"])
def codec(request):
    return request.param


@pytest.fixture(params=[FIXED, VARIABLE], ids=["fixed", "variable"])
def schema(request):
    return request.param


def require_samples(batches, schema, numbers):
    """Compare batches with samples that are decoded one by one."""
    typed = TypedCodec(schema)
    rows = (
        {name: column[i] for name, column in batch.items()}
        for batch in batches
        for i in range(len(batch["label"]))
    )
    for number, row in zip(numbers, rows, strict=True):
        expected = typed.decode(typed.encode(sample(schema, number)))
        assert list(row) == list(expected)
        for name, value in row.items():
            require_same(value, expected[name])


def require_same(value, expected):
    if expected is None:
        assert value is None or np.ma.getmaskarray(value).all()
    elif isinstance(expected, np.ndarray):
        assert not np.ma.is_masked(value)
        assert np.asarray(value).dtype == expected.dtype
        assert np.array_equal(value, expected)
    else:
        assert bytes(value) == expected if isinstance(value, memoryview) else value == expected


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("copy", [False, True])
def test_batches_hold_the_samples_in_order(tmp_path, schema, codec, mapped, threads, copy):
    path = write(tmp_path / "a", schema, range(300), codec)
    reader = SampleReader(path, schema, threads=threads, mapped=mapped, copy=copy)
    assert reader.num_samples == 300
    for num_samples in (1, 64, 300):
        batches = list(reader.iter_batches(num_samples))
        sizes = [len(batch["label"]) for batch in batches]
        assert sizes[:-1] == [num_samples] * (len(batches) - 1)
        require_samples(batches, schema, range(300))


@given(st.integers(1, 400), st.lists(st.integers(0, 90), max_size=5), st.integers(1, 40))
@settings(
    derandomize=True, deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow]
)
def test_batches_go_across_chunks_and_files(tmp_path_factory, num_samples, sizes, chunk_records):
    folder = tmp_path_factory.mktemp("files")
    start, paths = 0, []
    for number, size in enumerate(sizes):
        numbers = range(start, start + size)
        paths.append(
            write(folder / f"{number}", FIXED, numbers, max_chunk_bytes=60 * chunk_records)
        )
        start += size
    batches = list(SampleReader(paths, FIXED).iter_batches(num_samples))
    assert all(len(batch["label"]) == num_samples for batch in batches[:-1])
    require_samples(batches, FIXED, range(start))


def test_arrays_are_contiguous_and_the_callers_own(tmp_path):
    path = write(tmp_path / "a", FIXED, range(500), quantum_records=64)
    for mapped in (False, True):
        batches = list(SampleReader(path, FIXED, mapped=mapped).iter_batches(64))
        for batch in batches:
            for column in batch.values():
                assert column.flags["C_CONTIGUOUS"]
                assert column.flags["ALIGNED"]
        for batch in batches:
            batch["image"][:] = 9
        assert next(iter(SampleReader(path, FIXED).iter_batches(9)))["image"][3, 0, 0] == 3


def test_bytes_that_are_not_copied_are_views(tmp_path, codec):
    path = write(tmp_path / "a", VARIABLE, range(100), codec)
    batches = SampleReader(path, VARIABLE, copy=False).iter_batches(40)
    blobs = [blob for batch in list(batches) for blob in batch["blob"]]
    assert all(isinstance(blob, memoryview) for blob in blobs)
    assert [bytes(blob) for blob in blobs] == [sample(VARIABLE, i)["blob"] for i in range(100)]


def test_file_without_records_has_no_batches(tmp_path, schema):
    (tmp_path / "a").touch()
    for threads in (1, 2):
        assert list(SampleReader(tmp_path / "a", schema, threads=threads).iter_batches(3)) == []


@pytest.mark.parametrize("threads", [1, 2])
def test_damage_is_named_with_file_and_chunk(tmp_path, schema, threads):
    path = write(tmp_path / "a", schema, range(300))
    info = RecordIndex.load(path).chunks[2]
    data = bytearray(path.read_bytes())
    data[info.end_bytes - 1] ^= 1
    path.write_bytes(data)
    with pytest.raises(ChecksumError, match="chunk 2: ") as caught:
        list(SampleReader(path, schema, threads=threads).iter_batches(5))
    assert (caught.value.path, caught.value.offset_bytes) == (str(path), info.offset_bytes)


def test_records_of_another_schema_are_named_with_file_and_chunk(tmp_path, schema):
    path = tmp_path / "a"
    with RecordWriter(path) as writer:
        writer.write(b"1234567")
    with pytest.raises(FormatError, match="chunk 0: ") as caught:
        list(SampleReader(path, schema).iter_batches(5))
    assert (caught.value.path, caught.value.offset_bytes) == (str(path), 0)


def test_options_out_of_range_are_refused(tmp_path):
    (tmp_path / "a").touch()
    with pytest.raises(ConfigError, match="thread"):
        SampleReader(tmp_path / "a", FIXED, threads=0)
    with pytest.raises(ValueError, match="got 0"):
        next(SampleReader(tmp_path / "a", FIXED).iter_batches(0))
    with pytest.raises(NotFoundError):
        SampleReader(f"{tmp_path}/b*", FIXED)


def framing_of(*records):
    return memoryview(b"".join(struct.pack("<I", len(record)) + record for record in records))


def test_every_flipped_bit_and_every_prefix_of_a_chunk_is_refused_or_decodes_as_its_records():
    """Columns and single records never disagree about what is damaged."""
    codec = TypedCodec(VARIABLE)
    framing = framing_of(*(codec.encode(sample(VARIABLE, i)) for i in (3, 7, 30)))
    num_refused = 0
    for damaged, num_records in damages(bytes(framing)):
        single = [decoded(codec, damaged, num_records)]
        try:
            columns = codec.decode_columns(memoryview(damaged), num_records)
        except FormatError:
            num_refused += 1
            assert single == [None]
        else:
            assert single != [None]
            for i, expected in enumerate(single[0]):
                for name, value in expected.items():
                    require_exact(columns[name][i], value)
    assert num_refused > 500


def damages(framing):
    for bit in range(8 * len(framing)):
        damaged = bytearray(framing)
        damaged[bit // 8] ^= 1 << bit % 8
        yield bytes(damaged), 3
    for end in range(len(framing)):
        yield framing[:end], 3
    yield framing, 2
    yield framing, 4


def decoded(codec, framing, num_records):
    records, start = [], 0
    while start + 4 <= len(framing):
        (length,) = struct.unpack_from("<I", framing, start)
        records.append(framing[start + 4 : start + 4 + length])
        start += 4 + length
    if start != len(framing) or len(records) != num_records:
        return None
    try:
        return [codec.decode(record) for record in records]
    except FormatError:
        return None


def require_exact(value, expected):
    if isinstance(expected, np.ndarray):
        assert np.asarray(value).tobytes() == expected.tobytes()
    else:
        require_same(value, expected)


def test_count_beyond_every_chunk_is_refused_before_memory_is_taken():
    schema = Schema((Field("x", "float64", (None, 1000, 1000)),))
    framing = framing_of(struct.pack("<I", 0xFFFFFFFF))
    with pytest.raises(FormatError, match="more values"):
        TypedCodec(schema).decode_columns(framing, 1)


@pytest.mark.timeout(30)
@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize("what", ["fifo", "folder", "device"])
def test_what_is_no_file_is_refused_at_once(tmp_path, what, mapped):
    path = tmp_path / "a"
    if what == "fifo":
        os.mkfifo(path)
    elif what == "folder":
        path.mkdir()
    else:
        path.symlink_to("/dev/zero")
    with pytest.raises(StorageError):
        list(SampleReader(path, FIXED, mapped=mapped).iter_batches(3))
