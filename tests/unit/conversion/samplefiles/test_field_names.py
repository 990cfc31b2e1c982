"""Names with separators through every format, and columns that only look alike."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.unit.conversion.formats.test_webdataset import tar_of
from trainfeed.conversion import SinkOptions, SourceOptions, convert, open_sample_file, transcode
from trainfeed.errors import ConfigError
from trainfeed.samples import Field, Schema
from trainfeed.tfrecord import TFRecordReader, decode_example

SCHEMA = Schema(
    (
        Field("image/encoded", "bytes"),
        Field("image/object/bbox/xmin", "float32", (None,)),
        Field("image.bytes", "bytes", (), optional=True),
        Field("image", "int64"),
    )
)


def samples():
    for n in range(10):
        yield {
            "image/encoded": bytes([n]),
            "image/object/bbox/xmin": [n / 2] * (n % 3),
            "image.bytes": b"x" if n % 2 else None,
            "image": n,
        }


@pytest.fixture
def shard(tmp_path):
    convert(tmp_path / "set", samples, 1, "p", schema=SCHEMA)
    return tmp_path / "set" / "p-00000-of-00000"


@pytest.mark.parametrize("suffix", ["tfrecord", "parquet", "arrow", "jsonl", "csv"])
def test_names_with_separators_come_back_from_every_format(shard, tmp_path, suffix):
    there, back = tmp_path / f"there.{suffix}", tmp_path / "back.recordio"
    transcode(open_sample_file(shard, SourceOptions()), there, SinkOptions())
    options = SourceOptions(schema=SCHEMA if suffix in {"jsonl", "csv"} else None)
    transcode(open_sample_file(there, options), back, SinkOptions())
    assert back.read_bytes() == shard.read_bytes()


@pytest.mark.parametrize("name", ["a.parquet", "a.npz", "a.tar"])
def test_a_name_that_no_field_has_is_refused_with_the_file(tmp_path, name):
    pq.write_table(pa.table({"sepal length": [1]}), tmp_path / "a.parquet")
    np.savez(tmp_path / "a.npz", **{"sepal length": np.zeros(1)})
    tar_of(tmp_path / "a.tar", [("1.sepal length", b"")])
    with pytest.raises(ConfigError, match="expected a field name") as error:
        open_sample_file(tmp_path / name, SourceOptions())
    assert str(error.value).startswith(f"{tmp_path / name}: ")
    assert "rename the field or column" in str(error.value)


def test_a_feature_of_an_example_has_the_name_of_its_field(shard, tmp_path):
    transcode(open_sample_file(shard, SourceOptions()), tmp_path / "a.tfrecord", SinkOptions())
    first = decode_example(next(iter(TFRecordReader([tmp_path / "a.tfrecord"]))))
    assert set(first) >= {"image/encoded", "image/object/bbox/xmin", "image"}


def test_a_column_with_a_dot_is_not_taken_for_a_part_of_another_one(tmp_path):
    # Parquet calls both the column "a.b" and the part b of a column a by one path.
    table = pa.table({"a.b": pa.array([1, None]), "a": [1, 2], "c.d": [1, 2]})
    pq.write_table(table, tmp_path / "a.parquet")
    schema = open_sample_file(tmp_path / "a.parquet", SourceOptions()).schema
    assert [field.optional for field in schema] == [True, False, False]
