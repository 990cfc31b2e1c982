"""The JSON Schema of ``dataset.yaml``, by which editors complete, describe and check fields."""

from __future__ import annotations

import inspect
import json
import re
from datetime import timedelta
from typing import Any, Final

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from trainfeed.specification.model import DatasetSpec

_ATTRIBUTE: Final = re.compile(r"(?m)^    (\w+): (.*(?:\n {8}.*)*)")


def json_schema() -> dict[str, Any]:
    """Return the schema as JSON: draft 2020-12, a description for every property."""
    schema = DatasetSpec.model_json_schema(by_alias=True, schema_generator=_Generator)
    return {
        "$schema": GenerateJsonSchema.schema_dialect,
        "title": "A data set of trainfeed: dataset.yaml",
        **{key: value for key, value in schema.items() if key != "title"},
    }


def json_schema_text() -> str:
    """Return the schema as the text of a file."""
    return json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"


class _Generator(GenerateJsonSchema):
    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        """Add descriptions from the model's docstring, and the forms that validators convert."""
        made = super().model_schema(schema)
        model: type[BaseModel] = schema["cls"]
        made["description"] = _summary(model)
        for name, described in _attributes(model).items():
            field = model.model_fields[name]
            made["properties"][field.alias or name]["description"] = described
        return _ACCEPTED.get(model.__name__, _as_it_is)(made)

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        """Add the default in the form of the file; None stands for a field that is left out."""
        made = self.generate_inner(schema["schema"])
        default = schema.get("default")
        if isinstance(default, timedelta):
            default = _duration(default)
        return {**made, "default": default} if isinstance(default, str | int) else made

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 - overrides
        """Give fields no titles: they would repeat the names."""
        return False


def _duration(value: timedelta) -> str:
    seconds = int(value.total_seconds())
    units = (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1))
    unit, length = next(unit for unit in units if seconds % unit[1] == 0)
    return f"{seconds // length}{unit}" if seconds else "0s"


def _summary(model: type[BaseModel]) -> str:
    text = inspect.getdoc(model) or ""
    return _plain(text.partition("\n\n")[0])


def _attributes(model: type[BaseModel]) -> dict[str, str]:
    """Return field → description, from the docstrings of a model and its base classes."""
    found: dict[str, str] = {}
    for base in reversed(model.__mro__):
        _, _, section = (inspect.getdoc(base) or "").partition("Attributes:\n")
        if _room(base) == _room(model):
            found |= {name: _plain(text) for name, text in _ATTRIBUTE.findall(section)}
    return {name: text for name, text in found.items() if name in model.model_fields}


def _room(model: type) -> str:
    return model.__module__.rpartition(".")[0]


def _plain(text: str) -> str:
    return re.sub(r"\s+", " ", text.replace("``", "`")).strip()


def _as_it_is(schema: JsonSchemaValue) -> JsonSchemaValue:
    return schema


def _source(schema: JsonSchemaValue) -> JsonSchemaValue:
    """Require exactly one kind of source, and allow one topic without a list around it."""
    topics = schema["properties"]["kafka"]
    schema["properties"]["kafka"] = {
        "description": topics.pop("description"),
        "anyOf": [topics["items"], topics],
    }
    return {**schema, "minProperties": 1, "maxProperties": 1}


def _source_of_a_time(schema: JsonSchemaValue) -> JsonSchemaValue:
    """Allow ``until`` beside the one kind of source."""
    return {**_source(schema), "maxProperties": 2}


def _dataset(schema: JsonSchemaValue) -> JsonSchemaValue:
    """Require a source, or sources, which stand behind it."""
    given = schema["properties"]
    first = {name: given[name] for name in given if name != "sources"}
    names = [each for name in first for each in (name, *(("sources",) if name == "source" else ()))]
    schema = {**schema, "properties": {name: given[name] for name in names}}
    return {**schema, "oneOf": [{"required": ["source"]}, {"required": ["sources"]}]}


def _split(schema: JsonSchemaValue) -> JsonSchemaValue:
    fields = schema["properties"]["by"]
    named = next(part for part in fields["anyOf"] if part.get("type") == "array")
    schema["properties"]["by"] = {
        "description": fields["description"],
        "anyOf": [{"const": "record"}, {**named, "minItems": 1, "uniqueItems": True}],
    }
    return schema


_ACCEPTED: Final = {
    "DatasetSpec": _dataset,
    "OneSource": _source,
    "SourceSpec": _source,
    "SourcePeriod": _source_of_a_time,
    "SplitSpec": _split,
}
