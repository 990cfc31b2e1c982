"""Batches as Arrow record batches, and the errors of adapters that cannot work."""

import numpy as np
import pyarrow as pa
import pytest

from trainfeed import adapters
from trainfeed.adapters.passes import columns_of, dense, framework, schema_of
from trainfeed.conversion import arrow_schema, open_arrow
from trainfeed.errors import ConfigError, SampleShapeError
from trainfeed.loader import DataLoader, RecordFiles, mix
from trainfeed.recordio import RecordWriter
from trainfeed.samples import Field, Schema, TypedCodec

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
        "image": batch()["image"].tolist(),
        "label": [5, -1, 1 << 40],
        "weight": [0.5, None, 2.0],
        "corner": [[0, 1], None, [4, 5]],
        "name": ["a", None, "ü"],
        "raw": [b"", b"\x00", b"xyz"],
        "path": [[], None, [[1.0, 1.0], [1.0, 1.0]]],
    }


def test_the_arrow_schema_is_known_before_the_first_batch():
    reader = adapters.arrow([], schema=SCHEMA)
    assert reader.schema.equals(arrow_schema(SCHEMA), check_metadata=True)
    assert not reader.schema.field("label").nullable
    assert reader.schema.field("weight").nullable
    assert reader.read_all().num_rows == 0


def test_an_arrow_file_of_batches_has_the_samples_and_the_schema(tmp_path):
    table = adapters.arrow(Loader([batch(), batch()])).read_all()
    with (
        pa.OSFile(str(tmp_path / "b.arrow"), "wb") as file,
        pa.ipc.new_file(file, table.schema) as writer,
    ):
        writer.write_table(table)
    codec = TypedCodec(SCHEMA)
    with open_arrow(tmp_path / "b.arrow") as found:
        assert found.schema == SCHEMA
        samples = [codec.decode(codec.encode(sample)) for sample in found.iter_samples()]
    assert [sample["label"] for sample in samples] == [5, -1, 1 << 40] * 2
    assert samples[2]["image"].tolist() == batch()["image"][2].tolist()
    assert samples[1]["corner"] is samples[1]["path"] is samples[1]["weight"] is None
    assert samples[2]["path"].tolist() == [[1, 1], [1, 1]]


def test_fixed_fields_are_not_copied_to_arrow():
    source = batch()
    (out,) = adapters.arrow(Loader([source]))
    for name, values in (("label", out["label"]), ("image", out["image"].values.values)):
        address = source[name].__array_interface__["data"][0]
        assert values.buffers()[-1].address == address


def test_a_loader_without_a_schema_is_told_to_bring_one():
    with pytest.raises(ConfigError, match="got list with 0; pass schema="):
        adapters.arrow([])


def test_presence_follows_a_field_that_may_be_absent():
    fields = dict(columns_of({"weight": batch()["weight"]}, marks=False))
    assert list(fields) == ["weight", "weight_present"]
    assert fields["weight_present"].tolist() == [True, False, True]


def test_a_framework_that_is_not_there_is_named():
    with pytest.raises(ConfigError, match="needs the package no_such_framework"):
        framework("no_such_framework.data")


@pytest.fixture
def files(tmp_path):
    codec = TypedCodec(SCHEMA)
    path = tmp_path / "r"
    with RecordWriter(path) as writer:
        for i in range(3):
            sample = {name: column[i] for name, column in batch().items()}
            for name in ("weight", "corner"):
                sample[name] = None if i == 1 else np.asarray(sample[name])
            writer.write(codec.encode(sample))
    return RecordFiles(path, SCHEMA)


@pytest.mark.parametrize("world_size", [1, 2, 4])
def test_a_loader_on_ranks_arrives_in_arrow_also_where_a_batch_is_empty(files, world_size):
    rows = []
    for rank in range(world_size):
        with DataLoader(files, 1, rank=rank, world_size=world_size) as loader:
            table = adapters.arrow(loader).read_all()
        rows += table.to_pylist()
    expected = adapters.arrow([batch()], schema=SCHEMA).read_all().to_pylist()
    assert sorted(rows, key=lambda row: row["label"]) == sorted(expected, key=lambda r: r["label"])


def test_rows_that_only_fill_a_batch_are_marked(files):
    with DataLoader(files, 2, tail="pad") as loader:
        reader = adapters.arrow(loader)
        assert reader.schema.names[-1] == "valid"
        assert reader.read_all()["valid"].to_pylist() == [True, True, True, False]
    with DataLoader(files, 2) as loader:
        assert adapters.arrow(loader).schema.names == list(SCHEMA.names)


def test_a_field_may_not_have_the_name_of_an_added_column():
    masked = np.ma.MaskedArray([1], [True])
    with pytest.raises(SampleShapeError, match="'x_present' has the name of a column"):
        dict(columns_of({"x": masked, "x_present": np.array([1])}, marks=False))


def test_a_mixture_has_the_schema_of_its_sets(files):
    other = RecordFiles(files.paths, Schema((Field("x", "int8"),)))
    with DataLoader(mix([(files, 1), (files, 1)])) as loader:
        assert schema_of(loader, None) == SCHEMA
    for dataset in (RecordFiles(files.paths), mix([(files, 1), (other, 1)])):
        with DataLoader(dataset) as loader, pytest.raises(ConfigError, match="pass schema="):
            adapters.arrow(loader)


def test_columns_of_packed_records_are_copied_and_others_are_not():
    records = np.zeros(3, np.dtype([("a", "u1"), ("x", "i8")]))
    for column in (records["x"], records["x"][:1], np.arange(4)[::-1]):
        copied = dense(column)
        assert not np.shares_memory(copied, column)
        assert copied.strides == (8,)
        assert copied.tolist() == column.tolist()
    values = np.arange(6).reshape(2, 3)
    assert dense(values) is values
    values.flags.writeable = False
    assert dense(values).flags.writeable


def test_lists_of_arrays_arrive_in_arrow_under_the_names_of_a_schema():
    schema = Schema((Field("image", "float32", (2,)), Field("label", "int64")))
    lists = [[np.ones((3, 2), "f4"), np.arange(3)]]
    table = adapters.arrow(lists, schema=schema).read_all()
    assert table["label"].to_pylist() == [0, 1, 2]
    with pytest.raises(
        SampleShapeError, match=r"one array for each of \['image', 'label'\], got 3"
    ):
        adapters.arrow([[np.zeros(1)] * 3], schema=schema).read_all()
