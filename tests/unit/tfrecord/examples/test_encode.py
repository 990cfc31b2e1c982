"""Examples encoded by columns: the sizes at which the method of encoding changes, and refusals.

``test_round_trip`` compares the bytes with encoding sample by sample, for random schemas.
"""

from __future__ import annotations

import numpy as np
import pytest

from trainfeed.errors import SampleShapeError
from trainfeed.samples import Field, Schema
from trainfeed.tfrecord import ExampleCodec


def require_same(codec, columns):
    """Compare with what single samples give; ``columns`` without optional fields."""
    samples = [
        {name: values[i] for name, values in columns.items()}
        for i in range(len(next(iter(columns.values()))))
    ]
    assert codec.encode_columns(columns) == list(map(codec.encode, samples))


def objects(values):
    column = np.empty(len(values), object)
    for i, value in enumerate(values):
        column[i] = value
    return column


@pytest.mark.parametrize("dtype", ["int8", "int64", "uint32", "bool"])
@pytest.mark.parametrize("width", [1, 51, 52, 200])
def test_integers_of_every_length_are_the_bytes_of_one_by_one(dtype, width):
    """Rows of up to 512 bytes are put together with their neighbours, others are pieces."""
    info = (0, 1) if dtype == "bool" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    edges = [0, 1, -1, 127, 128, *[(1 << 7 * i) + d for i in range(2, 10) for d in (-1, 0)], *info]
    fitting = np.array([edge for edge in edges if info[0] <= edge <= info[1]], object)
    values = np.resize(fitting, (31, width)).astype(dtype)
    require_same(ExampleCodec({"x": (dtype, (width,))}), {"x": values})


@pytest.mark.parametrize("size", [0, 1, 127, 128, 512, 513, 16383, 16384])
def test_lengths_of_more_bytes_are_the_bytes_of_one_by_one(size):
    texts = objects([bytes(size), b"", bytes(max(size - 1, 0)), b"a" * size])
    columns = {"t": texts, "n": np.arange(4), "k" * 130: np.zeros((4, 3), np.float32)}
    fields = {"t": ("bytes", ()), "n": ("int64", ()), "k" * 130: ("float32", (3,))}
    require_same(ExampleCodec(fields), columns)


def test_shapes_that_vary_are_the_bytes_of_one_by_one():
    choose = np.random.default_rng(2)
    lengths = [0, 3, 1, 0, 60, 400]
    for dtype in ("int32", "float32", "float64", "uint8", "bool"):
        values = objects([choose.integers(0, 2, (n, 2)).astype(dtype) for n in lengths])
        require_same(ExampleCodec({"x": (dtype, (None, 2))}), {"x": values})
        require_same(ExampleCodec({"x": (dtype, (None, 2))}), {"x": np.stack([values[4]] * 3)})


def test_many_samples_are_encoded_in_blocks():
    values = np.arange(3 * 50_000, dtype=np.int32).reshape(50_000, 3) - 70_000
    records = ExampleCodec({"x": ("int32", (3,))}).encode_columns({"x": values})
    codec = ExampleCodec({"x": ("int32", (3,))})
    assert len(records) == 50_000
    for i in (0, 21_844, 21_845, 21_846, 49_999):
        assert records[i] == codec.encode({"x": values[i]})


def test_no_samples_give_no_records():
    schema = Schema((Field("x", "int32"), Field("t", "str", optional=True)))
    assert ExampleCodec(schema).encode_columns({"x": np.empty(0, np.int32)}) == []


def test_optional_fields_may_be_missing():
    schema = Schema((Field("x", "int32"), Field("t", "str", optional=True)))
    codec = ExampleCodec(schema)
    columns = {"x": np.arange(3, dtype=np.int32)}
    require_same(codec, columns)
    only = ExampleCodec(Schema((Field("t", "str", optional=True),)))
    texts = np.ma.masked_array(objects(["a", None]), [False, True])
    assert only.encode_columns({"t": texts}) == [only.encode({"t": "a"}), only.encode({})]


@pytest.mark.parametrize("dtype", ["int64", "float32", "bytes", "str"])
@pytest.mark.parametrize("absent", [[0, 1, 2], [0], [2], []])
def test_absent_fields_are_left_out_wherever_they_are(dtype, absent):
    """Alone, and beside others; in all records, and in some."""
    value = {"bytes": b"ab", "str": "ab"}.get(dtype, 1)
    column = objects([value] * 3) if isinstance(value, bytes | str) else np.ones(3, dtype)
    mask = np.isin(np.arange(3), absent)
    masked = np.ma.masked_array(column, mask)
    for names in ("b", "ab", "abc"):
        schema = Schema(tuple(Field(name, dtype, optional=True) for name in names))
        codec = ExampleCodec(schema)
        for gone in names:
            columns = {name: masked if name == gone else column for name in names}
            rows = [
                {name: None if mask[i] and name == gone else column[i] for name in names}
                for i in range(3)
            ]
            assert codec.encode_columns(columns) == [codec.encode(row) for row in rows]
        all_gone = dict.fromkeys(names, masked)
        rows = [dict.fromkeys(names, None if mask[i] else column[i]) for i in range(3)]
        assert codec.encode_columns(all_gone) == [codec.encode(row) for row in rows]


@pytest.mark.parametrize(
    ("field", "column"),
    [
        (("int32", ()), np.zeros(2, np.int64)),
        (("int32", (2,)), np.zeros((2, 3), np.int32)),
        (("int32", (2,)), np.zeros(2, np.int32)),
        (("int32", (None, 2)), objects([np.zeros((1, 3), np.int32)])),
        (("int32", (None,)), objects([np.zeros((), np.int32)])),
        (("int32", (None,)), objects([np.zeros(1, np.int64)])),
        (("int32", (None,)), objects([[1, 2]])),
        (("str", ()), objects([b"bytes"])),
        (("str", ()), objects(["\ud800"])),
        (("str", ()), objects([None])),
        (("bytes", ()), objects(["text"])),
        (("bytes", ()), objects([3])),
        (("bytes", ()), np.zeros(2)),
    ],
)
def test_columns_of_another_kind_are_refused(field, column):
    with pytest.raises(SampleShapeError, match="field 'x': expected "):
        ExampleCodec({"x": field}).encode_columns({"x": column})


def test_columns_must_be_those_of_the_fields():
    codec = ExampleCodec({"x": ("int32", ()), "y": ("int32", ())})
    x = np.zeros(2, np.int32)
    with pytest.raises(SampleShapeError, match=r"got also \['z'\]"):
        codec.encode_columns({"x": x, "y": x, "z": x})
    with pytest.raises(SampleShapeError, match="field 'y': expected int32, got nothing"):
        codec.encode_columns({"x": x})
    with pytest.raises(SampleShapeError, match=r"columns of one length, got \[1, 2\]"):
        codec.encode_columns({"x": x, "y": x[:1]})
