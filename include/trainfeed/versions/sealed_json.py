"""Small files of JSON that end with their own digest, so that damage is never taken for a fact."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from trainfeed.core import canonical_json
from trainfeed.errors import FormatError
from trainfeed.files import read_plain

_MAX_BYTES: Final = 1 << 20


def sealed(value: Mapping[str, Any]) -> bytes:
    """Return the bytes of a file: canonical JSON that ends with its own digest."""
    return canonical_json.seal(canonical_json.dumps(value).removesuffix(b"}"))


def read_sealed(
    path: Path, what: str, remedy: str, *, max_bytes: int = _MAX_BYTES
) -> dict[str, Any]:
    """Read such a file; it is no link.

    Args:
        path: The file.
        what: What the file should be, for the message.
        remedy: What to do about a damaged file, likewise.
        max_bytes: The length up to which it is read, by default 1 MiB.

    Raises:
        NotFoundError: There is none.
        FormatError: The file is damaged, too large, or something else.
        StorageError: The publication root refused or failed.
    """
    try:
        data = read_plain(path, follow=False, max_bytes=max_bytes)
        canonical_json.require_intact(data, path=str(path))
        return dict(canonical_json.loads(data))
    except (FormatError, TypeError, ValueError) as error:
        raise FormatError(f"expected {what}: {error}; {remedy}", path=str(path)) from error


def text_of(value: Mapping[str, Any], name: str) -> str:
    """Return a member that is text.

    Raises:
        TypeError: It is something else.
        KeyError: It is missing.
    """
    if not isinstance(value[name], str):
        raise TypeError(f"{name}: expected text, got {value[name]!r}")
    return str(value[name])
