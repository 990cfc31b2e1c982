"""A data set that is published as TFRecord, read by TensorFlow alone."""

import numpy as np
import pytest
import tensorflow as tf

from tests.unit.pipeline.conftest import project
from trainfeed.readers import open_dataset

__all__ = ["project"]


@pytest.fixture
def version(project):
    project.edit("codec: zstd", "format: tfrecord")
    project.edit(
        "value: {dtype: float32}",
        "value: {dtype: float32}\n  exact: {dtype: float64, shape: [2]}\n  note: {dtype: str}"
        "\n  image: {dtype: uint8, shape: [2, 3]}\n  steps: {dtype: int32, shape: [null]}",
    )
    project.edit(
        '"label": n',
        '"label": n, "exact": [0.1, row["value"]], "note": "é" * n,'
        ' "image": [[n, 1, 2], [3, 4, 255]], "steps": list(range(n))',
        "preprocess.py",
    )
    project.build()
    return project.version()


def test_tensorflow_reads_what_trainfeed_published(version):
    features = {
        "value": tf.io.FixedLenFeature([], tf.float32),
        "exact": tf.io.FixedLenFeature([], tf.string),
        "note": tf.io.FixedLenFeature([], tf.string),
        "image": tf.io.FixedLenFeature([], tf.string),
        "steps": tf.io.VarLenFeature(tf.int64),
        "label": tf.io.FixedLenFeature([], tf.int64),
    }
    paths = [str(path) for path in version.shard_paths("train")]
    expected = list(open_dataset(version.path, split="train").reader()())
    found = [tf.io.parse_single_example(r, features) for r in tf.data.TFRecordDataset(paths)]
    assert len(found) == len(expected) > 0
    for one, other in zip(found, expected, strict=True):
        assert one["value"].numpy() == other["value"]
        assert one["label"].numpy() == other["label"]
        assert one["note"].numpy().decode() == other["note"]
        exact = tf.io.decode_raw(one["exact"], tf.float64).numpy()
        np.testing.assert_array_equal(exact, other["exact"])
        image = tf.reshape(tf.io.decode_raw(one["image"], tf.uint8), (2, 3)).numpy()
        np.testing.assert_array_equal(image, other["image"])
        np.testing.assert_array_equal(tf.sparse.to_dense(one["steps"]).numpy(), other["steps"])


def test_the_bytes_are_those_of_tensorflow(version, tmp_path):
    (path, *_) = version.shard_paths("train")
    with tf.io.TFRecordWriter(str(tmp_path / "copy")) as writer:
        for record in tf.data.TFRecordDataset(str(path)):
            example = tf.train.Example.FromString(record.numpy())
            writer.write(example.SerializeToString(deterministic=True))
    assert (tmp_path / "copy").read_bytes() == path.read_bytes()
