"""Names that fields may have, those of other tools among them, and why the others may not."""

from __future__ import annotations

import numpy as np
import pytest

from trainfeed.errors import ConfigError
from trainfeed.samples import Field, Schema, Statistics, TypedCodec

NAMES = [
    "label",
    "image/encoded",
    "image/object/bbox/xmin",
    "image.bytes",
    "seg.mask-2.png",
    "a/0",
    "000.jpg",
    "__key__".strip("_"),
    "A" * 128,
]
REFUSED = {
    "empty": "",
    "blank": "sepal length",
    "comma": "a,b",
    "semicolon": "a;b",
    "control": "a\nb",
    "escape": "\x1b[31m",
    "nul": "a\0b",
    "absolute": "/etc/passwd",
    "parent": "../a",
    "parent within": "a/../b",
    "double slash": "a//b",
    "ends in slash": "a/",
    "ends in dot": "a.",
    "hidden": ".a",
    "an option": "-a",
    "ours": "_presence",
    "colon": "a:b",
    "backslash": "a\\b",
    "not ASCII": "größe",
    "too long": "a" * 129,
}


@pytest.mark.parametrize("name", NAMES)
def test_names_of_other_tools_are_names_of_fields(name):
    schema = Schema((Field(name, "int64"), Field(f"{name[:120]}.text", "str", (), optional=True)))
    codec = TypedCodec(Schema.from_json(schema.to_json()))
    sample = {name: 3, f"{name[:120]}.text": None}
    assert codec.decode(codec.encode(sample)) == sample


@pytest.mark.parametrize("name", REFUSED.values(), ids=REFUSED)
def test_what_means_something_else_elsewhere_is_no_name(name):
    with pytest.raises(ConfigError, match="expected a field name") as error:
        Field(name, "int64")
    assert "rename the field" in str(error.value)


def test_a_name_with_a_separator_is_a_column_of_a_record():
    schema = Schema((Field("image/size", "uint16", (2,)), Field("image.id", "int64")))
    columns = {"image/size": np.array([[1, 2]], "u2"), "image.id": np.array([7])}
    rows = TypedCodec(schema).encode_columns(columns)
    assert rows.dtype.names == ("image/size", "image.id")
    assert (rows["image.id"].tolist(), rows["image/size"].tolist()) == ([7], [[1, 2]])


def test_statistics_have_the_names_as_they_are():
    schema = Schema((Field("a/b", "int64"), Field("a.b", "int64")))
    statistics = Statistics(schema)
    statistics.update({"a/b": 1, "a.b": 2})
    value = statistics.to_json()
    assert (value["a/b"]["max"], value["a.b"]["max"]) == (1, 2)
    assert Statistics.from_json(schema, value).to_json() == value
