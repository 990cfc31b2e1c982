"""TFRecord files and the Examples in them: bytes to bytes, bytes to arrays, no TensorFlow."""

from trainfeed.tfrecord._columns import SampleField
from trainfeed.tfrecord._example import (
    FeatureValue,
    SequenceExample,
    decode_example,
    decode_sequence_example,
    encode_example,
    encode_sequence_example,
)
from trainfeed.tfrecord._format import MAX_RECORD_BYTES, Compression
from trainfeed.tfrecord._index import TFRecordAccess, TFRecordIndex, TFRecordRange
from trainfeed.tfrecord._parse import parse_examples
from trainfeed.tfrecord._reader import TFRecordReader, iter_records
from trainfeed.tfrecord._samples import ExampleCodec
from trainfeed.tfrecord._writer import TFRecordWriter

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
    "iter_records",
    "parse_examples",
]
