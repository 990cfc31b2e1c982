"""Samples to records and back: typed by a schema, or values of any kind; statistics."""

from trainfeed.samples._codec import TypedCodec
from trainfeed.samples._pickled import PickleCodec
from trainfeed.samples._reader import SampleReader
from trainfeed.samples._schema import Field, Schema
from trainfeed.samples._statistics import FieldStatistics, Statistics
from trainfeed.samples._value_codec import ValueCodec

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
