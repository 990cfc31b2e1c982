"""Fields named as TFRecords name them, from dataset.yaml to batches."""

import numpy as np
import pytest

from tests.unit.pipeline.conftest import project
from tests.unit.pipeline.functions.test_batch_mode import CODE, as_batches
from trainfeed.loader import DataLoader
from trainfeed.readers import open_dataset
from trainfeed.tfrecord import TFRecordReader, decode_example

__all__ = ["project"]


@pytest.fixture
def named(project):
    """The data set of every test, with a field for each separator; a gate and the split use one."""
    project.edit(
        "  value: {dtype: float32}\n  label:", "  image/value: {dtype: float32}\n  image.label:"
    )
    project.edit(
        '"value": row["value"], "label": n',
        '"image/value": row["value"], "image.label": n',
        "preprocess.py",
    )
    project.edit("by: record}", "by: [image/value]}")
    gate = "quality: [{check: range, field: image/value, min: 0}]"
    project.edit("output: {codec", f"{gate}\noutput: {{codec")
    return project


@pytest.mark.parametrize("output", ["codec: zstd", "format: tfrecord"])
def test_a_data_set_is_built_and_read_by_such_names(named, output):
    named.edit("codec: zstd", output)
    named.build()
    version = named.version()
    assert version.schema.names == ("image/value", "image.label")
    assert version.manifest.gates[0]["field"] == "image/value"
    train = open_dataset(version.path, split="train")
    batches = list(DataLoader(train, batch_size=8))
    assert set(batches[0]) == {"image/value", "image.label"}
    values = np.concatenate([batch["image/value"] for batch in batches])
    assert sorted(values) == sorted(sample["image/value"] for sample in train.reader()())
    if "tfrecord" in output:
        record = next(iter(TFRecordReader(version.shard_paths("train")[:1])))
        assert set(decode_example(record)) == {"image/value", "image.label"}


def test_both_modes_give_such_a_data_set_the_same_bytes(named):
    named.build()
    other = named.elsewhere("batch")
    code = CODE.replace('"value": pa', '"image/value": pa').replace(
        '"label": pa', '"image.label": pa'
    )
    as_batches(other, code).build()
    digests = {each.version().manifest.content_digest for each in (named, other)}
    assert len(digests) == 1
