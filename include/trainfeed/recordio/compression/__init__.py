"""The codecs of RecordIO, and the sizes that compressed data announce."""

from trainfeed.recordio.compression._codecs import (
    Payload,
    compress,
    decompress,
    decompress_into,
    raw_bytes_of,
    resolve_level,
)

__all__ = [
    "Payload",
    "compress",
    "decompress",
    "decompress_into",
    "raw_bytes_of",
    "resolve_level",
]
