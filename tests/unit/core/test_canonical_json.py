"""Canonical JSON: one byte sequence for one value, and nothing trusted on the way in.

Objects with a digest of themselves are JSON still, and nothing of them can change unnoticed.
"""

import hashlib
import json

import pytest

from trainfeed.core import canonical_json
from trainfeed.core.canonical_json import require_intact, seal
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
