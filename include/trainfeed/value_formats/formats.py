"""The formats by their names in dataset.yaml."""

from __future__ import annotations

import pyarrow as pa

from trainfeed.value_formats.avro import AvroFormat
from trainfeed.value_formats.framed import SchemaError, ValueFormat
from trainfeed.value_formats.json_values import JsonSchemaFormat
from trainfeed.value_formats.protobuf import ProtobufFormat


def value_format(
    name: str, schema: bytes, message: str | None = None, *, is_key: bool = False
) -> ValueFormat:
    """Return a format with the reader's schema.

    Args:
        name: Name of the format, as ``avro``.
        schema: Content of the file with the reader's schema.
        message: Full name of the message, for a schema of Protobuf with several.
        is_key: Whether it is of keys, which may be a single value.

    Raises:
        SchemaError: The schema is not valid, has a type that is no column, or is no record.
    """
    text = _text(schema)
    found: ValueFormat
    match name:
        case "avro":
            found = AvroFormat(text)
        case "protobuf":
            found = ProtobufFormat(text, message)
        case "json_schema":
            found = JsonSchemaFormat(text)
        case _:
            raise SchemaError(f"expected a format with a schema, got {name!r}")
    if not is_key and not pa.types.is_struct(found.type):
        raise SchemaError(f"expected a record at the top of the schema of values, got {found.type}")
    return found


def _text(schema: bytes) -> str:
    try:
        return schema.decode()
    except UnicodeDecodeError as error:
        raise SchemaError(f"expected a schema in UTF-8: {error}") from error
