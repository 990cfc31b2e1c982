"""The values of a topic behind a schema registry: their schema, and their fields for a draft."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from trainfeed.conversion import SchemaDraft, draft_records
from trainfeed.core.config import Environment
from trainfeed.errors import ConfigError
from trainfeed.pipeline.inputs.registries import SchemaRegistry, registry_settings
from trainfeed.value_formats import (
    FramedValues,
    SchemaError,
    WriterSchema,
    schema_ids,
    value_format,
)

_REGISTRY: Final = "registry_default"
_HEAD_BYTES: Final = 5
# The share of values with a schema's id from which on the others count as mistakes.
_LEAST_FRAMED: Final = 0.95
# A registry's word for the kind of a schema → format, and the name of the file.
_KINDS: Final = {
    "AVRO": ("avro", "value.avsc"),
    "PROTOBUF": ("protobuf", "value.proto"),
    "JSON": ("json_schema", "value.schema.json"),
}


@dataclass(frozen=True)
class FramedDraft:
    """What was drafted from values with schemas.

    Attributes:
        draft: The draft of the samples' schema.
        value: The setting ``value`` of the topic, as text of YAML.
        file: Name of the file with the reader's schema.
        schema: Its content: the newest schema that a value has.
    """

    draft: SchemaDraft
    value: str
    file: str
    schema: str


def are_framed(values: Sequence[bytes | None]) -> bool:
    """Return whether values have the id of a schema in front; JSON never begins with a zero."""
    present = [each for each in values if each is not None]
    framed = sum(len(each) >= _HEAD_BYTES and not each[0] for each in present)
    return bool(present) and framed >= _LEAST_FRAMED * len(present)


def draft_framed(env: Environment, topic: str, values: Sequence[bytes | None]) -> FramedDraft:
    """Ask the registry for the schemas of values, and draft a schema of samples from their fields.

    Args:
        env: The settings of the registry ``registry_default``.
        topic: Name of the topic, for messages.
        values: Values with the id of a schema in front; None is a record without a value.

    Raises:
        ConfigError: The registry has no settings or refuses them, it has none of the schemas, or
            the newest one cannot be a reader's.
        SourceUnreachableError: The registry does not answer.
        FormatError: No value is one of its schema.
    """
    column = pa.array(values, pa.binary())
    writers = _writers(env, sorted(schema_ids(column)))
    if not writers:
        raise ConfigError(
            f"topic {topic}: expected a schema of its values in the registry {_REGISTRY}, got none"
            " for their ids; nothing was made; correct the connection, or name another topic"
        )
    number = max(writers)
    newest = writers[number]
    if newest.references:
        raise _refusal(topic, number, "it refers to other schemas")
    try:
        form, file = _KINDS[newest.kind]
        fields = FramedValues(value_format(form, newest.text.encode()), writers)
    except (KeyError, SchemaError) as error:
        raise _refusal(topic, number, str(error)) from error
    found = fields.read(column)
    records = found.column.drop_null()
    types = {each.name: each.type for each in fields.type}
    unread = Counter(each.reason for each in found.refused)
    draft = draft_records(
        f"topic {topic}", form, [records], types, rows=len(values), total=len(records),
        unread=unread,
    )  # fmt: skip
    value = f"{{format: {form}, registry: {_REGISTRY}, schema: {file}}}"
    return FramedDraft(draft, value, file, _readable(newest))


def _writers(env: Environment, ids: Sequence[int]) -> dict[int, WriterSchema]:
    settings = registry_settings(env.registries, _REGISTRY)
    with closing(SchemaRegistry(_REGISTRY, settings)) as registry:
        found = {number: registry.schema(number) for number in ids}
    return {number: schema for number, schema in found.items() if schema is not None}


def _refusal(topic: str, number: int, why: str) -> ConfigError:
    return ConfigError(
        f"topic {topic}: expected schema {number} of the registry {_REGISTRY} to be that of a"
        f" reader: {why}; nothing was made; write the reader's schema by hand, with the fields that"
        " samples need: trainfeed new without --from, then source.kafka.value of dataset.yaml"
    )


def _readable(schema: WriterSchema) -> str:
    """Return the text, that of JSON with a line for each part."""
    if schema.kind == "PROTOBUF":
        return schema.text
    return json.dumps(json.loads(schema.text), indent=2, ensure_ascii=False) + "\n"
