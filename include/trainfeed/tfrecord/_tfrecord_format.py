"""The TFRecord file format. All integers are little-endian.

A file is a sequence of records and nothing else, so an empty file is valid::

    file   := record*                                     (all of it compressed as one, or not)
    record := length checksum data checksum               (16 bytes + length bytes)

``length`` is a uint64. The checksums are masked CRC-32C: the first of the 8 bytes of the length,
the second of the data. So a length is verified before memory is allocated for it; a limit protects
against a hostile writer.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from struct import Struct
from typing import Final

import numpy as np
from crc32c import crc32c
from numpy.typing import NDArray

from trainfeed.errors import ChecksumError, ConfigError, FormatError

__all__ = [
    "CHECKSUM",
    "HEADER",
    "HEADER_BYTES",
    "LENGTH",
    "MAX_RECORD_BYTES",
    "Compression",
    "compression_named",
    "has_valid_header",
    "masked",
    "masked_array",
    "pack_header",
    "unmasked",
    "unpack_header",
]

CHECKSUM: Final = Struct("<I")
LENGTH: Final = Struct("<Q")
HEADER: Final = Struct("<QI")
HEADER_BYTES: Final = HEADER.size

# Default limit of readers for the length of a record, the same as for a chunk of RecordIO.
MAX_RECORD_BYTES: Final = 64 << 20


class Compression(StrEnum):
    """Compression of a whole file; the values are TensorFlow's names."""

    NONE = ""
    GZIP = "GZIP"
    ZLIB = "ZLIB"


def compression_named(name: Compression | str) -> Compression:
    """Return the compression of a name.

    Raises:
        ConfigError: The name is unknown.
    """
    try:
        return Compression(name)
    except ValueError:
        known = ", ".join(repr(str(known)) for known in Compression)
        raise ConfigError(f"expected a compression of {known}, got {name!r}") from None


def masked(checksum: int) -> int:
    """Return a CRC-32C in its stored form: rotated right by 15 bits, plus a constant."""
    return ((checksum >> 15 | checksum << 17) + 0xA282EAD8) & 0xFFFFFFFF


def unmasked(stored: int) -> int:
    """Return the CRC-32C of the stored form: the inverse of ``masked``."""
    rotated = (stored - 0xA282EAD8) & 0xFFFFFFFF
    return (rotated >> 17 | rotated << 15) & 0xFFFFFFFF


def masked_array(checksums: Sequence[int] | NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Return many checksums, shape ``(n,)``, in their stored form; see ``masked``."""
    values: NDArray[np.uint32] = np.asarray(checksums, np.uint32)
    rotated: NDArray[np.uint32] = np.bitwise_or(values >> 15, values << 17)
    return rotated + np.uint32(0xA282EAD8)


def pack_header(num_bytes: int) -> bytes:
    """Return the header of a record of ``num_bytes``."""
    length = LENGTH.pack(num_bytes)
    return length + CHECKSUM.pack(masked(crc32c(length)))


def unpack_header(header: bytes, max_record_bytes: int) -> int:
    """Return the length that a header states.

    Args:
        header: ``HEADER_BYTES`` bytes.
        max_record_bytes: Limit for the length of a record; a longer one is refused.

    Raises:
        ChecksumError: The header is damaged, or no record starts here.
        FormatError: The record is longer than allowed.
    """
    num_bytes, stored = HEADER.unpack(header)
    computed = masked(crc32c(header[: LENGTH.size]))
    if computed != stored:
        raise ChecksumError(
            f"expected masked CRC-32C {stored:#010x} of the length, got {computed:#010x}"
        )
    if num_bytes > max_record_bytes:
        raise FormatError(
            f"expected a record of at most {max_record_bytes} bytes, it announces {num_bytes};"
            " raise max_record_bytes if the file can be trusted"
        )
    return int(num_bytes)


def has_valid_header(head: bytes) -> bool:
    """Return whether a file that starts with ``head`` starts with a record."""
    if len(head) < HEADER_BYTES:
        return False
    stored = HEADER.unpack_from(head)[1]
    return bool(masked(crc32c(head[: LENGTH.size])) == stored)
