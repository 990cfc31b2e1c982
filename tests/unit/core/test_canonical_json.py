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
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

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


def read(loads, data):
    """What a parser says: the value with its types, or that it refuses."""
    try:
        return repr(loads(data))
    except (FormatError, ValueError, RecursionError):
        return None


def slowly(data):
    """Python's parser, which reads whatever is not in canonical form."""
    return canonical_json.loads(data)


@pytest.fixture
def many(monkeypatch):
    """Let the process have read many documents."""
    monkeypatch.setattr(canonical_json, "_FEW", iter(()))


def test_the_fast_parser_is_used_when_a_process_reads_many_documents(monkeypatch):
    monkeypatch.setattr(canonical_json, "_FEW", iter(range(2)))
    read = []
    monkeypatch.setattr(canonical_json, "_quickly", lambda data: read.append(data) or 7)
    assert [canonical_json.loads_canonical(b"1") for _ in range(4)] == [1, 1, 7, 7]
    assert read == [b"1"] * 2


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_the_fast_parser_says_what_that_of_python_says(many, data):
    value = data.draw(VALUES)
    forms = [{"separators": (",", ":")}, {"indent": 1}, {}]
    form = data.draw(st.sampled_from(forms)) | {"ensure_ascii": data.draw(st.booleans())}
    text = json.dumps(value, **form).encode("utf-8", "surrogatepass")
    for _ in range(data.draw(st.integers(0, 3))):
        at, end = sorted(data.draw(st.tuples(*[st.integers(0, len(text))] * 2)))
        part = data.draw(st.binary(max_size=4) | st.just(text[at:end] * 2))
        text = text[:at] + part + text[end:]
    assert read(canonical_json.loads_canonical, text) == read(slowly, text)


@pytest.mark.parametrize(
    "data",
    [
        b'{"a":{"b":1,"b":1}}', b'{"a":1,"a" :1}', b'{"a" :1,"a" :2,"b":"x\\":"}', b'["\\ud800"]',
        b"1" * 5000, b"1e400", b"-0", b"-0.0", b"18446744073709551616", b"\xef\xbb\xbf{}",
        '{"a":"\x7f\u2028"}'.encode(), '{"a":1}'.encode("utf-16"), b' {"a":1} ',
        b"[" * 900 + b"]" * 900,
        b'{"\\u0061":1,"a":2}', b'{"a":1.0,"b":1e-7,"c":1e22}', b"nul", b'{"a":"\\/"}',
    ],
)  # fmt: skip
def test_rare_documents_are_read_as_python_reads_them(many, data):
    assert read(canonical_json.loads_canonical, data) == read(slowly, data)


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
