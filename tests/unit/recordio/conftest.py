"""Chunks built by hand, so that tests do not depend on the writer they test."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from trainfeed.recordio import Codec

ChunkMaker = Callable[..., bytes]


@pytest.fixture
def golden() -> Path:
    return Path(__file__).parents[2] / "data" / "recordio"


@pytest.fixture(scope="session")
def frame() -> Callable[..., bytes]:
    """Records to framing."""

    def make(*records: bytes) -> bytes:
        return b"".join(struct.pack("<I", len(record)) + record for record in records)

    return make


@pytest.fixture(scope="session")
def chunk() -> ChunkMaker:
    """A payload to a chunk with a right checksum, whatever else is wrong with it."""

    def make(payload: bytes, num_records: int, codec: int = Codec.NONE) -> bytes:
        words = (0x01020304, zlib.crc32(payload), codec, len(payload), num_records)
        return struct.pack("<5I", *words) + payload

    return make
