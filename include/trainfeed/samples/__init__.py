"""Samples as records: typed by a schema, or values of any kind; statistics of samples."""

from trainfeed.samples.batches import SampleReader
from trainfeed.samples.layout import (
    LENGTH_BYTES,
    FieldPlace,
    RecordLayout,
    frame_records,
    record_places,
)
from trainfeed.samples.pickled import PickleCodec
from trainfeed.samples.schema import (
    Field,
    Schema,
    absent_rows,
    array_of,
    joined_columns,
    masked_rows,
    rows_or_none,
)
from trainfeed.samples.statistics import FieldStatistics, Statistics, components_of_schema
from trainfeed.samples.typed import TypedCodec
from trainfeed.samples.values import ValueCodec

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
