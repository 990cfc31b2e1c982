"""Values of every type of a field, drawn for tests that follow them on their way."""

import math

import numpy as np
from hypothesis import strategies as st

from trainfeed.samples import Field, Schema, TypedCodec

SHAPES = [(), (2,), (None,), (2, 2), (None, 2)]

WHOLE = [f"{sign}int{bits}" for bits in (8, 16, 32, 64) for sign in ("", "u")]
FLOATS = {"float16": 16, "float32": 32, "float64": 64}
NASTY = [
    *[
        "",
        "\\",
        "\\N",
        "\\\\N",
        '"\\N"',
        "\\\\host\\x",
        "\\frac{1}{2}",
        "NA",
        "null",
        "None",
        "nan",
    ],
    *[
        "00501",
        "1e5",
        "18446744073709551615",
        "TRUE",
        "-0",
        " a ",
        "a,b",
        "a;b\t|",
        'a"b',
        '"',
        '""',
    ],
    *[
        "a\nb",
        "a\rb",
        "\r",
        "\r\n",
        "\n",
        "\ufeffx",
        "\0",
        "\u2028",
        "sep=;",
        "2024-03-01T00:00+02:00",
    ],
    *["é", "日本", "\U0001f600", "#", "=1+1", "'", "[1, 2]", "{}", "\x0b", "\x1c", "\x85"],
]


def edges(dtype):
    """The numbers of a type at which mistakes show: limits, zeros, and what is not a number."""
    if dtype == "bool":
        return [True, False]
    if dtype in FLOATS:
        limits = np.finfo(dtype)
        found = [0.0, -0.0, math.nan, math.inf, -math.inf, float(limits.smallest_subnormal)]
        return [*found, float(limits.max), float(limits.min), float(np.dtype(dtype).type(0.1))]
    low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    return [low, high, high - 1, 0, *(n for n in ((1 << 53) + 1, (1 << 53) - 1) if n <= high)]


def numbers(dtype):
    if dtype == "bool":
        return st.booleans()
    near = st.sampled_from(edges(dtype))
    if dtype in FLOATS:
        return near | st.floats(width=FLOATS[dtype])
    return near | st.integers(int(np.iinfo(dtype).min), int(np.iinfo(dtype).max))


def values(field):
    if field.dtype == "str":
        one = st.sampled_from(NASTY) | st.text(max_size=8)
    elif field.dtype == "bytes":
        one = st.sampled_from([b"", b"\\N", b"\xff\0", b"\r\n"]) | st.binary(max_size=8)
    elif field.shape:
        size = (
            {"min_size": 0, "max_size": 3}
            if field.shape[0] is None
            else {"min_size": 2, "max_size": 2}
        )
        inner = numbers(field.dtype)
        if len(field.shape) > 1:
            inner = st.lists(inner, min_size=2, max_size=2)
        shape = (-1, *field.shape[1:])
        one = st.lists(inner, **size).map(
            lambda each: np.array(each, dtype=field.dtype).reshape(
                shape if each else (0, *shape[1:])
            )
        )
    else:
        one = numbers(field.dtype).map(lambda each: np.array(each, dtype=field.dtype))
    return st.none() | one if field.optional else one


@st.composite
def tables(draw):
    """A schema of a few fields, and a few samples."""
    kinds = ["str", "str", "bytes", "bool", *WHOLE, *FLOATS]
    fields = []
    for number in range(draw(st.integers(1, 4))):
        dtype = draw(st.sampled_from(kinds))
        shapes = [()] if dtype in {"str", "bytes"} else [(), (), (2,), (None,), (2, 2), (None, 2)]
        shape = draw(st.sampled_from(shapes))
        fields.append(Field(f"f{number}", dtype, shape, draw(st.booleans())))
    schema = Schema(tuple(fields))
    rows = draw(
        st.lists(
            st.fixed_dictionaries({f.name: values(f) for f in fields}), min_size=1, max_size=10
        )
    )
    return schema, rows


def one_nan(row):
    """A sample whose NaN all have the same bits: a text says "NaN", and no more."""
    return {
        name: np.where(np.isnan(value), np.array(math.nan, value.dtype), value)
        if getattr(value, "dtype", np.dtype(bool)).kind == "f"
        else value
        for name, value in row.items()
    }


def bits(schema, rows):
    """Everything about samples: the bytes of their typed records tell types, bits and absence."""
    codec = TypedCodec(schema)
    return [codec.encode(row) for row in rows]


def wide_schema():
    """A field of every type and shape, each second one optional."""
    kinds = [(dtype, ()) for dtype in ("str", "bytes")]
    kinds += [(dtype, shape) for dtype in ("bool", *WHOLE, *FLOATS) for shape in SHAPES]
    fields = [Field(f"f{n}", dtype, shape, bool(n % 2)) for n, (dtype, shape) in enumerate(kinds)]
    return Schema(tuple(fields))


def random_value(field, rng, absent=0.3):
    """A value of a field in the types that readers give; the bits of floats are any bits."""
    if field.optional and rng.random() < absent:
        return None
    if field.dtype == "str":
        return rng.choice(NASTY)
    if field.dtype == "bytes":
        return rng.choice([b"", b"\\N", b"\xff\0", rng.randbytes(rng.randrange(8))])
    shape = tuple(rng.randrange(4) if length is None else length for length in field.shape)
    dtype, size = np.dtype(field.dtype), math.prod(shape)
    if field.dtype == "bool":
        return np.array([rng.random() < 0.5 for _ in range(size)], bool).reshape(shape)
    drawn = np.frombuffer(rng.randbytes(size * dtype.itemsize), dtype).copy()
    near = edges(field.dtype)
    for number in range(size):
        if rng.random() < 0.5:
            drawn[number] = rng.choice(near)
    return drawn.reshape(shape)
