"""The codecs of RecordIO, and what compressed data say about themselves."""

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
