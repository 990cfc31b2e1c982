"""Records and messages built by hand, so that tests do not depend on the writer they test."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

BytesMaker = Callable[..., bytes]


def crc32c_bit_by_bit(data: bytes) -> int:
    """CRC-32C bit by bit: reflected polynomial, initial value and final xor of ones."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def mask(crc: int) -> bytes:
    rotated = (crc >> 15 | crc << 17) & 0xFFFFFFFF
    return struct.pack("<I", (rotated + 0xA282EAD8) % 2**32)


@pytest.fixture(scope="session")
def golden() -> Path:
    return Path(__file__).parents[2] / "data" / "tfrecord"


@pytest.fixture(scope="session")
def header() -> BytesMaker:
    """A length with a right checksum, whatever the length."""

    def make(num_bytes: int) -> bytes:
        length = struct.pack("<Q", num_bytes)
        return length + mask(crc32c_bit_by_bit(length))

    return make


@pytest.fixture(scope="session")
def framed(header: BytesMaker) -> BytesMaker:
    """Records to a file."""

    def make(*records: bytes) -> bytes:
        return b"".join(
            header(len(record)) + record + mask(crc32c_bit_by_bit(record)) for record in records
        )

    return make


@pytest.fixture(scope="session")
def message() -> BytesMaker:
    """A field number and contents to a length-delimited field of a message."""

    def make(number: int, *contents: bytes) -> bytes:
        content = b"".join(contents)
        return varint(number << 3 | 2) + varint(len(content)) + content

    return make


def varint(value: int) -> bytes:
    data = b""
    while value > 0x7F:
        data += bytes([value & 0x7F | 0x80])
        value >>= 7
    return data + bytes([value])
