"""Canonical JSON: one byte sequence for one value, and nothing trusted on the way in."""

import pytest

from trainfeed.dataset import canonical
from trainfeed.errors import FormatError


def test_keys_are_sorted_and_nothing_is_escaped_or_spaced():
    assert canonical.dumps({"é": 1, "b": [0.1, 1e22, True, None], "a": "\u2028/"}) == (
        '{"a":"\u2028/","b":[0.1,1e+22,true,null],"é":1}'.encode()
    )


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1, 2}, "\ud800"])
def test_what_json_cannot_say_is_refused(value):
    with pytest.raises(FormatError, match="no canonical JSON form"):
        canonical.dumps(value)


@pytest.mark.parametrize(
    "data", [b"", b"{", b'{"a":1,"a":2}', b"NaN", b"[" * 100_000, b"\xff", b'{"a":Infinity}']
)
def test_hostile_documents_are_format_errors(data):
    with pytest.raises(FormatError):
        canonical.loads(data)


def test_a_document_above_the_cap_is_refused_before_it_is_parsed():
    with pytest.raises(FormatError, match="at most"):
        canonical.loads(bytes(canonical.MAX_BYTES + 1))
