"""Objects with a digest of themselves: JSON still, and nothing of them can change unnoticed."""

from __future__ import annotations

import hashlib
import json

import pytest

from trainfeed.dataset.sealed import require_intact, seal
from trainfeed.errors import ChecksumError

TEXT = b'{\n "a": [1, 2],\n "b": "c"\n}\n'


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
