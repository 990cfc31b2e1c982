"""Samples to records and back: typed by a schema, or values of any kind; statistics."""

from trainfeed.samples._batch_reader import SampleReader
from trainfeed.samples._codec import TypedCodec
from trainfeed.samples._schema import Field, Schema
from trainfeed.samples.statistics import FieldStatistics, Statistics
from trainfeed.samples.values import PickleCodec, ValueCodec

__all__ = [
    "Field",
    "FieldStatistics",
    "PickleCodec",
    "SampleReader",
    "Schema",
    "Statistics",
    "TypedCodec",
    "ValueCodec",
]
