"""Typed samples: a schema, samples to records and back, statistics."""

from trainfeed.samples._codec import TypedCodec
from trainfeed.samples._schema import Field, Schema
from trainfeed.samples._statistics import FieldStatistics, Statistics

__all__ = ["Field", "FieldStatistics", "Schema", "Statistics", "TypedCodec"]
