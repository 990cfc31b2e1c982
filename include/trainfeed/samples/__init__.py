"""Samples as records: typed by a schema, or values of any kind; statistics of samples."""

from trainfeed.samples._array_values import array_of
from trainfeed.samples._batch_reader import SampleReader
from trainfeed.samples._codec import TypedCodec
from trainfeed.samples._presence import absent_rows, joined_columns, masked_rows, rows_or_none
from trainfeed.samples._record_layout import (
    LENGTH_BYTES,
    FieldPlace,
    RecordLayout,
    frame_records,
    record_places,
)
from trainfeed.samples._schema import Field, Schema
from trainfeed.samples.statistics import FieldStatistics, Statistics, components_of_schema
from trainfeed.samples.values import PickleCodec, ValueCodec

__all__ = [
    "LENGTH_BYTES",
    "Field",
    "FieldPlace",
    "FieldStatistics",
    "PickleCodec",
    "RecordLayout",
    "SampleReader",
    "Schema",
    "Statistics",
    "TypedCodec",
    "ValueCodec",
    "absent_rows",
    "array_of",
    "components_of_schema",
    "frame_records",
    "joined_columns",
    "masked_rows",
    "record_places",
    "rows_or_none",
]
