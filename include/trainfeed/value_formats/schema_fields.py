"""The fields of a writer's schema as text, to say how two schemas of the same records differ."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from trainfeed.value_formats.framed import WriterSchema
from trainfeed.value_formats.proto_schema import ProtoField, parse_proto

# Keys of Avro and JSON Schema that say nothing about the type of a value.
_NO_TYPE: Final = frozenset(
    {"doc", "aliases", "default", "order", "title", "description", "examples", "$comment"}
)


class WriterFields(NamedTuple):
    """The fields of the records that a schema describes.

    Attributes:
        record: Name of the record: that of Avro or of the message; empty for JSON Schema.
        types: Name of each field → its type as text.
    """

    record: str
    types: Mapping[str, str]


def writer_fields(schema: WriterSchema) -> WriterFields | None:
    """Return the fields of a writer's schema; None if it is not read, or describes no record."""
    try:
        match schema.kind:
            case "AVRO":
                return _avro(json.loads(schema.text))
            case "JSON":
                return _json(json.loads(schema.text))
            case "PROTOBUF":
                return _protobuf(schema)
            case _:
                return None
    except (ValueError, RecursionError):  # SchemaError is a ValueError
        return None


def _avro(top: Any) -> WriterFields | None:
    if not isinstance(top, dict) or top.get("type") != "record":
        return None
    fields = [each for each in top.get("fields") or () if isinstance(each, dict)]
    name = str(top.get("name"))
    if "." not in name and top.get("namespace"):
        name = f"{top['namespace']}.{name}"
    return WriterFields(name, {str(each.get("name")): _type(each.get("type")) for each in fields})


def _json(top: Any) -> WriterFields | None:
    properties = top.get("properties") if isinstance(top, dict) else None
    if not isinstance(properties, dict):
        return None
    required = set(map(str, top.get("required") or ()))
    types = {
        name: _type(each) + (" required" if name in required else "")
        for name, each in properties.items()
    }
    return WriterFields("", types)


def _type(value: Any) -> str:
    """Return a type of Avro or JSON Schema: its name alone, if it has no more."""
    found = _plain(value)
    if isinstance(found, dict) and found.keys() == {"type"}:
        found = found["type"]
    return found if isinstance(found, str) else json.dumps(found, ensure_ascii=False)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in sorted(value.items()) if key not in _NO_TYPE}
    return [_plain(each) for each in value] if isinstance(value, list) else value


def _protobuf(schema: WriterSchema) -> WriterFields | None:
    messages = parse_proto(schema.text, schema.references).messages
    if not messages:
        return None
    # Of several messages at the top, values may be any; their fields have the message in front.
    alone = len(messages) == 1
    types = {
        field.name if alone else f"{message.name}.{field.name}": " ".join(_words(field))
        for message in messages
        for field in message.fields
    }
    return WriterFields(messages[0].name if alone else "", types)


def _words(field: ProtoField) -> Iterator[str]:
    if field.is_repeated:
        yield "repeated"
    if field.is_required:
        yield "required"
    named = field.message or field.enum
    yield field.kind if named is None else named.name
    yield f"= {field.number}"
