"""TFRecord files, and the Examples in them as arrays; without TensorFlow."""

from trainfeed.tfrecord._record_index import TFRecordAccess, TFRecordIndex, TFRecordRange
from trainfeed.tfrecord._tfrecord_format import MAX_RECORD_BYTES, Compression
from trainfeed.tfrecord._tfrecord_reader import TFRecordReader, iter_records
from trainfeed.tfrecord._tfrecord_writer import TFRecordWriter, framed_record
from trainfeed.tfrecord.examples import (
    ExampleCodec,
    FeatureValue,
    SampleField,
    SequenceExample,
    decode_example,
    decode_sequence_example,
    encode_example,
    encode_sequence_example,
    parse_examples,
)

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
