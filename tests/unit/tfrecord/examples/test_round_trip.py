"""Encoded samples come back to the bit; other bytes raise only expected errors."""

from __future__ import annotations

import contextlib
import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from trainfeed.errors import FormatError, SampleShapeError
from trainfeed.samples import Field, Schema, TypedCodec
from trainfeed.tfrecord import (
    Compression,
    ExampleCodec,
    TFRecordWriter,
    decode_example,
    decode_sequence_example,
    encode_example,
    encode_sequence_example,
    iter_records,
    parse_examples,
)

INTEGERS = st.one_of(st.integers(0, 127), st.integers(-(1 << 63), (1 << 63) - 1))
FEATURES = st.one_of(
    st.none(),
    st.lists(st.binary(max_size=20), max_size=4),
    arrays.arrays(np.int64, st.integers(0, 30), elements=INTEGERS),
    arrays.arrays(np.float32, st.integers(0, 9)),
)
NUMBERS = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    "float16", "float32", "float64",
)  # fmt: skip


def same(left, right):
    """Equal in type, shape and bits."""
    if isinstance(left, np.ndarray):
        return (
            isinstance(right, np.ndarray)
            and left.dtype == right.dtype
            and left.shape == right.shape
            and left.tobytes() == right.tobytes()
        )
    return type(left) is type(right) and left == right


@given(st.lists(st.binary(max_size=300), max_size=6), st.sampled_from(Compression))
def test_records_survive(records, compression):
    file = io.BytesIO()
    with TFRecordWriter(file, compression) as writer:
        for record in records:
            writer.write(record)
    assert list(iter_records(io.BytesIO(file.getvalue()))) == records


@given(st.dictionaries(st.text(max_size=5), FEATURES, max_size=5))
def test_examples_survive_and_have_one_form(features):
    data = encode_example(features)
    decoded = decode_example(data)
    assert decoded.keys() == features.keys()
    assert all(same(decoded[key], value) for key, value in features.items())
    assert encode_example(dict(reversed(decoded.items()))) == data
    order = [(*key.encode(), 256) for key in decoded]
    assert order == sorted(order)


@given(
    st.dictionaries(st.text(max_size=3), FEATURES, max_size=3),
    st.dictionaries(st.text(max_size=3), st.lists(FEATURES, max_size=3), max_size=3),
)
def test_sequence_examples_survive(context, feature_lists):
    decoded = decode_sequence_example(encode_sequence_example(context, feature_lists))
    assert all(same(decoded.context[key], value) for key, value in context.items())
    assert decoded.feature_lists.keys() == feature_lists.keys()
    for key, features in feature_lists.items():
        assert list(map(len, [decoded.feature_lists[key]])) == [len(features)]
        assert all(map(same, decoded.feature_lists[key], features))


@given(st.binary(max_size=60))
def test_any_bytes_are_decoded_or_refused(data):
    for decode in (decode_example, decode_sequence_example):
        with contextlib.suppress(FormatError):
            decode(data)


@given(st.data())
def test_damaged_examples_are_decoded_or_refused(data):
    features = data.draw(st.dictionaries(st.text(max_size=3), FEATURES, min_size=1, max_size=3))
    record = bytearray(encode_example(features))
    for _ in range(data.draw(st.integers(1, 3))):
        record[data.draw(st.integers(0, len(record) - 1))] = data.draw(st.integers(0, 255))
    cut = record[: data.draw(st.integers(0, len(record)))]
    for damaged in (record, cut):
        try:
            decoded = decode_example(damaged)
        except FormatError:
            continue
        assert encode_example(decode_example(encode_example(decoded))) == encode_example(decoded)


@st.composite
def schemas(draw):
    fields = []
    for i in range(draw(st.integers(1, 4))):
        dtype = draw(st.sampled_from([*NUMBERS, "bytes", "str"]))
        shape = ()
        if dtype in NUMBERS:
            shape = tuple(draw(st.lists(st.integers(1, 3), max_size=2)))
            if draw(st.booleans()):
                shape = (None, *shape)
        fields.append(Field("abcd"[i], dtype, shape, optional=draw(st.booleans())))
    return Schema(tuple(fields))


@st.composite
def samples_of(draw, schema):
    sample = {}
    for field in schema:
        if field.optional and draw(st.booleans()):
            sample[field.name] = None
        elif field.dtype == "bytes":
            sample[field.name] = draw(st.binary(max_size=9))
        elif field.dtype == "str":
            sample[field.name] = draw(st.text(max_size=5))
        else:
            shape = tuple(draw(st.integers(0, 3)) if n is None else n for n in field.shape)
            sample[field.name] = draw(arrays.arrays(field.dtype, shape))
    return sample


