"""The formats of files in a folder of logs: those that are read as lines, and those that are not.

``.gz`` means gzip and ``.zst`` zstd, of any number of members or frames; every other name means
plain lines. A file of another format is known by its name or by its first bytes, and refused: its
bytes would be cut into lines that no writer has written.
"""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = [
    "COMPRESSIONS",
    "HEAD_BYTES",
    "LogCompression",
    "compression_of",
    "format_of_bytes",
    "format_of_name",
]


class LogCompression(NamedTuple):
    """A compression of log files: its name, suffix, and first bytes."""

    name: str
    suffix: str
    magic: bytes


COMPRESSIONS: Final = (
    LogCompression("gzip", ".gz", b"\x1f\x8b\x08"),
    LogCompression("zstd", ".zst", b"\x28\xb5\x2f\xfd"),
)

# First bytes of a file that show its format.
HEAD_BYTES: Final = 512


class _Format(NamedTuple):
    """A format that is not read: its name, the suffixes of its files, and their first bytes."""

    name: str
    suffixes: tuple[str, ...]
    magics: tuple[bytes, ...] = ()


_TAR: Final = "a tar archive"
# The suffixes are compared without regard to case; the first row that fits counts.
_FORMATS: Final = (
    _Format(_TAR, (".tar", ".tar.gz", ".tar.zst", ".tgz", ".tbz", ".tbz2", ".txz", ".tzst")),
    _Format("a Parquet file", (".parquet", ".parq"), (b"PAR1", b"PARE")),
    _Format("an ORC file", (".orc",), (b"ORC",)),
    _Format("an Avro file", (".avro",), (b"Obj\x01",)),
    _Format("an Arrow file", (".arrow", ".arrows", ".feather"), (b"ARROW1\0\0", b"FEA1")),
    _Format("a SequenceFile of Hadoop", (".sequencefile",), (b"SEQ\x04", b"SEQ\x05", b"SEQ\x06")),
    _Format("an RCFile", (".rcfile",), (b"RCF\x01",)),
    _Format("a TFRecord file", (".tfrecord", ".tfrecords")),
    _Format("a RecordIO file", (".recordio",), (b"\x01\x02\x03\x04", b"\x04\x03\x02\x01")),
    _Format("bzip2 data", (".bz2",), tuple(b"BZh%d1AY&SY" % level for level in range(1, 10))),
    _Format("xz data", (".xz",), (b"\xfd7zXZ\0",)),
    _Format("lzma data", (".lzma",), (b"\x5d\0\0",)),
    _Format("lz4 data", (".lz4",), (b"\x04\x22\x4d\x18", b"\x02\x21\x4c\x18")),
    _Format("lzo data", (".lzo", ".lzo_deflate"), (b"\x89LZO\0",)),
    _Format("snappy data", (".snappy",), (b"\xff\x06\0\0sNaPpY",)),
    _Format("brotli data", (".br",)),
    _Format("deflate data", (".deflate",), (b"x\x9c", b"x\xda")),
    _Format("data of compress", (".z",), (b"\x1f\x9d", b"\x1f\xa0")),
    _Format("a zip archive", (".zip", ".xlsx", ".npz"), (b"PK\x03\x04", b"PK\x05\x06")),
    _Format("a 7z archive", (".7z",), (b"7z\xbc\xaf\x27\x1c",)),
    _Format("a RAR archive", (".rar",), (b"Rar!\x1a\x07",)),
    _Format("an SQLite database", (".sqlite", ".sqlite3"), (b"SQLite format 3\0",)),
    _Format("an HDF5 file", (".h5", ".hdf5"), (b"\x89HDF\r\n\x1a\n",)),
    _Format("a NumPy array", (".npy",), (b"\x93NUMPY",)),
    _Format("a pickle", (".pkl", ".pickle")),
    _Format("a PDF", (".pdf",), (b"%PDF-",)),
    _Format("an image", (".png", ".jpg", ".jpeg", ".gif"), (b"\x89PNG\r\n", b"\xff\xd8\xff")),
    _Format("an Excel file", (".xls",), (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",)),
    _Format("encrypted data", (".gpg", ".pgp", ".age")),
)  # fmt: skip

_BYTE_ORDER_MARKS: Final = (b"\xff\xfe", b"\xfe\xff")
# A text has no such run and not so many bytes of 0 at its start.
_ZEROS: Final = b"\0" * 4
_MOST_ZEROS: Final = 15
# A format whose first bytes could be the first word of a text is known by a further such byte.
_CONTROLS: Final = frozenset(range(32)) - frozenset(b"\t\n\r\f\b\x1b")


def compression_of(name: str) -> str:
    """Return the compression of the file of this name: none, gzip or zstd."""
    return next((c.name for c in COMPRESSIONS if name.endswith(c.suffix)), "none")


def format_of_name(name: str) -> str | None:
    """Return what a file of this name is, in words; None if it is read as lines."""
    lower = name.lower()
    return next((each.name for each in _FORMATS if lower.endswith(each.suffixes)), None)


def format_of_bytes(head: bytes) -> str | None:
    """Return what a file is that begins with these bytes, in words; None if they may be lines.

    Args:
        head: The first ``HEAD_BYTES`` of the file, or all of them.
    """
    magics = [(f"data compressed with {each.name}", each.magic) for each in COMPRESSIONS]
    magics += [(each.name, magic) for each in _FORMATS for magic in each.magics]
    found = next((name for name, magic in magics if _begins(head, magic)), None)
    if found is None and head[257:262] == b"ustar":
        return _TAR
    return found or _binary(head)


def _binary(head: bytes) -> str | None:
    if _ZEROS not in head and head.count(0) <= _MOST_ZEROS:
        return None
    if head.startswith(_BYTE_ORDER_MARKS):
        return "text in UTF-16 or UTF-32"
    if not head.strip(b"\0"):
        return "bytes of 0, as in a file that was cut while its writer kept its place"
    return "binary data"


def _begins(head: bytes, magic: bytes) -> bool:
    if not head.startswith(magic):
        return False
    return not magic.isascii() or not magic.decode().isprintable() or _has_control(head)


def _has_control(head: bytes) -> bool:
    return not _CONTROLS.isdisjoint(head)
