"""Many small files in one body: a head of JSON, then the bytes of all files.

::

    size of the head in bytes    4 bytes, little endian
    head                         JSON: an object whose "files" lists one object per file
    bytes of all files           in the order of the head, "size" bytes each
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Self

from trainfeed.errors import FormatError

__all__ = ["BUNDLE_BYTES", "BUNDLE_FILES", "Bundle"]

# Most bytes of a bundle, and most files in it; each takes a descriptor while it is written.
BUNDLE_BYTES: Final = 8 << 20
BUNDLE_FILES: Final = 64

# Most bytes of a head: an object in JSON takes many times its size in memory. A path of 4,096 bytes
# that are not UTF-8 takes six times its size in JSON.
_HEAD_BYTES: Final = 2 << 20
_SIZE: Final = struct.Struct("<I")


@dataclass(frozen=True)
class Bundle:
    """Small files with what is said about each.

    Attributes:
        about: One object per file; the key ``size`` is added when the bundle is packed.
        data: The bytes of each file.
        options: Further keys of the head.
    """

    about: Sequence[dict[str, Any]]
    data: Sequence[bytes]
    options: dict[str, Any] = field(default_factory=dict)

    def pack(self) -> bytes:
        """Return the body."""
        pairs = zip(self.about, self.data, strict=True)
        files = [{**about, "size": len(data)} for about, data in pairs]
        head = json.dumps({**self.options, "files": files}).encode()
        return b"".join((_SIZE.pack(len(head)), head, *self.data))

    @classmethod
    def unpack(cls, body: bytes | bytearray) -> Self:
        """Return the files of a body.

        Raises:
            FormatError: The body has another form, or ends before its last file, or after it.
        """
        head, start = _head(body)
        files = head.pop("files", None)
        if not isinstance(files, list) or len(files) > BUNDLE_FILES:
            raise FormatError(f"expected a list of at most {BUNDLE_FILES} files in the head")
        return cls(files, list(_cut(body, start, files)), head)


def _head(body: bytes | bytearray) -> tuple[dict[str, Any], int]:
    if len(body) < _SIZE.size:
        raise FormatError(f"expected the size of a head in {_SIZE.size} bytes, got {len(body)}")
    start = _SIZE.size + _SIZE.unpack_from(body)[0]
    if start > _HEAD_BYTES:
        raise FormatError(f"expected a head of at most {_HEAD_BYTES} bytes, got {start}")
    try:
        head = json.loads(body[_SIZE.size : start])
    except (ValueError, RecursionError):
        head = None
    if start > len(body) or not isinstance(head, dict):
        raise FormatError("expected a head of JSON, an object, got other bytes")
    return head, start


def _cut(body: bytes | bytearray, start: int, files: list[Any]) -> Iterator[bytes]:
    view = memoryview(body)
    for number, each in enumerate(files):
        size = each.get("size") if isinstance(each, dict) else None
        if type(size) is not int or not 0 <= size <= len(body) - start:
            raise FormatError(f"expected the size of file {number}, within the body, got {size!r}")
        yield bytes(view[start : start + size])
        start += size
    if start != len(body):
        raise FormatError(f"expected a body of {start} bytes, got {len(body)}")