@given(st.data())
def test_typed_samples_survive_the_way_through_examples(data):
    schema = data.draw(schemas())
    typed, examples = TypedCodec(schema), ExampleCodec(schema)
    sample = data.draw(samples_of(schema))
    record = typed.encode(sample)
    decoded = examples.decode(examples.encode(typed.decode(record)))
    assert list(decoded) == list(schema.names)
    assert all(same(decoded[name], value) for name, value in sample.items())
    assert typed.encode(decoded) == record


@given(st.data())
def test_many_records_are_parsed_like_one_by_one(data):
    schema = data.draw(schemas())
    codec = ExampleCodec(schema)
    some = data.draw(st.lists(samples_of(schema), min_size=1, max_size=3))
    chosen = data.draw(st.lists(st.sampled_from(some), max_size=16))
    columns = codec.decode_records(map(codec.encode, chosen))
    assert list(columns) == list(schema.names)
    for field in schema:
        column = columns[field.name]
        assert len(column) == len(chosen)
        for i, sample in enumerate(chosen):
            if field.is_fixed:
                check_fixed(field, column, i, sample[field.name])
            else:
                assert same(column[i], sample[field.name])


@given(st.data())
def test_many_samples_are_encoded_like_one_by_one(data):
    schema = data.draw(schemas())
    typed, codec = TypedCodec(schema), ExampleCodec(schema)
    some = data.draw(st.lists(samples_of(schema), min_size=1, max_size=3))
    chosen = data.draw(st.lists(st.sampled_from(some), max_size=16))
    records = list(map(codec.encode, chosen))
    assert codec.encode_columns(codec.decode_records(records)) == records
    framing = b"".join(
        len(record).to_bytes(4, "little") + record for record in map(typed.encode, chosen)
    )
    assert codec.encode_columns(typed.decode_columns(memoryview(framing), len(chosen))) == records


def check_fixed(field, column, i, value):
    assert column.dtype == field.dtype
    assert column.shape[1:] == field.shape
    assert isinstance(column, np.ma.MaskedArray) == field.optional
    row = np.ma.getdata(column)[i]
    assert row.tobytes() == (bytes(row.nbytes) if value is None else value.tobytes())
    masks = np.ma.getmaskarray(column)[i]
    assert masks.all() == masks.any() == (value is None)


def test_every_float16_survives():
    patterns = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    codec = ExampleCodec({"x": ("float16", (1 << 16,))})
    assert same(codec.decode(codec.encode({"x": patterns}))["x"], patterns)


def test_dtypes_are_stored_as_documented():
    stored = {}
    for dtype in NUMBERS:
        for shape in ((), (2,)):
            codec = ExampleCodec({"x": (dtype, shape)})
            (feature,) = decode_example(codec.encode({"x": np.ones(shape, dtype)})).values()
            kind = "bytes" if isinstance(feature, list) else feature.dtype.name
            stored.setdefault(kind, []).append(dtype + "[]" * len(shape))
    assert stored == {
        "int64": [
            "bool", "bool[]", "int8", "int8[]", "int16", "int16[]", "int32", "int32[]",
            "int64", "int64[]", "uint8", "uint16", "uint16[]", "uint32", "uint32[]",
        ],
        "bytes": ["uint8[]", "uint64", "uint64[]", "float64", "float64[]"],
        "float32": ["float16", "float16[]", "float32", "float32[]"],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (("int32", ()), np.int64(1)),
        (("int32", ()), None),
        (("int32", (2,)), np.zeros(3, np.int32)),
        (("int32", (None, 2)), np.zeros((1, 3), np.int32)),
        (("int32", (None,)), np.zeros((), np.int32)),
        (("str", ()), b"bytes"),
        (("str", ()), "\ud800"),
        (("bytes", ()), "text"),
        (("bytes", ()), 3),
    ],
)
def test_encoder_refuses_what_is_not_of_the_field(field, value):
    with pytest.raises(SampleShapeError, match="field 'x': expected "):
        ExampleCodec({"x": field}).encode({"x": value})


def test_encoder_refuses_unknown_fields():
    with pytest.raises(SampleShapeError, match=r"the fields \['x'\], got also \['y'\]"):
        ExampleCodec({"x": ("bytes", ())}).encode({"x": b"", "y": b""})


def test_click_records_are_read_back_with_dtype_and_shape():
    """An int64 label and a feature vector of float64, which a float list would round."""
    schema = Schema((Field("label", "int64"), Field("feature", "float64", (3,))))
    codec = ExampleCodec(Schema.from_json(schema.to_json()))
    feature = np.array([0.1, 1e300, -0.0])
    records = [codec.encode({"label": np.int64(i), "feature": feature * i}) for i in range(5)]
    columns = parse_examples(records, schema)
    assert same(columns["label"], np.arange(5))
    assert same(columns["feature"], feature * np.arange(5)[:, None])
