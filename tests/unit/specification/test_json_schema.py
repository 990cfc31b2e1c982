"""The JSON Schema says what the model says, as far as single fields go, and describes all of it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from ruamel.yaml import YAML

from trainfeed.specification import json_schema, json_schema_text

ROOT = Path(__file__).resolve().parents[3]
GOOD = Path(__file__).with_name("clicks.yaml").read_text()
VALIDATOR = jsonschema.Draft202012Validator(json_schema())


def parsed(text: str) -> Any:
    """The document as an editor sees it: dates are texts."""
    return YAML(typ="safe", pure=True).load(re.sub(r"(?m)^(start|end): (\S+)", r'\1: "\2"', text))


def properties(node: Any, place: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(node, dict):
        for name, schema in node.get("properties", {}).items():
            yield f"{place}.{name}", schema
        for key, value in node.items():
            yield from properties(value, f"{place}/{key}")
    elif isinstance(node, list):
        for value in node:
            yield from properties(value, place)


def test_it_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(json_schema())


def test_every_field_is_described() -> None:
    found = list(properties(json_schema()))
    assert len(found) > 60
    assert [place for place, schema in found if not schema.get("description")] == []


@pytest.mark.parametrize(
    "file",
    [
        Path("tests/unit/specification/clicks.yaml"),
        *sorted(Path("include/datasets").glob("*/dataset.yaml")),
    ],
    ids=str,
)
def test_right_specifications_are_right_to_it(file: Path) -> None:
    assert [e.message for e in VALIDATOR.iter_errors(parsed((ROOT / file).read_text()))] == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("seed: 7", "seeds: 7"),
        ("seed: 7", "seed: seven"),
        ("seed: 7", "seed: -1"),
        ("dtype: int64", "dtype: integer"),
        ("dtype: int64", "dtyp: int64"),
        ("settle: 30m", "settle: 30 minutes"),
        ("late: keep", "late: drop"),
        ("name: clicks", "name: Clicks"),
        ("train: 0.9", "train: 1.9"),
        ("codec: zstd", "codec: zip"),
        ("severity: block", "severity: stop"),
        ("preprocess:clicks", "preprocess"),
        ("kafka:", "kafkas:"),
    ],
)
def test_a_mistake_in_a_field_is_one_to_it(old: str, new: str) -> None:
    assert old in GOOD
    assert not VALIDATOR.is_valid(parsed(GOOD.replace(old, new)))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("seed: 7", "seed: 18446744073709551615"),
        ("chunk_bytes: 1MiB", "chunk_bytes: 1000"),
        ("by: record", "by: [label]"),
    ],
)
def test_other_forms_of_a_value_are_right_as_well(old: str, new: str) -> None:
    assert old in GOOD
    assert [e.message for e in VALIDATOR.iter_errors(parsed(GOOD.replace(old, new)))] == []


def test_defaults_have_the_form_of_the_file() -> None:
    defaults = {
        place.rpartition(".")[2]: schema["default"]
        for place, schema in properties(json_schema())
        if "default" in schema
    }
    assert (defaults["skew"], defaults["codec"], defaults["catchup"]) == ("1d", "zstd", False)
    assert all(re.fullmatch(r"\d+[smhd]", defaults[name]) for name in ("wait", "settle"))


def test_the_committed_schema_is_this_one() -> None:
    committed = (ROOT / "docs" / "dataset.schema.json").read_text()
    assert committed == json_schema_text(), "run: make docs"
    json.loads(committed)
