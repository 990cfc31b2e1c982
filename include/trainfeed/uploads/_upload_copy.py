"""Private copies of uploads: the bytes that are checked are those that are kept."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from trainfeed import faults
from trainfeed.errors import FormatError
from trainfeed.paths import (
    UnfinishedFile,
    claim_name,
    make_folders,
    os_errors,
    plain_size,
    unfinished_name,
    write_all,
)
from trainfeed.storage import posix

__all__ = ["UploadCopy", "copied"]

_BLOCK_BYTES: Final = 1 << 20
_PRIVATE_MODE: Final = 0o600
# That of receipts: builds may run under another account than the check.
_KEPT_MODE: Final = 0o644
_BINARY: Final = frozenset({"parquet"})
_LINE_ENDS: Final = (b"\n", b"\r")


@dataclass(frozen=True)
class UploadCopy:
    """A copy of an upload that only the account of the check can read.

    Attributes:
        path: Path of the copy.
        sha256: SHA-256 of the bytes, in hex.
        file: The copy, durable, until it is kept or dropped.
    """

    path: Path
    sha256: str
    file: UnfinishedFile

    def keep(self, path: Path) -> None:
        """Give the copy its name by digest, readable for all; an equal file of that name stays."""
        posix.make_public_dir(path.parent)
        self.file.set_mode(_KEPT_MODE)
        self.file.sync()
        with os_errors(path):
            claim_name(self.path, path)
        posix.sync_dir(path.parent)
        faults.point("uploads.after_content")


@contextmanager
def copied(place: Path, stream: BinaryIO, kind: str, max_bytes: int) -> Iterator[UploadCopy]:
    """Yield a private copy of a file; the copy is removed at the end.

    Args:
        place: Folder of the copy, on the file system of the publication root.
        stream: The file.
        kind: csv, jsonl or parquet.
        max_bytes: Size of the largest file.

    Raises:
        FormatError: The file is larger, or is text with a NUL or an unfinished last line.
        StorageError: The file system refused or failed.
    """
    with posix.map_errors(place):
        make_folders(place)
    path = place / unfinished_name("upload")
    with UnfinishedFile(path, unfinished=path, mode=_PRIVATE_MODE) as new:
        sha256 = _copy(stream, new.file, max_bytes, is_text=kind not in _BINARY)
        new.sync()
        faults.point("uploads.after_copy")
        yield UploadCopy(path, sha256, new)


def _copy(stream: BinaryIO, target: BinaryIO, max_bytes: int, *, is_text: bool) -> str:
    digest, num_bytes, last = hashlib.sha256(), 0, b""
    plain_size(stream.fileno(), None)
    while block := stream.read(_BLOCK_BYTES):
        if is_text and (place := block.find(b"\0")) >= 0:
            raise FormatError(f"expected text, got a NUL at byte {num_bytes + place}")
        num_bytes += len(block)
        if num_bytes > max_bytes:
            raise FormatError(
                f"expected at most uploads.max_file_bytes = {max_bytes} bytes, got more;"
                " divide the file, or raise it in dataset.yaml"
            )
        digest.update(block)
        write_all(target, block)
        last = block[-1:]
    if is_text and last and last not in _LINE_ENDS:
        raise FormatError(
            f"expected a newline at the end of the last line, got none behind {num_bytes} bytes;"
            " the file may be cut, and its last value with it: copy it again, or end its last line"
        )
    return digest.hexdigest()
