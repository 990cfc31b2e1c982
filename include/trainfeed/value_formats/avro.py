"""Values of Avro: the reader's schema, and the datums of its writers as columns of it."""

from __future__ import annotations

import pyarrow as pa

from trainfeed.value_formats.avro_columns import Step
from trainfeed.value_formats.avro_resolution import resolve
from trainfeed.value_formats.avro_schema import arrow_type, parse_avro
from trainfeed.value_formats.datums import Cursor
from trainfeed.value_formats.framed import DatumReader, SchemaError, WriterSchema

_KIND = "AVRO"


class AvroFormat:
    """Values of Avro.

    Args:
        text: The reader's schema, as JSON.

    Raises:
        SchemaError: The schema is not valid, or has a type that is no column.
    """

    def __init__(self, text: str) -> None:
        self._schema = parse_avro(text)
        self._type = arrow_type(self._schema)

    @property
    def type(self) -> pa.DataType:
        """The Arrow type of a value."""
        return self._type

    def datum_reader(self, writer: WriterSchema) -> DatumReader:
        """Return what reads the datums of a writer.

        Raises:
            SchemaError: The writer's schema is not valid, or does not fit the reader's.
        """
        if writer.kind != _KIND:
            raise SchemaError(f"expected a schema of Avro, got one of kind {writer.kind}")
        schema = parse_avro(writer.text, list(writer.references.values()))
        return _AvroDatums(resolve(schema, self._schema))


class _AvroDatums:
    def __init__(self, step: Step) -> None:
        self._step = step

    def read(self, cursor: Cursor) -> pa.Array:
        column = self._step.read(cursor)
        cursor.refuse_rest()
        return column
