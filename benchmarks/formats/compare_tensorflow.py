"""Compares TFRecord and Example with TensorFlow's, both ways; a difference ends the comparison.

    PYTHONPATH=include python benchmarks/formats/compare_tensorflow.py

Needs the package tensorflow-cpu beside trainfeed's own, so it is no test of every run.
"""

from __future__ import annotations

import random
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from google.protobuf.internal import api_implementation

from trainfeed.samples import Field, Schema
from trainfeed.tfrecord import (
    ExampleCodec,
    TFRecordReader,
    TFRecordWriter,
    decode_example,
    decode_sequence_example,
    encode_example,
    encode_sequence_example,
    parse_examples,
)

KEYS = ["", "a", "ab", "abc", "label", "label_id", "feature", "f", "é", "Z", "zz"]


def main() -> None:
    """Compare files, Examples, SequenceExamples and batches."""
    if api_implementation.Type() != "upb":
        raise SystemExit(f"expected protobuf's upb, got {api_implementation.Type()}")
    generator = random.Random(3)  # noqa: S311 (not a secret)
    with tempfile.TemporaryDirectory() as folder:
        num_files = compare_files(Path(folder), generator)
    num_examples = sum(compare_example(generator) for _ in range(2000))
    num_sequences = sum(compare_sequence(generator) for _ in range(500))
    num_rows = compare_batch()
    print(
        f"tensorflow {tf.__version__}: {num_files} files, {num_examples} Examples,"
        f" {num_sequences} SequenceExamples and a batch of {num_rows}: no difference"
    )


def compare_files(folder: Path, generator: random.Random) -> int:
    """Write and read files of every compression with both; return how many."""
    num_files = 0
    for number in range(12):
        sizes = [generator.choice([0, 1, 37, 300, 70_000]) for _ in range(generator.randrange(60))]
        records = [generator.randbytes(size) for size in sizes]
        for compression in ("", "GZIP", "ZLIB"):
            mine, theirs = folder / f"{number}{compression}", folder / f"{number}{compression}.tf"
            with TFRecordWriter(mine, compression) as writer:
                for record in records:
                    writer.write(record)
            with tf.io.TFRecordWriter(str(theirs), compression) as writer:
                for record in records:
                    writer.write(record)
            found = tf.data.TFRecordDataset(str(mine), compression).as_numpy_iterator()
            require(list(found) == records, "TensorFlow reads another file than was written")
            require(list(TFRecordReader(theirs)) == records, "a file of TensorFlow is read wrongly")
            if not compression:
                require(mine.read_bytes() == theirs.read_bytes(), "the files differ")
            num_files += 2
    return num_files


def compare_example(generator: random.Random) -> int:
    """Compare one Example of random features."""
    features = random_features(generator)
    record = encode_example(features)
    theirs = tf.train.Example(features=tf.train.Features(feature=to_tensorflow(features)))
    # An Example without features has no message of them here, and an empty one there.
    expected = theirs.SerializeToString(deterministic=True) if features else b""
    require(record == expected, f"{features} is encoded as {record.hex()}, not {expected.hex()}")
    require(tf.train.Example.FromString(record) == theirs or not features, "it is parsed wrongly")
    back = decode_example(theirs.SerializeToString())
    require(sorted(back) == sorted(features), "keys are lost")
    for key, value in features.items():
        same = value is None if back[key] is None else np.array_equal(back[key], value)
        require(bool(same), f"{value} comes back as {back[key]}")
    return 1


def compare_sequence(generator: random.Random) -> int:
    """Compare one SequenceExample."""
    context = random_features(generator)
    lists = {
        key: [random_features(generator).get("a") for _ in range(generator.randrange(4))]
        for key in generator.sample(KEYS, generator.randrange(1, 4))
    }
    context = context or {"a": np.arange(1)}
    record = encode_sequence_example(context, lists)
    theirs = tf.train.SequenceExample(
        context=tf.train.Features(feature=to_tensorflow(context)),
        feature_lists=tf.train.FeatureLists(
            feature_list={
                key: tf.train.FeatureList(feature=[one_to_tensorflow(v) for v in values])
                for key, values in lists.items()
            }
        ),
    )
    require(record == theirs.SerializeToString(deterministic=True), "SequenceExamples differ")
    back = decode_sequence_example(theirs.SerializeToString())
    require(
        {k: len(v) for k, v in back.feature_lists.items()} == {k: len(v) for k, v in lists.items()},
        "steps",
    )
    return 1


def compare_batch() -> int:
    """Parse a batch with both, of records that TensorFlow wrote."""
    numbers = np.random.default_rng(1)
    schema = Schema(
        (
            Field("image", "uint8", (28, 28)),
            Field("label", "int64"),
            Field("weights", "float32", (3,)),
            Field("ids", "int64", (None,)),
        )
    )
    rows = [
        {
            "image": numbers.integers(0, 256, (28, 28)).astype(np.uint8),
            "label": np.asarray(numbers.integers(-(2**62), 2**62)),
            "weights": numbers.random(3, np.float32),
            "ids": numbers.integers(-3, 2**40, numbers.integers(0, 9)),
        }
        for _ in range(300)
    ]
    codec = ExampleCodec(schema)
    records = [codec.encode(row) for row in rows]
    theirs = tf.io.parse_example(
        records,
        {
            "image": tf.io.FixedLenFeature([], tf.string),
            "label": tf.io.FixedLenFeature([], tf.int64),
            "weights": tf.io.FixedLenFeature([3], tf.float32),
            "ids": tf.io.RaggedFeature(tf.int64),
        },
    )
    mine = parse_examples(records, schema)
    images = tf.io.decode_raw(theirs["image"], tf.uint8).numpy().reshape(-1, 28, 28)
    require(np.array_equal(mine["image"], images), "images differ")
    require(np.array_equal(mine["label"], theirs["label"].numpy()), "labels differ")
    require(np.array_equal(mine["weights"], theirs["weights"].numpy()), "weights differ")
    ids = [row.tolist() for row in mine["ids"]]
    require(ids == theirs["ids"].to_list(), "ids differ")
    return len(rows)


def random_features(generator: random.Random) -> dict[str, Any]:
    """Return features of random keys, kinds and lengths, as ``decode_example`` gives them."""
    return {key: random_value(generator) for key in generator.sample(KEYS, generator.randrange(6))}


def random_value(generator: random.Random) -> Any:
    """Return a list of one kind, or None."""
    length = generator.choice([0, 1, 2, 40])
    kind = generator.randrange(4)
    if kind == 0:
        return [generator.randbytes(generator.randrange(5)) for _ in range(max(length, 1))]
    if kind == 1:
        return np.array([generator.uniform(-9, 9) for _ in range(length)], np.float32)
    if kind == 2:
        return np.array([generator.randint(-(2**63), 2**63 - 1) for _ in range(length)], np.int64)
    return None


def to_tensorflow(features: dict[str, Any]) -> dict[str, tf.train.Feature]:
    """Return the same features as TensorFlow's."""
    return {key: one_to_tensorflow(value) for key, value in features.items()}


def one_to_tensorflow(value: Any) -> tf.train.Feature:
    """Return one feature as TensorFlow's."""
    if value is None:
        return tf.train.Feature()
    if isinstance(value, list):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=value))
    if value.dtype == np.float32:
        return tf.train.Feature(float_list=tf.train.FloatList(value=value))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=value))


def require(holds: bool, what: str) -> None:
    """End with an error unless it holds."""
    if not holds:
        raise SystemExit(what)


if __name__ == "__main__":
    main()
