"""The meaning of file names in a folder of logs: hidden, unfinished, compressed.

* A name that begins with ``.`` or ``_`` is hidden, as in Hadoop: markers, checksums,
  ``_temporary``. A name that ends with ``.tmp``, ``._COPYING_`` or ``.inprogress`` is unfinished.
  Files of both kinds are not read.
* ``.gz`` means gzip and ``.zst`` zstd, of any number of members or frames; every other name means
  plain lines. Suffixes of compressions that are not read are refused.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from trainfeed.errors import FormatError

__all__ = ["COMPRESSIONS", "LogCompression", "compression_of", "is_log"]


class LogCompression(NamedTuple):
    """A compression of log files: its name, suffix, and first bytes."""

    name: str
    suffix: str
    magic: bytes


COMPRESSIONS: Final = (
    LogCompression("gzip", ".gz", b"\x1f\x8b\x08"),
    LogCompression("zstd", ".zst", b"\x28\xb5\x2f\xfd"),
)

_UNFINISHED: Final = (".tmp", "._COPYING_", ".inprogress")
_UNREADABLE: Final = (
    ".7z", ".br", ".bz2", ".deflate", ".lz4", ".lzma", ".lzo", ".snappy", ".xz", ".Z", ".zip",
)  # fmt: skip


def is_log(name: str) -> bool:
    """Return whether a file of this name is a log, not hidden or unfinished."""
    return not name.startswith((".", "_")) and not name.endswith(_UNFINISHED)


def compression_of(name: str, path: str) -> str:
    """Return the compression of the file of this name: none, gzip or zstd.

    Args:
        name: Name of a log file.
        path: Path of the file, for messages.

    Raises:
        FormatError: The suffix is that of a compression that is not supported.
    """
    if name.endswith(_UNREADABLE):
        known = ", ".join(compression.suffix for compression in COMPRESSIONS)
        raise FormatError(
            f"expected a plain file or one of {known}, got {name!r}; nothing was read or published;"
            " compress it again in one of these ways, or hide it: names that begin with '_' are"
            " not read",
            path=path,
        )
    return next((c.name for c in COMPRESSIONS if name.endswith(c.suffix)), "none")
