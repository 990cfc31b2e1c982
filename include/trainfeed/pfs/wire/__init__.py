"""Words of the file server and its clients: routes, headers, bundles, kinds of errors."""

from trainfeed.pfs.wire._bundle import BUNDLE_BYTES, BUNDLE_FILES, Bundle
from trainfeed.pfs.wire._error_kinds import error_of, status_of
from trainfeed.pfs.wire._file_api import (
    CHUNKS,
    DATA,
    FILES,
    FINISH,
    MAX_READ_BYTES,
    PRESENT,
    SCOPE,
    SMALL,
    SMALL_DIGESTS,
    SMALL_READ,
    UPLOADS,
    Header,
)

__all__ = [
    "BUNDLE_BYTES",
    "BUNDLE_FILES",
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
    "Bundle",
    "Header",
    "error_of",
    "status_of",
]
