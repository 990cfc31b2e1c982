"""Recognises the format of a file by its first bytes, or by its name if these do not show it."""

from __future__ import annotations

import zlib
from enum import StrEnum
from pathlib import Path
from typing import Final

from trainfeed.conversion._foreign_input import open_input
from trainfeed.conversion.formats import NPY_MAGIC, begins_stream
from trainfeed.datacenters import local_source
from trainfeed.errors import ConfigError, FormatError
from trainfeed.paths import FilePath
from trainfeed.tfrecord import MAX_RECORD_BYTES

__all__ = ["Format", "format_of", "format_of_name"]

_HEAD_BYTES: Final = 4096


class Format(StrEnum):
    """A format that samples or records are stored in."""

    RECORDIO = "recordio"
    TFRECORD = "tfrecord"
    PARQUET = "parquet"
    ARROW = "arrow"
    IDX = "idx"
    JSON_LINES = "jsonl"
    CSV = "csv"
    LIBSVM = "libsvm"
    WEBDATASET = "webdataset"
    NPY = "npy"
    NPZ = "npz"


_SUFFIXES: Final = {
    ".recordio": Format.RECORDIO,
    ".tfrecord": Format.TFRECORD,
    ".tfrecords": Format.TFRECORD,
    ".parquet": Format.PARQUET,
    ".arrow": Format.ARROW,
    ".feather": Format.ARROW,
    ".idx": Format.IDX,
    ".jsonl": Format.JSON_LINES,
    ".ndjson": Format.JSON_LINES,
    ".csv": Format.CSV,
    ".tsv": Format.CSV,
    ".libsvm": Format.LIBSVM,
    ".svm": Format.LIBSVM,
    ".libfm": Format.LIBSVM,
    ".tar": Format.WEBDATASET,
    ".tgz": Format.WEBDATASET,
    ".npy": Format.NPY,
    ".npz": Format.NPZ,
}
_STARTS: Final = {
    b"\x04\x03\x02\x01": Format.RECORDIO,
    b"PAR1": Format.PARQUET,
    b"ARROW1\0\0": Format.ARROW,
    NPY_MAGIC: Format.NPY,
    b"PK\x03\x04": Format.NPZ,
}
_OF_TEXT: Final = frozenset({b"[", b"<"})
# Formats that people bring, and that no reader here has: begin, name, way to one that is read.
_NOT_READ: Final = (
    (b"[", "a JSON array", "JSON lines are read: jq -c '.[]' FILE > FILE.jsonl"),
    (b"<", "XML or HTML", "write its rows as JSON lines or CSV"),
    (b"Obj\x01", "an Avro file", "write it as Parquet or JSON lines"),
    (b"ORC", "an ORC file", "write it as Parquet"),
    (b"SQLite format 3\0", "a SQLite database", "write its tables as CSV or Parquet"),
    (b"\x89HDF\r\n", "an HDF5 file", "write its arrays as .npy or .npz"),
)
_SHOWN_BYTES: Final = 16
_IDX_TYPES: Final = frozenset({8, 9, 11, 12, 13, 14})


def format_of(path: FilePath) -> Format:
    """Return the format of a file.

    Raises:
        FormatError: Neither content nor name tell the format.
        NotFoundError: The file does not exist.
    """
    with open_input(path) as file:
        head = file.read(_HEAD_BYTES)
    found = _format_of_content(head)
    if found is not None:
        return found
    by_name = format_of_name(Path(local_source(path)))
    if by_name in {None, Format.JSON_LINES}:
        _refuse_known(head, path)
    if by_name is not None:
        return by_name
    # An empty file: shards have no suffix, and a set may have empty shards.
    if not head:
        return Format.RECORDIO
    raise FormatError(
        f"expected a file of {', '.join(Format)}, it begins with {_shown(head)}; name its format:"
        " --format",
        path=str(path),
    )


def _refuse_known(head: bytes, path: FilePath) -> None:
    """Refuse a file of a format that is known, and not read, with the way to one that is.

    Raises:
        ConfigError: It is such a file: nothing is damaged.
    """
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    for start, what, remedy in _NOT_READ:
        if (text if start in _OF_TEXT else head).startswith(start):
            raise ConfigError(
                f"expected a file of {', '.join(Format)}, {path} is {what}; nothing was read;"
                f" {remedy}"
            )


def _shown(head: bytes) -> str:
    """Return the begin of a file: as text if it is text, else in hex."""
    try:
        text = head[:_SHOWN_BYTES].decode("ascii")
    except UnicodeDecodeError:
        return head[:8].hex()
    return ascii(text) if text.replace("\n", "").replace("\r", "").isprintable() else head[:8].hex()


def _format_of_content(head: bytes) -> Format | None:
    for start, found in _STARTS.items():
        if head.startswith(start):
            return found
    if begins_stream(head):
        return Format.ARROW
    inflated = _inflated(head)
    if _is_tar(head) or _is_tar(inflated):
        return Format.WEBDATASET
    if _is_tfrecord(head) or _is_tfrecord(inflated):
        return Format.TFRECORD
    return Format.IDX if _is_idx(head) or _is_idx(inflated) else None


def format_of_name(path: Path) -> Format | None:
    """Return the format that the suffix of a file name stands for; None if unknown."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if ".tar" in suffixes[-2:]:
        return Format.WEBDATASET
    suffixes = [suffix for suffix in suffixes if suffix != ".gz"]
    return _SUFFIXES.get(suffixes[-1]) if suffixes else None


def _is_tfrecord(head: bytes) -> bool:
    from crc32c import crc32c

    if len(head) < 12 or int.from_bytes(head[:8], "little") > MAX_RECORD_BYTES:
        return False
    crc = crc32c(head[:8])
    # TFRecord stores CRC-32C rotated right by 15 bits, plus a constant; this is the checksum of
    # the length, so 12 bytes are enough evidence.
    masked = (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF
    return masked == int.from_bytes(head[8:12], "little")


def _is_tar(head: bytes) -> bool:
    return head[257:262] == b"ustar"


def _is_idx(head: bytes) -> bool:
    return len(head) >= 8 and head[:2] == b"\0\0" and head[2] in _IDX_TYPES and 1 <= head[3] <= 8


def _inflated(head: bytes) -> bytes:
    for window_bits in (31, 15):
        try:
            return zlib.decompressobj(window_bits).decompress(head, 512)
        except zlib.error:
            continue
    return b""
