"""TFRecord files, and the Examples in them as arrays; without TensorFlow."""

from trainfeed.tfrecord.codec import ExampleCodec
from trainfeed.tfrecord.example import (
    FeatureValue,
    SampleField,
    SequenceExample,
    decode_example,
    decode_sequence_example,
    encode_example,
    encode_sequence_example,
)
from trainfeed.tfrecord.format import MAX_RECORD_BYTES, Compression
from trainfeed.tfrecord.index import TFRecordAccess, TFRecordIndex, TFRecordRange
from trainfeed.tfrecord.parse import parse_examples
from trainfeed.tfrecord.read import TFRecordReader, iter_records
from trainfeed.tfrecord.write import TFRecordWriter, framed_record

__all__ = [
    "MAX_RECORD_BYTES",
    "Compression",
    "ExampleCodec",
    "FeatureValue",
    "SampleField",
    "SequenceExample",
    "TFRecordAccess",
    "TFRecordIndex",
    "TFRecordRange",
    "TFRecordReader",
    "TFRecordWriter",
    "decode_example",
    "decode_sequence_example",
    "encode_example",
    "encode_sequence_example",
    "framed_record",
    "iter_records",
    "parse_examples",
]
