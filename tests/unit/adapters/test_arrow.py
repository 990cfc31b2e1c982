"""Batches as Arrow record batches, and what adapters say when they cannot work."""

import numpy as np
import pyarrow as pa
import pytest

from trainfeed import adapters
from trainfeed.adapters._batches import framework, with_presence
from trainfeed.errors import ConfigError
from trainfeed.samples import Field, Schema

SCHEMA = Schema(
    (
        Field("image", "uint8", (2, 3)),
        Field("label", "int64"),
        Field("weight", "float32", optional=True),
        Field("corner", "int16", (2,), optional=True),
        Field("name", "str", optional=True),
        Field("raw", "bytes"),
        Field("path", "float64", (None, 2), optional=True),
    )
)


def objects(*values):
    boxed = np.empty(len(values), object)
    for i, value in enumerate(values):
        boxed[i] = value
    return boxed


def batch():
    absent = np.array([False, True, False])
    return {
        "image": np.arange(18, dtype="u1").reshape(3, 2, 3),
        "label": np.array([5, -1, 1 << 40]),
        "weight": np.ma.MaskedArray(np.array([0.5, 9, 2], "f4"), absent),
        "corner": np.ma.MaskedArray(
            np.arange(6, dtype="i2").reshape(3, 2), np.broadcast_to(absent[:, None], (3, 2))
        ),
        "name": objects("a", None, "ü"),
        "raw": objects(b"", b"\x00", b"xyz"),
        "path": objects(np.zeros((0, 2)), None, np.ones((2, 2))),
    }


class Loader(list):
    schema = SCHEMA


def test_every_kind_of_field_arrives_in_arrow():
    table = adapters.arrow(Loader([batch(), batch()])).read_all()
    assert table.num_rows == 6
    assert table.slice(0, 3).to_pydict() == {
        "image": [list(range(6)), list(range(6, 12)), list(range(12, 18))],
        "label": [5, -1, 1 << 40],
        "weight": [0.5, None, 2.0],
        "corner": [[0, 1], None, [4, 5]],
        "name": ["a", None, "ü"],
        "raw": [b"", b"\x00", b"xyz"],
        "path": [[], None, [[1.0, 1.0], [1.0, 1.0]]],
    }


def test_the_arrow_schema_is_known_before_the_first_batch():
    reader = adapters.arrow([], schema=SCHEMA)
    assert reader.schema.field("image").type == pa.list_(pa.uint8(), 6)
    assert not reader.schema.field("label").nullable
    assert reader.schema.field("weight").nullable
    assert reader.read_all().num_rows == 0


def test_fixed_fields_are_not_copied_to_arrow():
    source = batch()
    (out,) = adapters.arrow(Loader([source]))
    for name, values in (("label", out["label"]), ("image", out["image"].values)):
        address = source[name].__array_interface__["data"][0]
        assert values.buffers()[-1].address == address


def test_a_loader_without_a_schema_is_told_to_bring_one():
    with pytest.raises(ConfigError, match="got list; pass schema="):
        adapters.arrow([])


def test_presence_follows_a_field_that_may_be_absent():
    fields = dict(with_presence({"weight": batch()["weight"]}))
    assert list(fields) == ["weight", "weight_present"]
    assert fields["weight_present"].tolist() == [True, False, True]


def test_a_framework_that_is_not_there_is_named():
    with pytest.raises(ConfigError, match="needs the package no_such_framework"):
        framework("no_such_framework.data")
