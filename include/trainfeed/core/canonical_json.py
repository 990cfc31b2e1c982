r"""Canonical JSON: equal values give equal bytes, because fingerprints are hashes of them.

UTF-8, keys sorted by code point, separators ``,`` and ``:``, no escapes beyond those JSON demands,
floats as Python's ``repr``, no NaN or infinity, no final newline.

A sealed object is JSON of any form that ends with its own digest, so that every change is found::

    sealed := text digest       text   := a JSON object without its last brace
                                digest := ``,\n "digest": "<SHA-256 of text in hex>"\n}\n``
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, Final

from trainfeed.errors import ChecksumError, FormatError

# A manifest of 100,000 shards has about 30 MB; trainfeed writes no larger file.
MAX_BYTES: Final = 64 << 20
_END: Final = b"\n}\n"


def dumps(value: Any) -> bytes:
    """Return the canonical form of ``value``.

    Raises:
        FormatError: ``value`` has no canonical form (NaN, a lone surrogate, an object of no JSON
            type).
    """
    try:
        text = json.dumps(
            value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
        )
        return text.encode()
    except (TypeError, ValueError) as error:
        raise FormatError(f"value has no canonical JSON form: {error}") from error


def loads(data: bytes, *, path: str | None = None) -> Any:
    """Parse JSON that another program may have written; nothing about it is trusted.

    Args:
        data: The document, at most ``MAX_BYTES`` long.
        path: Path of the document, for messages.

    Raises:
        FormatError: ``data`` is too long, too deep, no JSON, holds a key twice, or a NaN.
    """
    if len(data) > MAX_BYTES:
        raise FormatError(f"expected at most {MAX_BYTES} bytes of JSON, got {len(data)}", path=path)
    try:
        return json.loads(data, object_pairs_hook=_unique, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"expected JSON: {error}", path=path) from error


def sha256_of(value: Any) -> str:
    """Return the SHA-256 of the canonical form of ``value`` as 64 hex digits."""
    return hashlib.sha256(dumps(value)).hexdigest()


def seal(text: bytes) -> bytes:
    """Return the JSON object ``text`` with its digest as last member, on a line of its own."""
    body = text.removesuffix(_END)
    return body + _digest(body)


def require_intact(data: bytes, *, path: str) -> None:
    """Compare a sealed object with its digest.

    Raises:
        ChecksumError: The object was changed, or has no digest.
    """
    end = len(data) - len(_digest(b""))
    if end < 0 or data[end:] != _digest(data[:end]):
        raise ChecksumError("expected its own SHA-256 at its end, got another one", path=path)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a key stands twice in one object")
    return result


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not allowed")


def _digest(body: bytes) -> bytes:
    return b',\n "digest": "%s"' % hashlib.sha256(body).hexdigest().encode() + _END
