"""Examples, the messages in TFRecord files, to arrays and back."""

from trainfeed.tfrecord.examples._example import (
    FeatureValue,
    SequenceExample,
    decode_example,
    decode_sequence_example,
    encode_example,
    encode_sequence_example,
)
from trainfeed.tfrecord.examples._example_samples import ExampleCodec
from trainfeed.tfrecord.examples._feature_columns import SampleField
from trainfeed.tfrecord.examples._parse import parse_examples
from trainfeed.tfrecord.examples._protobuf_wire import encode_varint

__all__ = [
    "ExampleCodec",
    "FeatureValue",
    "SampleField",
    "SequenceExample",
    "decode_example",
    "decode_sequence_example",
    "encode_example",
    "encode_sequence_example",
    "encode_varint",
    "parse_examples",
]
