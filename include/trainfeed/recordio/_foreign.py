"""Recognises two other layouts of the same name and magic, so that errors name them.

Both have the header ``magic num_records checksum codec stored_bytes``. The checksum is CRC-32 in
the Fluid layout, and CRC-32C in the ElasticDL layout.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from isal import isal_zlib

from trainfeed.errors import FormatError
from trainfeed.recordio._byte_source import ByteSource

__all__ = ["foreign_layout", "refuse_foreign_layout"]

_WORDS: Final = Struct("<5I")
# Fluid chunks hold 1000 records, ElasticDL chunks 1024 bytes; larger ones are not tested.
_MAX_FLUID_BYTES: Final = 64 << 20
_MAX_ELASTICDL_BYTES: Final = 64 << 10
_CRC32C_POLYNOMIAL: Final = 0x82F63B78
_REMEDIES: Final = {
    "Fluid": "read its records with FluidScanner",
    "ElasticDL": "convert the file with the software that wrote it",
}


def refuse_foreign_layout(source: ByteSource, offset_bytes: int, end_bytes: int) -> None:
    """Raise if a chunk of another layout is here.

    Raises:
        FormatError: A chunk of another layout is here; the message names it, and what to do.
    """
    if layout := foreign_layout(source, offset_bytes, end_bytes):
        raise FormatError(
            f"expected the Go layout of RecordIO, this is the {layout} layout, not Go layout;"
            f" {_REMEDIES[layout]}"
        )


def foreign_layout(source: ByteSource, offset_bytes: int, end_bytes: int) -> str | None:
    """Return the name of the layout whose checksum matches the chunk here; None if none does."""
    words = bytearray(_WORDS.size)
    source.read_into(offset_bytes, memoryview(words))
    _, _, checksum, _, stored_bytes = _WORDS.unpack(words)
    left_bytes = end_bytes - offset_bytes - _WORDS.size
    if not 0 < stored_bytes <= min(left_bytes, _MAX_FLUID_BYTES):
        return None
    payload = bytearray(stored_bytes)
    source.read_into(offset_bytes + _WORDS.size, memoryview(payload))
    if isal_zlib.crc32(payload) == checksum:
        return "Fluid"
    if stored_bytes <= _MAX_ELASTICDL_BYTES and _crc32c(payload) == checksum:
        return "ElasticDL"
    return None


def _crc32c(data: bytearray) -> int:
    value = 0xFFFFFFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ (_CRC32C_POLYNOMIAL if value & 1 else 0)
    return value ^ 0xFFFFFFFF
