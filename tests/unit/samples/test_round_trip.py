"""Properties of any schema and any samples: encoded samples come back, for every way of reading."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from trainfeed.errors import FormatError
from trainfeed.samples import Field, Schema, Statistics, TypedCodec

NUMBERS = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "float32", "float64",
)  # fmt: skip


@st.composite
def fields(draw: st.DrawFn, name: str, *, fixed: bool) -> Field:
    optional = draw(st.booleans())
    dtype = draw(st.sampled_from(NUMBERS if fixed else (*NUMBERS, "bytes", "str")))
    if dtype in {"bytes", "str"}:
        return Field(name, dtype, (), optional)
    shape: tuple[int | None, ...] = tuple(draw(st.lists(st.integers(1, 3), max_size=3)))
    if not fixed and draw(st.booleans()):
        shape = (None, *shape[:2])
    return Field(name, dtype, shape, optional)


@st.composite
def schemas(draw: st.DrawFn, *, fixed: bool = False) -> Schema:
    names = [f"f{i}" for i in range(draw(st.integers(1, 10)))]
    return Schema(tuple(draw(fields(name, fixed=fixed)) for name in names))


@st.composite
def samples_of(draw: st.DrawFn, schema: Schema) -> dict[str, Any]:
    sample: dict[str, Any] = {}
    for field in schema:
        if field.optional and draw(st.booleans()):
            sample[field.name] = None
        elif field.dtype == "bytes":
            sample[field.name] = draw(st.binary(max_size=9))
        elif field.dtype == "str":
            sample[field.name] = draw(st.text(max_size=9))
        else:
            shape = tuple(
                draw(st.integers(0, 3)) if length is None else length for length in field.shape
            )
            sample[field.name] = draw(hnp.arrays(field.dtype, shape))
    return sample


@st.composite
def schemas_with_samples(
    draw: st.DrawFn, *, fixed: bool = False
) -> tuple[Schema, list[dict[str, Any]]]:
    schema = draw(schemas(fixed=fixed))
    return schema, draw(st.lists(samples_of(schema), min_size=1, max_size=4))


def equal(left: Any, right: Any) -> bool:
    """Return whether two values are the same to the last bit, NaN included."""
    if isinstance(left, np.ndarray) and isinstance(right, np.ndarray):
        return (left.dtype, left.shape, left.tobytes()) == (
            right.dtype,
            right.shape,
            right.tobytes(),
        )
    return type(left) is type(right) and left == right


def framing_of(records: list[bytes]) -> memoryview:
    return memoryview(b"".join(len(record).to_bytes(4, "little") + record for record in records))


def columns_of(schema: Schema, samples: list[dict[str, Any]]) -> dict[str, np.ndarray]:
    """Return samples of a fixed schema as columns, masked where a field is absent."""
    columns = {}
    for field in schema:
        column = np.ma.zeros((len(samples), *field.item_shape), field.values_dtype)
        for i, sample in enumerate(samples):
            if sample[field.name] is None:
                column[i] = np.ma.masked
            else:
                column.data[i] = sample[field.name]
        columns[field.name] = column if field.optional else column.data
    return columns


@given(schemas())
@settings(derandomize=True, deadline=None)
def test_schema_comes_back_from_json(schema):
    assert Schema.from_json(schema.to_json()) == schema


@given(schemas_with_samples())
@settings(derandomize=True, deadline=None, max_examples=200)
def test_samples_come_back(case):
    schema, samples = case
    codec = TypedCodec(schema)
    for sample in samples:
        record = codec.encode(sample)
        assert codec.encode(sample) == record
        decoded = codec.decode(record)
        assert list(decoded) == list(schema.names)
        assert all(equal(decoded[name], sample[name]) for name in schema.names)
        assert all(
            equal(value, decoded[name])
            for name, value in codec.decode(memoryview(b"xx" + record)[2:]).items()
        )
        if schema.is_fixed:
            assert len(record) == schema.record_dtype.itemsize


@given(schemas_with_samples())
@settings(derandomize=True, deadline=None, max_examples=200)
def test_python_values_give_the_record_of_their_arrays(case):
    """Lists and numbers take another way through the encoder than arrays."""
    schema, samples = case
    codec = TypedCodec(schema)
    for sample in samples:
        plain = {
            name: value.tolist() if isinstance(value, np.ndarray) else value
            for name, value in sample.items()
        }
        if _holds_nan(sample):
            continue  # a Python float keeps no payload of a NaN
        assert codec.encode(plain) == codec.encode(sample)
        scalars = {
            name: value[()] if isinstance(value, np.ndarray) else value
            for name, value in sample.items()
        }
        assert codec.encode(scalars) == codec.encode(sample)
        foreign = {
            name: value.astype(value.dtype.newbyteorder(">"), order="F")
            if isinstance(value, np.ndarray)
            else value
            for name, value in sample.items()
        }
        assert codec.encode(foreign) == codec.encode(sample)


def _holds_nan(sample: dict[str, Any]) -> bool:
    return any(
        isinstance(value, np.ndarray) and value.dtype.kind == "f" and np.isnan(value).any()
        for value in sample.values()
    )


@given(schemas_with_samples(fixed=True))
@settings(derandomize=True, deadline=None, max_examples=200)
def test_columns_and_chunks_agree_with_single_samples(case):
    schema, samples = case
    codec = TypedCodec(schema)
    records = [codec.encode(sample) for sample in samples]
    columns = columns_of(schema, samples)
    encoded = codec.encode_columns(columns)
    assert encoded.dtype == schema.record_dtype
    assert [item.tobytes() for item in encoded] == records
    decoded = codec.decode_records(framing_of(records), len(records))
    assert list(decoded) == list(schema.names)
    for name, column in columns.items():
        assert equal(np.ma.getdata(decoded[name]), np.ma.getdata(column))
        assert equal(np.ma.getmaskarray(decoded[name]), np.ma.getmaskarray(column))
        assert isinstance(decoded[name], np.ma.MaskedArray) == schema[name].optional


@given(schemas_with_samples(fixed=True))
@settings(derandomize=True, deadline=None)
def test_statistics_of_columns_equal_those_of_single_samples(case):
    schema, samples = case
    one_by_one, by_columns = Statistics(schema), Statistics(schema)
    for sample in samples:
        one_by_one.update(sample)
    by_columns.update_columns(columns_of(schema, samples))
    assert one_by_one.to_json() == by_columns.to_json()


@given(schemas_with_samples(), st.data())
@settings(derandomize=True, deadline=None, max_examples=300)
def test_damaged_record_is_a_format_error_or_another_sample(case, data):
    """No damage, that a checksum let through, ends in anything but these two."""
    schema, samples = case
    codec = TypedCodec(schema)
    record = bytearray(codec.encode(samples[0]))
    for _ in range(data.draw(st.integers(1, 3))):
        if record:
            place = data.draw(st.integers(0, len(record) - 1))
            record[place] = data.draw(st.integers(0, 255))
    del record[data.draw(st.integers(0, len(record))) :]
    try:
        sample = codec.decode(bytes(record))
    except FormatError:
        return
    assert codec.decode(codec.encode(sample)).keys() == sample.keys()


@given(schemas_with_samples())
@settings(derandomize=True, deadline=None)
def test_every_prefix_and_every_longer_record_is_a_format_error(case):
    schema, samples = case
    codec = TypedCodec(schema)
    record = codec.encode(samples[0])
    for other in [record[:size] for size in range(len(record))] + [record + b"\0"]:
        with pytest.raises(FormatError):
            codec.decode(other)
