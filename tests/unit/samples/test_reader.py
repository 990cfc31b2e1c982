"""Batches of files, and chunks of records of different length as columns."""

from __future__ import annotations

import os
import struct

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trainfeed.damage import DamagePolicy, DamageReport
from trainfeed.errors import ChecksumError, ConfigError, FormatError, NotFoundError
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


@given(
    st.integers(1, 400), st.lists(st.integers(0, 90), min_size=1, max_size=5), st.integers(1, 40)
)
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


@pytest.mark.parametrize("threads", [1, 2])
def test_memory_is_used_again_only_when_nobody_looks_at_it(tmp_path, threads):
    path = write(tmp_path / "a", FIXED, range(500), max_chunk_bytes=300)
    reader = SampleReader(path, FIXED, threads=threads)
    kept, seen = [], set()
    for number, batch in enumerate(reader.iter_batches(10)):
        seen.add(batch["image"].__array_interface__["data"][0])
        if number % 7 == 0:
            # A slice, what a mask wraps, a buffer: each keeps the memory alive.
            kept.append(
                (number, batch["label"][3:], batch["extra"].data, memoryview(batch["flag"]))
            )
    assert len(seen) < 50
    for number, labels, extra, flags in kept:
        start = 10 * number
        assert labels.tolist() == list(range(start + 3, start + 10))
        assert extra[0].tolist() == ([0, 0] if start % 4 else [start, -start])
        assert flags.tolist() == [i % 3 == 0 for i in range(start, start + 10)]


def test_batches_may_be_larger_than_everything(tmp_path):
    path = write(tmp_path / "a", FIXED, range(300), quantum_records=64)
    (batch,) = SampleReader(path, FIXED).iter_batches(1 << 40)
    require_samples([batch], FIXED, range(300))


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
    with pytest.raises(FormatError):
        list(SampleReader(path, FIXED, mapped=mapped).iter_batches(3))


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("mapped", [False, True])
def test_chunks_without_records_count_as_none(tmp_path, schema, codec, threads, mapped):
    data = write(tmp_path / "a", schema, range(30), codec).read_bytes()
    empty = struct.pack("<5I", 0x01020304, 0, 0, 0, 0)
    (tmp_path / "b").write_bytes(empty * 2 + data + empty + data + empty)
    (tmp_path / "c").write_bytes(empty)
    paths = [tmp_path / "c", tmp_path / "b"]
    for num_samples in (1, 7, 30, 100):
        reader = SampleReader(paths, schema, threads=threads, mapped=mapped)
        batches = list(reader.iter_batches(num_samples))
        require_samples(batches, schema, [*range(30), *range(30)])
    assert reader.num_samples == 60
    assert list(SampleReader(tmp_path / "c", schema, threads=threads).iter_batches(5)) == []


@pytest.mark.parametrize("mapped", [False, True])
def test_whole_chunks_are_read_where_damage_may_be_skipped(tmp_path, schema, codec, mapped):
    paths = [write(tmp_path / name, schema, range(300), codec) for name in "ab"]
    starts = [chunk.offset_bytes for chunk in RecordIndex.load(paths[0]).chunks]
    firsts = np.cumsum([0] + [chunk.num_records for chunk in RecordIndex.load(paths[0]).chunks])
    data = bytearray(paths[0].read_bytes())
    data[starts[1] + 30] ^= 1
    data[starts[3] + 13] ^= 1
    paths[0].write_bytes(data[:-1])
    lost = [range(firsts[i], firsts[i + 1]) for i in (1, 3, len(starts) - 1)]
    kept = [i for i in range(300) if not any(i in part for part in lost)]
    reader = SampleReader(paths, schema, mapped=mapped, copy=False)
    for num_samples in (7, 300):
        report = DamageReport()
        skip = DamagePolicy.skip_chunk(max=3)
        batches = list(reader.iter_batches(num_samples, on_damage=skip, report=report))
        require_samples(batches, schema, [*kept, *range(300)])
        assert {len(batch["label"]) for batch in batches[:-1]} == {num_samples}
        dropped = [(part.path, part.start_bytes) for part in report.dropped]
        assert dropped == [(str(paths[0]), starts[i]) for i in (1, 3, len(starts) - 1)]
    with pytest.raises(FormatError):
        list(reader.iter_batches(7))
    skip = DamagePolicy.skip_chunk(max=2)
    with pytest.raises(FormatError, match="2 ranges were dropped before, 2 may be"):
        list(reader.iter_batches(7, on_damage=skip, report=DamageReport()))


def test_torn_tail_may_be_tolerated_and_is_counted(tmp_path, schema):
    path = write(tmp_path / "a", schema, range(300))
    last = RecordIndex.load(path).chunks[-1]
    path.write_bytes(path.read_bytes()[:-5])
    tolerant, report = DamagePolicy.tolerate_truncated_tail(), DamageReport()
    batches = SampleReader(path, schema).iter_batches(50, on_damage=tolerant, report=report)
    require_samples(batches, schema, range(300 - last.num_records))
    assert report.num_records == last.num_records
    with pytest.raises(ConfigError, match="pass report="):
        next(SampleReader(path, schema).iter_batches(5, on_damage=tolerant))


def test_whole_chunk_of_other_records_is_an_error_under_every_policy(tmp_path):
    with RecordWriter(tmp_path / "a") as writer:
        writer.write(b"no sample")
    reader, skip = SampleReader(tmp_path / "a", FIXED), DamagePolicy.skip_chunk(max=9)
    with pytest.raises(FormatError) as caught:
        list(reader.iter_batches(5, on_damage=skip, report=DamageReport()))
    assert caught.value.offset_bytes == 0
