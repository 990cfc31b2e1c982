"""Schemas and samples for property tests."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from trainfeed.samples import Field, Schema

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


@pytest.fixture(scope="session")
def any_samples() -> st.SearchStrategy[tuple[Schema, list[dict[str, Any]]]]:
    return schemas_with_samples()


@pytest.fixture(scope="session")
def equal() -> Any:
    """Whether two values are the same to the last bit, NaN included."""

    def compare(left: Any, right: Any) -> bool:
        if isinstance(left, np.ndarray) and isinstance(right, np.ndarray):
            return (left.dtype, left.shape, left.tobytes()) == (
                right.dtype, right.shape, right.tobytes(),
            )  # fmt: skip
        return type(left) is type(right) and left == right

    return compare
