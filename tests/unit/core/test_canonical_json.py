"""Canonical JSON: one byte sequence for one value, and nothing trusted on the way in.

Objects with a digest of themselves are JSON still, and nothing of them can change unnoticed.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import pytest

from trainfeed.core import canonical_json
from trainfeed.core.canonical_json import JsonFields, json_value, require_intact, seal
from trainfeed.errors import ChecksumError, FormatError

TEXT = b'{\n "a": [1, 2],\n "b": "c"\n}\n'


def test_keys_are_sorted_and_nothing_is_escaped_or_spaced():
    assert canonical_json.dumps({"é": 1, "b": [0.1, 1e22, True, None], "a": "\u2028/"}) == (
        '{"a":"\u2028/","b":[0.1,1e+22,true,null],"é":1}'.encode()
    )


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1, 2}, "\ud800"])
def test_what_json_cannot_say_is_refused(value):
    with pytest.raises(FormatError, match="no canonical JSON form"):
        canonical_json.dumps(value)


@pytest.mark.parametrize(
    "data", [b"", b"{", b'{"a":1,"a":2}', b"NaN", b"[" * 100_000, b"\xff", b'{"a":Infinity}']
)
def test_hostile_documents_are_format_errors(data):
    with pytest.raises(FormatError):
        canonical_json.loads(data)


def test_a_document_above_the_cap_is_refused_before_it_is_parsed():
    with pytest.raises(FormatError, match="at most"):
        canonical_json.loads(bytes(canonical_json.MAX_BYTES + 1))


def test_a_sealed_object_is_json_with_its_digest_as_last_member():
    sealed = seal(TEXT)
    require_intact(sealed, path="x")
    body = sealed[: sealed.index(b',\n "digest"')]
    digest = hashlib.sha256(body).hexdigest()
    assert json.loads(sealed) == {"a": [1, 2], "b": "c", "digest": digest}
    assert list(json.loads(sealed))[-1] == "digest"


def test_every_changed_bit_and_every_other_length_is_noticed():
    sealed = seal(TEXT)
    damaged = [sealed[:size] for size in range(len(sealed))] + [sealed + b"\n", TEXT, b""]
    for bit in range(8 * len(sealed)):
        flipped = bytearray(sealed)
        flipped[bit // 8] ^= 1 << bit % 8
        damaged.append(bytes(flipped))
    for data in damaged:
        with pytest.raises(ChecksumError, match="expected its own SHA-256 at its end"):
            require_intact(data, path="x")


class _Color(StrEnum):
    RED = "red"


class _Pair(NamedTuple):
    name: str
    sizes: tuple[int, ...]


@dataclass(frozen=True)
class _Plain:
    pair: _Pair
    color: _Color


class _Own:
    def to_json(self) -> str:
        return "its own form"


@dataclass(frozen=True, slots=True)
class _Whole(
    JsonFields,
    also=("total", "kind"),
    without=("secret",),
    optional=("note", "counts"),
    names={"num_bytes": "bytes", "total": "sum"},
):
    kind: ClassVar = "whole"
    num_bytes: int
    place: Path
    secret: object = None
    note: str | None = None
    counts: Mapping[str, int] = field(default_factory=dict)
    parts: Sequence[Any] = ()

    @property
    def total(self) -> int:
        return sum(self.counts.values())


def test_a_dataclass_has_the_json_of_its_fields_and_says_what_differs():
    parts = (_Plain(_Pair("a", (1, 2)), _Color.RED), _Own(), range(2), None, "text")
    value = _Whole(3, Path("/a/b"), object(), "n", Counter("aab"), parts).to_json()
    assert value == {
        "bytes": 3,
        "place": "/a/b",
        "note": "n",
        "counts": {"a": 2, "b": 1},
        "parts": [
            {"pair": {"name": "a", "sizes": [1, 2]}, "color": "red"},
            "its own form",
            [0, 1],
            None,
            "text",
        ],
        "sum": 3,
        "kind": "whole",
    }
    assert type(value["parts"][0]["color"]) is str
    assert list(value)[:3] == ["sum", "kind", "bytes"]


def test_optional_fields_are_left_out_only_where_they_are_empty():
    assert _Whole(0, Path("a")).to_json() == {
        "bytes": 0,
        "place": "a",
        "parts": [],
        "sum": 0,
        "kind": "whole",
    }


def test_a_subclass_inherits_the_arguments_that_it_does_not_give():
    @dataclass(frozen=True)
    class Part(_Whole, without=()):
        number: int = 1

    value = Part(1, Path("a"), "told").to_json()
    assert (value["number"], value["secret"], value["bytes"]) == (1, "told", 1)
    assert "note" not in value


@pytest.mark.parametrize("value", [b"bytes", {1}, object()])
def test_the_writer_refuses_what_has_no_json_form(value):
    assert json_value(value) is value
    with pytest.raises(FormatError):
        canonical_json.dumps({"value": json_value(value)})
