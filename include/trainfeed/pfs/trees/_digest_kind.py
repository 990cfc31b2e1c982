"""Kinds of digests of chunks: one that nobody can forge, and a fast one against accidents."""

from __future__ import annotations

import hashlib
from enum import StrEnum

import xxhash

__all__ = ["DigestKind"]


class DigestKind(StrEnum):
    """How bytes are digested.

    ``SHA256`` says that two files are equal, whoever made them. ``XXH3`` says that bytes are still
    those that this copy sent or read: it finds every accident and takes a fortieth of the time, but
    bytes that have a given digest can be made on purpose.
    """

    SHA256 = "sha256"
    XXH3 = "xxh3-128"

    @property
    def num_bytes(self) -> int:
        """Size of a digest in bytes."""
        return 32 if self is DigestKind.SHA256 else 16

    def of(self, data: bytes | bytearray | memoryview) -> bytes:
        """Return the digest of bytes; other threads run meanwhile."""
        if self is DigestKind.SHA256:
            return hashlib.sha256(data).digest()
        return xxhash.xxh3_128_digest(data)
