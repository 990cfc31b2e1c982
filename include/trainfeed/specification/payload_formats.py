"""The formats of the values and keys of a topic, and the schema registries that they name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal, Protocol

from pydantic import Field, model_validator

from trainfeed.specification.values import (
    Connection,
    Part,
    RelativeFile,
    WrongValueError,
    matching,
)

_MESSAGE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")
# Formats that need no schema: the function gets the bytes.
_PLAIN: Final = ("bytes", "json")


class PayloadSpec(Part):
    """The format of the values, or of the keys, of a topic.

    Attributes:
        format: Format of the bytes. ``avro``, ``protobuf`` and ``json_schema`` are those of
            Confluent's serializers: the id of the writer's schema, and a datum. ``json`` and
            ``bytes`` say what the function gets, and change nothing.
        registry: Name of the connection of the schema registry that has the writers' schemas.
        reader_schema: File in the data set's folder with the reader's schema (``schema`` in the
            file, as in ``schema: click.avsc``), which says what fields the function gets: of Avro
            or JSON Schema as JSON, of Protobuf as a ``.proto`` file.
        message: Full name of the message, for a schema of Protobuf with several.
    """

    format: Literal["avro", "protobuf", "json_schema", "json", "bytes"]
    registry: Connection = "registry_default"
    reader_schema: Annotated[RelativeFile | None, Field(alias="schema")] = None
    message: Annotated[str, matching(_MESSAGE, "the full name of a message, like shop.Order")] | (
        None
    ) = None

    @model_validator(mode="after")
    def _has_what_its_format_needs(self) -> PayloadSpec:
        if self.has_schema and self.reader_schema is None:
            raise WrongValueError(
                f"a schema beside format {self.format}", "name the file with the reader's schema",
                shows_got=False,
            )  # fmt: skip
        if not self.has_schema and self.model_fields_set - {"format"}:
            raise WrongValueError(
                f"format alone, as {self.format} has no schema", "leave the others out",
                shows_got=False,
            )  # fmt: skip
        if self.message is not None and self.format != "protobuf":
            raise WrongValueError(
                "a message beside format protobuf only", "leave it out", shows_got=False
            )
        return self

    @property
    def has_schema(self) -> bool:
        """Whether the values have writers' schemas, and the function gets fields."""
        return self.format not in _PLAIN

    def fingerprint(self) -> dict[str, Any]:
        """Return the values that determine the fields; the registry is a connection."""
        message = {} if self.message is None else {"message": self.message}
        return {"format": self.format, **message}


class _Topic(Protocol):
    """What is read here of a topic: the formats of its values and keys, None for bytes."""

    @property
    def value(self) -> PayloadSpec | None: ...

    @property
    def key(self) -> PayloadSpec | None: ...


class _Source(Protocol):
    """What is read here of a kind of source: its topics."""

    @property
    def topics(self) -> Sequence[_Topic]: ...


def payloads(topic: _Topic) -> dict[str, PayloadSpec]:
    """Return ``value`` and ``key`` of a topic, as far as they have a schema."""
    both = {"value": topic.value, "key": topic.key}
    return {name: each for name, each in both.items() if each is not None and each.has_schema}


def registries_of(kind: _Source) -> list[str]:
    """Return the connections of the schema registries that a source names, in name order."""
    return sorted({each.registry for topic in kind.topics for each in payloads(topic).values()})


def payload_fingerprints(topic: _Topic) -> dict[str, Any]:
    """Return what of the formats of a topic determines the content: by part."""
    return {name: each.fingerprint() for name, each in payloads(topic).items()}
