"""Routes and headers of the file server."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

__all__ = [
    "CHUNKS",
    "DATA",
    "FILES",
    "FINISH",
    "MAX_READ_BYTES",
    "PRESENT",
    "SCOPE",
    "SMALL",
    "SMALL_DIGESTS",
    "SMALL_READ",
    "UPLOADS",
    "Header",
]

# Scope of a token for all routes of files.
SCOPE: Final = "pfs"

_API: Final = "/api/v1/pfs"
# Entries, folders, names.
FILES: Final = f"{_API}/files"
# Digests of the chunks of a file.
CHUNKS: Final = f"{_API}/chunks"
# Bytes of a file, and of an upload.
DATA: Final = f"{_API}/storage/chunks"
# Uploads: begin, list, abort; the digests of what is there; the end.
UPLOADS: Final = f"{_API}/uploads"
PRESENT: Final = f"{UPLOADS}/chunks"
FINISH: Final = f"{UPLOADS}/finish"
# Many small files in one body, and their digests.
SMALL: Final = f"{_API}/storage/files"
SMALL_READ: Final = f"{SMALL}/read"
SMALL_DIGESTS: Final = f"{CHUNKS}/small"

# Most bytes of one answer of ``DATA``.
MAX_READ_BYTES: Final = 8 << 20


class Header(StrEnum):
    """Headers of chunks, in lower case."""

    # Digests of the body, in hex; one of both comes with every chunk of an upload.
    SHA256 = "x-chunk-sha256"
    CRC32C = "x-chunk-crc32c"
    # State of a file that is read in several requests.
    STATE = "etag"
    EXPECTED_STATE = "if-match"
