"""A file whose bytes are digested on their way into it."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, BinaryIO, Protocol

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["DigestedFile"]


class Digest(Protocol):
    """What ``hashlib`` and ``xxhash`` make."""

    def update(self, data: memoryview, /) -> None:
        """Take further bytes."""
        ...

    def hexdigest(self) -> str:
        """Return the digest of all bytes so far, in hex."""
        ...


class DigestedFile(io.RawIOBase):
    """A binary file, for writing only, that counts and digests what the file below it takes.

    Args:
        file: The file below it; raw or buffered, its owner closes it.
        digest: A new one.

    Attributes:
        num_bytes: Bytes written so far.
    """

    def __init__(self, file: BinaryIO, digest: Digest) -> None:
        super().__init__()
        self.num_bytes = 0
        self._file = file
        self._digest = digest

    @property
    def hexdigest(self) -> str:
        """Digest of what was written so far, in hex."""
        return self._digest.hexdigest()

    def writable(self) -> bool:
        """Whether ``write`` works: always."""
        return True

    def tell(self) -> int:
        """Return how many bytes were written."""
        return self.num_bytes

    def write(self, data: Buffer, /) -> int:
        """Append what the file takes of ``data``; return how many bytes that is."""
        view = memoryview(data).cast("B")
        num_bytes = self._file.write(view)
        self._digest.update(view[:num_bytes])
        self.num_bytes += num_bytes
        return num_bytes
