"""Schemas: allowed fields, and the sizes of records."""

from __future__ import annotations

import numpy as np
import pytest

from trainfeed.errors import ConfigError
from trainfeed.samples import Field, Schema

FLIGHTS = [
    {"name": "indices", "dtype": "int32", "shape": [24]},
    {"name": "values", "dtype": "float32", "shape": [8], "optional": True},
    {"name": "label", "dtype": "int64", "shape": []},
]


def test_fixed_schema_has_a_packed_record_dtype():
    schema = Schema.from_json(FLIGHTS)
    assert schema.is_fixed
    assert schema.record_dtype == np.dtype(
        [
            ("_presence", "u1", (1,)),
            ("indices", "<i4", (24,)),
            ("values", "<f4", (8,)),
            ("label", "<i8"),
        ]
    )
    assert schema.record_dtype.itemsize == 1 + 96 + 32 + 8
    assert schema.to_json() == FLIGHTS
    assert schema["values"] == Field("values", "float32", (8,), optional=True)
    assert [field.name for field in schema] == list(schema.names) == ["indices", "values", "label"]


def test_record_dtype_has_no_presence_without_optional_fields():
    assert Schema((Field("a", "bool"),)).record_dtype.names == ("a",)


@pytest.mark.parametrize(
    "field", [Field("a", "str"), Field("a", "bytes"), Field("a", "int8", (None, 2))]
)
def test_variable_schema_has_no_record_dtype(field):
    schema = Schema((Field("b", "int8"), field))
    assert not schema.is_fixed
    with pytest.raises(ValueError, match=r"no common size, the fields \['a'\] vary"):
        _ = schema.record_dtype


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("1 st", "int8"), "expected a field name"),
        (("_presence", "int8"), "expected a field name"),
        (("", "int8"), "expected a field name"),
        (("a", "int"), "expected one of bool, int8"),
        (("a", "<i4"), "expected one of bool, int8"),
        (("a", "object"), "expected one of bool, int8"),
        (("a", "str", (3,)), "str has no shape"),
        (("a", "int8", (0,)), "expected lengths from 1 on"),
        (("a", "int8", (True,)), "expected lengths from 1 on"),
        (("a", "int8", (2, None)), "expected lengths from 1 on"),
        (("a", "int8", (2.0,)), "expected lengths from 1 on"),
    ],
)
def test_wrong_field_is_refused(arguments, message):
    with pytest.raises(ConfigError, match=message):
        Field(*arguments)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ((), "at least one field"),
        ((Field("a", "int8"), Field("a", "str")), "different field names"),
        ((Field("a", "int8", (1 << 31,)),), "at most 2 GiB"),
    ],
)
def test_wrong_schema_is_refused(fields, message):
    with pytest.raises(ConfigError, match=message):
        Schema(fields)


@pytest.mark.parametrize(
    "value",
    [
        "fields",
        {"a": "int8"},
        ["a"],
        [{"name": "a"}],
        [{"name": 1, "dtype": "int8"}],
        [{"name": "a", "dtype": ["int8"]}],
        [{"name": "a", "dtype": "int8", "shape": 3}],
        [{"name": "a", "dtype": "int8", "optional": 1}],
        [{"name": "a", "dtype": "int8", "comment": "?"}],
    ],
)
def test_json_that_is_no_schema_is_refused(value):
    with pytest.raises(ConfigError):
        Schema.from_json(value)
