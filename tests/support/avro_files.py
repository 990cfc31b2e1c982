"""Container files of Avro, written by their specification, apart from the product."""

import bz2
import json
import lzma
import zlib

import cramjam

from tests.support.avro import encode, varint

MARK = bytes(range(16))
CODECS = {
    "null": lambda data: data,
    "deflate": lambda data: zlib.compress(data, wbits=-15),
    "snappy": lambda data: (
        bytes(cramjam.snappy.compress_raw(data)) + zlib.crc32(data).to_bytes(4, "big")
    ),
    "zstandard": lambda data: bytes(cramjam.zstd.compress(data)),
    "bzip2": bz2.compress,
    "xz": lzma.compress,
}


def container(schema, values, block_rows, codec="null"):
    """A file with blocks of so many values."""
    metadata = {"avro.schema": json.dumps(schema).encode(), "avro.codec": codec.encode()}
    head = encode({"type": "map", "values": "bytes"}, metadata)
    parts = [b"Obj\x01", head, MARK]
    for start in range(0, len(values), block_rows):
        some = values[start : start + block_rows]
        data = CODECS[codec](b"".join(encode(schema, value) for value in some))
        parts += [varint(len(some)), varint(len(data)), data, MARK]
    return b"".join(parts)
