"""Runs of Examples: every kind of field there and back, bit by bit; damage is found."""

import io
import math
from dataclasses import replace

import numpy as np
import pytest

from trainfeed.errors import ChecksumError, FormatError, TruncatedError
from trainfeed.recordio import RecordWriter, iter_chunks
from trainfeed.samples import Field, Schema, TypedCodec
from trainfeed.tfrecord import decode_example, iter_records
from trainfeed.versions.examples import ExampleRunDecoder, ExampleRunWriter

NUMBERS = (
    "bool",
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    *(f"float{bits}" for bits in (16, 32, 64)),
)
SHAPES = ((), (2,), (2, 3), (None,), (None, 2))
NAMES = {(): "number", (2,): "list", (2, 3): "table", (None,): "some", (None, 2): "pairs"}


def extremes(dtype):
    """Values that are easily lost, as many as two tables hold."""
    kind = np.dtype(dtype)
    if kind.kind == "b":
        return np.resize(np.array([True, False]), 12)
    if kind.kind == "f":
        tiny = np.finfo(kind)
        odd = [0.1, -0.0, math.nan, math.inf, -math.inf, tiny.max, tiny.smallest_subnormal, 1 / 3]
        return np.resize(np.array(odd, kind), 12)
    info = np.iinfo(kind)
    return np.resize(np.array([info.min, info.max, 1, info.max - 1, 0], kind), 12)


def numbers(dtype, shape, i):
    values = np.roll(extremes(dtype), i)
    lengths = (i % 3, *shape[1:]) if None in shape else shape
    return values[: math.prod(lengths)].reshape(lengths)


def schema_of(*, is_fixed, is_optional=False):
    fields = [
        Field(f"{dtype}_{NAMES[shape]}", dtype, shape, optional=is_optional)
        for dtype in NUMBERS
        for shape in SHAPES
        if not (is_fixed and None in shape)
    ]
    if not is_fixed:
        fields += [Field("text", "str"), Field("raw", "bytes", (), optional=is_optional)]
    return Schema(tuple(fields))


def sample_of(schema, i):
    sample = {}
    for number, field in enumerate(schema):
        if field.optional and (i + number) % 3 == 0:
            sample[field.name] = None
        elif field.is_text:
            sample[field.name] = "ü\0" * (i % 3) if field.dtype == "str" else b"\0\xff" * (i % 3)
        else:
            sample[field.name] = numbers(field.dtype, field.shape, i)
    return sample


def written(schema, records, max_chunk_bytes=1 << 20):
    """Return file and runs, and the same records as RecordIO."""
    file, plain = io.BytesIO(), io.BytesIO()
    runs = ExampleRunWriter(file, schema, max_chunk_bytes=max_chunk_bytes)
    chunks = RecordWriter(plain, max_chunk_bytes=max_chunk_bytes)
    for record in records:
        runs.write(record)
        chunks.write(record)
    assert runs.num_records == len(records)
    runs.close()
    chunks.close()
    plain.seek(0)
    return file, runs.chunks, [bytes(framing) for _, framing in iter_chunks(plain)]


def records_of(schema, count=40):
    codec = TypedCodec(schema)
    return [codec.encode(sample_of(schema, i)) for i in range(count)]


@pytest.fixture
def run():
    """One run of three samples: its file's bytes, and what the index says."""
    schema = Schema((Field("label", "int64"), Field("note", "str")))
    codec = TypedCodec(schema)
    records = [codec.encode({"label": i, "note": "n" * i}) for i in range(3)]
    file, (info,), _ = written(schema, records)
    return ExampleRunDecoder(schema), file.getvalue(), info


@pytest.mark.parametrize("is_fixed", [True, False])
@pytest.mark.parametrize("is_optional", [True, False])
@pytest.mark.parametrize("max_chunk_bytes", [0, 3000, 1 << 20])
def test_typed_records_come_back_bit_by_bit(is_fixed, is_optional, max_chunk_bytes):
    schema = schema_of(is_fixed=is_fixed, is_optional=is_optional)
    file, runs, framings = written(schema, records_of(schema), max_chunk_bytes)
    decoder = ExampleRunDecoder(schema)
    assert [bytes(decoder.read(file, info)) for info in runs] == framings
    assert sum(info.stored_bytes for info in runs) == len(file.getvalue())


def test_arrays_of_records_give_the_bytes_of_single_ones():
    schema = schema_of(is_fixed=True, is_optional=True)
    records = records_of(schema, 600)
    file, runs, _ = written(schema, records, 30_000)
    other = io.BytesIO()
    writer = ExampleRunWriter(other, schema, max_chunk_bytes=30_000)
    array = np.frombuffer(b"".join(records), schema.record_dtype)
    writer.write_array(array[:7])
    writer.write_array(array[7:])
    writer.close()
    assert (other.getvalue(), writer.chunks) == (file.getvalue(), runs)
    assert len(runs) > 5


def test_features_have_the_documented_lists():
    schema = schema_of(is_fixed=False)
    file, _, _ = written(schema, records_of(schema, 2))
    file.seek(0)
    features = decode_example(list(iter_records(file))[1])
    assert list(features) == sorted(schema.names)
    for name in ("float64_number", "uint64_list", "uint8_table", "text", "raw"):
        assert isinstance(features[name], list)
        assert len(features[name]) == 1
    for name in ("float16_number", "float32_table"):
        assert features[name].dtype == np.float32
    for name in ("bool_list", "int8_number", "uint8_number", "uint32_pairs", "int64_table"):
        assert features[name].dtype == np.int64


def test_every_flipped_bit_is_found(run):
    decoder, data, info = run
    for place in range(8 * len(data)):
        damaged = bytearray(data)
        damaged[place // 8] ^= 1 << place % 8
        with pytest.raises(FormatError):
            decoder.framing(info, bytes(damaged), verify=False)
        with pytest.raises(ChecksumError, match="CRC-32"):
            decoder.framing(info, bytes(damaged))


def test_every_shorter_file_is_found(run):
    decoder, data, info = run
    for num_bytes in range(len(data)):
        with pytest.raises(TruncatedError, match="bytes of records, the file has"):
            decoder.read(io.BytesIO(data[:num_bytes]), info)
        with pytest.raises(FormatError):
            decoder.framing(info, data[:num_bytes], verify=False)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"num_records": 2}, "expected 2 records as in the index, got 3"),
        ({"raw_bytes": 7}, "expected 7 bytes of framing as in the index"),
        ({"crc32": 1}, "expected CRC-32 0x00000001"),
    ],
)
def test_an_index_that_disagrees_is_refused(run, change, expected):
    decoder, data, info = run
    with pytest.raises(FormatError, match=expected):
        decoder.framing(replace(info, **change), data)


def test_records_of_another_schema_are_refused(run):
    _, data, info = run
    other = ExampleRunDecoder(Schema((Field("label", "float32"), Field("note", "str"))))
    with pytest.raises(FormatError, match="field 'label': expected float32"):
        other.framing(info, data)


def test_without_records_nothing_is_written():
    schema = Schema((Field("label", "int64"),))
    file, runs, _ = written(schema, [])
    assert (file.getvalue(), runs) == (b"", [])
