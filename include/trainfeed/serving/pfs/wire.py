"""The words of the file server and its clients: routes, headers, bundles, entries, errors."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Final, Self

from trainfeed.errors import (
    AccessDeniedError,
    ChecksumError,
    CommitUnknownError,
    ConfigError,
    ConflictError,
    FileReplacedError,
    FormatError,
    NotFoundError,
    Outcome,
    QuotaExceededError,
    ServiceError,
    StorageError,
    TrainFeedError,
    UnsuitableStoreError,
)
from trainfeed.serving.pfs.tree import Entry, Kind, SourceState

# --- Errors of files as statuses and names on the wire, and back

_STATUSES: Final[dict[type[TrainFeedError], int]] = {
    NotFoundError: 404,
    ConflictError: 409,
    AccessDeniedError: 403,
    QuotaExceededError: 507,
    FileReplacedError: 412,
    ChecksumError: 422,
    FormatError: 422,
    UnsuitableStoreError: 422,
    ConfigError: 400,
    CommitUnknownError: 500,
    StorageError: 500,
}
_KINDS: Final = {kind.__name__: kind for kind in _STATUSES}
_ENTRY_KINDS: Final = frozenset(Kind)


def status_of(error: TrainFeedError) -> int:
    """Return the status of an error; 503 if a later try may succeed and the kind has none."""
    if type(error) is StorageError:
        return 503
    known = (status for kind, status in _STATUSES.items() if isinstance(error, kind))
    return next(known, 503 if error.outcome is Outcome.RETRY else 500)


def error_of(kind: str, text: str) -> TrainFeedError | None:
    """Return the error of a name on the wire; None if the name is not that of an error of files."""
    found = _KINDS.get(kind)
    return None if found is None else found(text)


# --- Many small files in one body: a head of JSON, then the bytes of all files

# Most bytes of a bundle, and most files in it; each takes a descriptor while it is written.
BUNDLE_BYTES: Final = 8 << 20
BUNDLE_FILES: Final = 64

# Most bytes of a head: an object in JSON takes many times its size in memory. A path of 4,096 bytes
# that are not UTF-8 takes six times its size in JSON.
_HEAD_BYTES: Final = 2 << 20
_SIZE: Final = struct.Struct("<I")


@dataclass(frozen=True)
class Bundle:
    """Small files with what is said about each.

    Attributes:
        about: One object per file; the key ``size`` is added when the bundle is packed.
        data: The bytes of each file.
        options: Further keys of the head.
    """

    about: Sequence[dict[str, Any]]
    data: Sequence[bytes]
    options: dict[str, Any] = field(default_factory=dict)

    def pack(self) -> bytes:
        """Return the body."""
        pairs = zip(self.about, self.data, strict=True)
        files = [{**about, "size": len(data)} for about, data in pairs]
        head = json.dumps({**self.options, "files": files}).encode()
        return b"".join((_SIZE.pack(len(head)), head, *self.data))

    @classmethod
    def unpack(cls, body: bytes | bytearray) -> Self:
        """Return the files of a body.

        Raises:
            FormatError: The body has another form, or ends before its last file, or after it.
        """
        head, start = _head(body)
        files = head.pop("files", None)
        if not isinstance(files, list) or len(files) > BUNDLE_FILES:
            raise FormatError(f"expected a list of at most {BUNDLE_FILES} files in the head")
        return cls(files, list(_cut(body, start, files)), head)


def _head(body: bytes | bytearray) -> tuple[dict[str, Any], int]:
    if len(body) < _SIZE.size:
        raise FormatError(f"expected the size of a head in {_SIZE.size} bytes, got {len(body)}")
    start = _SIZE.size + _SIZE.unpack_from(body)[0]
    if start > _HEAD_BYTES:
        raise FormatError(f"expected a head of at most {_HEAD_BYTES} bytes, got {start}")
    try:
        head = json.loads(body[_SIZE.size : start])
    except (ValueError, RecursionError):
        head = None
    if start > len(body) or not isinstance(head, dict):
        raise FormatError("expected a head of JSON, an object, got other bytes")
    return head, start


def _cut(body: bytes | bytearray, start: int, files: list[Any]) -> Iterator[bytes]:
    view = memoryview(body)
    for number, each in enumerate(files):
        size = each.get("size") if isinstance(each, dict) else None
        if type(size) is not int or not 0 <= size <= len(body) - start:
            raise FormatError(f"expected the size of file {number}, within the body, got {size!r}")
        yield bytes(view[start : start + size])
        start += size
    if start != len(body):
        raise FormatError(f"expected a body of {start} bytes, got {len(body)}")


# --- Routes and headers of the file server

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


# --- The state and the entries of files, as both sides write and read them


def state_text(state: SourceState) -> str:
    """Return the state of a file as headers and digests have it."""
    return f'"{state.num_bytes}-{state.modified_ns}"'


def entry_json(entry: Entry) -> dict[str, Any]:
    """Return an entry as its JSON object."""
    return {**asdict(entry), "kind": entry.kind.value}


def entry_of_json(found: object) -> Entry:
    """Return the entry of a JSON object.

    Raises:
        ServiceError: The object has another form.
    """
    match found:
        case {
            "name": str(name),
            "kind": str(kind),
            "num_bytes": int(size),
            "modified_ns": int(at),
        } if kind in _ENTRY_KINDS:
            return Entry(name, Kind(kind), size, at)
        case _:
            raise ServiceError(
                "expected entries with name, kind, num_bytes and modified_ns, got another form;"
                " nothing of them was used; is another program, or another version of the server,"
                " listening there?"
            )
