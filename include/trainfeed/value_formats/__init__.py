"""Formats of values as Arrow columns: those with schemas in a registry, and lines of text.

A value has the id of its writer's schema and a datum. ``FramedValues`` reads many of them: those of
one id at once, in numpy, each from its own beginning to its own end, by the reader's schema. What
is no record of its schema is refused by its row, and no neighbour notices.
"""

from __future__ import annotations

from trainfeed.value_formats.formats import value_format
from trainfeed.value_formats.framed import (
    BAD_DATUM,
    INCOMPATIBLE_SCHEMA,
    NO_SCHEMA_ID,
    UNKNOWN_SCHEMA,
    DecodedValues,
    FramedValues,
    Refusal,
    SchemaError,
    ValueFormat,
    WriterSchema,
    schema_ids,
)
from trainfeed.value_formats.schema_fields import WriterFields, writer_fields
from trainfeed.value_formats.text_lines import (
    CsvDialect,
    CsvLines,
    JsonLines,
    LineReader,
    OpenQuoteError,
    csv_header,
)

__all__ = [
    "BAD_DATUM",
    "INCOMPATIBLE_SCHEMA",
    "NO_SCHEMA_ID",
    "UNKNOWN_SCHEMA",
    "CsvDialect",
    "CsvLines",
    "DecodedValues",
    "FramedValues",
    "JsonLines",
    "LineReader",
    "OpenQuoteError",
    "Refusal",
    "SchemaError",
    "ValueFormat",
    "WriterFields",
    "WriterSchema",
    "csv_header",
    "schema_ids",
    "value_format",
    "writer_fields",
]
