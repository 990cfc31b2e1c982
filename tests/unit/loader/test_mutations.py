"""Faults in a chunk whose checksum is right: the loader and SampleReader agree."""

import struct
import zlib

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trainfeed.errors import FormatError
from trainfeed.loader import DataLoader, RecordFiles
from trainfeed.samples import Field, SampleReader, Schema, TypedCodec

FIXED = Schema(
    (
        Field("flags", "bool", (3,)),
        Field("x", "int32"),
        Field("maybe", "bool", (), True),
        Field("y", "float64", (2,), True),
    )
)
VARIABLE = Schema(
    (
        Field("flag", "bool"),
        Field("flags", "bool", (None,)),
        Field("text", "str", (), True),
        Field("rows", "float64", (None, 2)),
        Field("more", "bool", (None, 2), True),
        Field("blob", "bytes"),
    )
)
HUGE = Schema((*(Field(name, "float64", (None, 1 << 28)) for name in "abd"), Field("c", "bytes")))


def fixed_sample(i):
    y = None if i % 2 else np.full(2, i / 3)
    return {"flags": [i % 2 == 0, True, False], "x": i, "maybe": None if i % 3 else True, "y": y}


def variable_sample(i):
    return {
        "flag": i % 2 == 0,
        "flags": np.arange(i % 4) % 2 == 0,
        "text": None if i % 3 else "ä" * (i % 5),
        "rows": np.full((i % 3, 2), i / 7),
        "more": None if i % 2 else np.ones((i % 3, 2), bool),
        "blob": bytes(i % 6),
    }


SAMPLES = {FIXED: fixed_sample, VARIABLE: variable_sample}


def write_chunk(path, framing, num_records):
    words = 0x01020304, zlib.crc32(framing), 0, len(framing), num_records
    path.write_bytes(struct.pack("<5I", *words) + framing)


def framed(records):
    return b"".join(struct.pack("<I", len(record)) + record for record in records)


def plain(value):
    """Return values by their bytes, so that a NaN equals itself, and a boolean is what it is."""
    if isinstance(value, np.ma.MaskedArray):
        absent = value.mask.any(axis=tuple(range(1, value.ndim)))
        return [
            None if gone else plain(item) for gone, item in zip(absent, value.data, strict=True)
        ]
    if isinstance(value, np.ndarray) and value.dtype == object:
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray | np.generic):
        return value.shape, str(value.dtype), value.tobytes()
    return value


def by_loader(path, schema):
    with DataLoader(RecordFiles(path, schema), 100) as loader:
        yield from loader


def by_reader(path, schema):
    return SampleReader(path, schema).iter_batches(100)


def outcome(read, path, schema):
    """Return all values, or that they were refused."""
    try:
        return [{name: plain(batch[name]) for name in schema.names} for batch in read(path, schema)]
    except FormatError:
        return "refused"


@pytest.mark.parametrize("schema", SAMPLES, ids=["fixed", "variable"])
def test_what_is_whole_is_read_alike(tmp_path, schema):
    records = [TypedCodec(schema).encode(SAMPLES[schema](i)) for i in range(12)]
    write_chunk(tmp_path / "a", framed(records), 12)
    found = outcome(by_loader, tmp_path / "a", schema)
    assert found == outcome(by_reader, tmp_path / "a", schema) != "refused"


@pytest.mark.parametrize("schema", SAMPLES, ids=["fixed", "variable"])
@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_what_is_wrong_is_refused_by_both_or_by_none(tmp_path, schema, data):
    num_records = data.draw(st.integers(1, 5))
    encode, sample = TypedCodec(schema).encode, SAMPLES[schema]
    framing = bytearray(framed([encode(sample(i)) for i in range(num_records)]))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(framing) - 1))
        framing[place] = data.draw(st.sampled_from([0, 1, 2, 3, 7, 0x40, 0x80, 0xFF]))
    del framing[data.draw(st.sampled_from([len(framing), len(framing), len(framing) - 1, 4])) :]
    num_records += data.draw(st.sampled_from([0, 0, 0, -1, 1]))
    write_chunk(tmp_path / "a", bytes(framing), num_records)
    found = outcome(by_loader, tmp_path / "a", schema)
    assert found == outcome(by_reader, tmp_path / "a", schema)


@pytest.mark.parametrize("byte", [2, 7, 255])
@pytest.mark.parametrize("at", [-1, -2, -3])
def test_a_boolean_that_is_neither_is_refused_with_its_place(tmp_path, byte, at):
    schema = Schema((Field("x", "int64"), Field("flags", "bool", (None,))))
    record = bytearray(TypedCodec(schema).encode({"x": 1, "flags": [True, False, True]}))
    whole, empty = bytes(record), TypedCodec(schema).encode({"x": 2, "flags": []})
    record[at] = byte
    write_chunk(tmp_path / "a", framed([whole, empty, bytes(record), empty]), 4)
    for read in (by_loader, by_reader):
        with pytest.raises(FormatError, match="'flags' holds a byte that is neither") as caught:
            list(read(tmp_path / "a", schema))
        assert (caught.value.path, caught.value.offset_bytes) == (str(tmp_path / "a"), 0)


@pytest.mark.parametrize(
    "counts", [(3 << 30, 3 << 30, 1 << 31), (1 << 31, 1 << 31, 0), (0xFFFFFFFF,) * 3, (1, 0, 0)]
)
def test_counts_beyond_64_bits_are_refused_with_their_place(tmp_path, counts):
    """The sum of the first ones is a multiple of 2^64 bytes."""
    write_chunk(tmp_path / "a", framed([struct.pack("<4I", *counts, 0)]), 1)
    for read in (by_loader, by_reader):
        with pytest.raises(FormatError) as caught:
            list(read(tmp_path / "a", HUGE))
        assert (caught.value.path, caught.value.offset_bytes) == (str(tmp_path / "a"), 0)
