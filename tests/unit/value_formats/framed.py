"""Values as a serializer writes them, and what becomes of them."""

import json

import pyarrow as pa

from tests.support.avro import encode
from trainfeed.value_formats import FramedValues, WriterSchema, value_format

ID = 7


def frame(datum, number=ID):
    return b"\0" + number.to_bytes(4, "big") + datum


def values_of(schema, rows, number=ID):
    return [frame(encode(schema, row), number) for row in rows]


def reader_of(reader, writers, **options):
    """Return what reads values by a reader's schema; ``writers`` is id → schema."""
    known = {n: WriterSchema("AVRO", json.dumps(each), {}) for n, each in writers.items()}
    return FramedValues(value_format("avro", json.dumps(reader).encode(), **options), known)


def read(reader, writer, values):
    return reader_of(reader, {ID: writer}).read(pa.array(values, pa.binary()))


def rows_of(decoded):
    """Return the rows as Python values, maps as dicts."""
    return [_plain(row, decoded.column.type) for row in decoded.column.to_pylist()]


def _plain(value, kind):
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {each.name: _plain(value[each.name], each.type) for each in kind}
    if pa.types.is_map(kind):
        return {key: _plain(each, kind.item_type) for key, each in value}
    if pa.types.is_list(kind):
        return [_plain(each, kind.value_type) for each in value]
    return value


def record(*fields, name="Event"):
    """Return a record of ``(name, type)`` or ``(name, type, default)``."""
    made = [
        dict(zip(("name", "type", "default"), each, strict=False))
        if isinstance(each, tuple)
        else each
        for each in fields
    ]
    return {"type": "record", "name": name, "fields": made}
