r"""JSON objects that end with a digest of themselves, so that no changed byte is believed.

::

    sealed := text digest       text   := a JSON object without its last brace
                                digest := ``,\n "digest": "<SHA-256 of text in hex>"\n}\n``
"""

from __future__ import annotations

import hashlib
from typing import Final

from trainfeed.errors import ChecksumError

__all__ = ["require_intact", "seal"]

_END: Final = b"\n}\n"


def seal(text: bytes) -> bytes:
    """Return an object that ends in a line of its own with its digest as last member."""
    body = text.removesuffix(_END)
    return body + _digest(body)


def require_intact(data: bytes, *, path: str) -> None:
    """Compare an object with its digest.

    Raises:
        ChecksumError: It is not the one that was written, or was written without.
    """
    end = len(data) - len(_digest(b""))
    if end < 0 or data[end:] != _digest(data[:end]):
        raise ChecksumError("expected its own SHA-256 at its end, got another one", path=path)


def _digest(body: bytes) -> bytes:
    return b',\n "digest": "%s"' % hashlib.sha256(body).hexdigest().encode() + _END
