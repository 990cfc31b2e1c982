"""Values that trees give and take: entries, states of sources, digests of chunks, small files."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

__all__ = [
    "CHUNK_BYTES",
    "SMALL_BYTES",
    "Entry",
    "FileDigests",
    "Kind",
    "Parts",
    "SmallFile",
    "SourceState",
    "chunk_count",
    "chunk_size",
    "is_unfinished_name",
    "unfinished_file_name",
]

# Names from the root of a tree to a file or folder; empty for the root itself.
Parts: TypeAlias = tuple[str, ...]

CHUNK_BYTES: Final = 4 << 20
# Files of at most this size travel many in one call.
SMALL_BYTES: Final = 1 << 20

_UNFINISHED: Final = re.compile(r"\.pfs[-.][0-9a-f.-]*[0-9a-f]{32}\.tmp")


class Kind(StrEnum):
    """Kind of an entry; links are never followed, and other kinds never opened."""

    FILE = "file"
    FOLDER = "folder"
    LINK = "link"
    OTHER = "other"


@dataclass(frozen=True)
class Entry:
    """One name in a folder.

    Attributes:
        name: The name; that of the tree for its root.
        kind: What has the name.
        num_bytes: Size of a file, 0 for everything else.
        modified_ns: Time of the last modification, in nanoseconds since 1970.
    """

    name: str
    kind: Kind
    num_bytes: int
    modified_ns: int


@dataclass(frozen=True)
class SourceState:
    """State of a source file, from which a later try recognises the copy of an earlier one.

    Attributes:
        num_bytes: Size.
        modified_ns: Time of the last modification, in nanoseconds since 1970.
        identity: 32 hex digits that stand for the place of the source, the same in every try.
    """

    num_bytes: int
    modified_ns: int
    identity: str


@dataclass(frozen=True)
class FileDigests:
    """Digests of a file.

    Attributes:
        num_bytes: Size.
        chunks: Digest of each chunk of ``CHUNK_BYTES``, the last one as long as it is; SHA-256
            unless another kind was asked for.
    """

    num_bytes: int
    chunks: tuple[bytes, ...]

    @property
    def sha256_of_chunks(self) -> str:
        """SHA-256, in hex, of the digests of all chunks in their order; the digest of the file."""
        return hashlib.sha256(b"".join(self.chunks)).hexdigest()


@dataclass(frozen=True)
class SmallFile:
    """A whole file of at most ``SMALL_BYTES``.

    Attributes:
        parts: Its place in a tree.
        data: Its bytes.
    """

    parts: Parts
    data: bytes

    @property
    def digest(self) -> bytes:
        """SHA-256 of the bytes."""
        return hashlib.sha256(self.data).digest()


def chunk_count(num_bytes: int) -> int:
    """Return the number of chunks of a file; 0 for an empty one."""
    return -(-num_bytes // CHUNK_BYTES)


def chunk_size(num_bytes: int, index: int) -> int:
    """Return the size in bytes of chunk ``index`` of a file of ``num_bytes``."""
    return min(CHUNK_BYTES, num_bytes - index * CHUNK_BYTES)


def is_unfinished_name(name: str) -> bool:
    """Return whether this is the name of an unfinished file or folder of a copy."""
    return _UNFINISHED.fullmatch(name) is not None


def unfinished_file_name(name: str, state: SourceState) -> str:
    """Return the name of the unfinished copy of a source beside its target.

    The name depends on target and source, so the next try finds it. Its length does not depend on
    the name of the target, which may have all the bytes that a file system allows.

    Args:
        name: Name of the target, the last of its parts.
        state: State of the source.
    """
    text = f"{name}\0{state.num_bytes}\0{state.modified_ns}\0{state.identity}"
    return f".pfs.{hashlib.sha256(text.encode(errors='surrogateescape')).hexdigest()[:32]}.tmp"
