"""Copies of single files, block by block, with a digest of what was read and of what arrived."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO, Final

from trainfeed.errors import ChecksumError, StorageError
from trainfeed.paths import open_plain, write_all
from trainfeed.storage._location import Location
from trainfeed.storage.folders._folder_manifest import FolderFile
from trainfeed.storage.folders._folder_tree import is_local
from trainfeed.storage.folders._patience import Patience

__all__ = ["copy_file", "digested", "require_equal"]

_BLOCK_BYTES: Final = 4 << 20


def copy_file(
    source: Location, target: Location, expected: FolderFile | None, patience: Patience
) -> tuple[int, str]:
    """Copy a file to a free name, and read the copy back.

    Memory: two blocks of 4 MiB, whatever the size.

    Args:
        source: The file.
        target: The name of the copy, inside a temporary folder of this transfer; what has the name
            when a call is repeated is deleted.
        expected: Size and digest that the file must have; None if they are not known.
        patience: How often the copy is tried.

    Returns:
        Number of bytes, and their SHA-256 in hex.

    Raises:
        ChecksumError: The source is not ``expected``.
        StorageError: A store refused or failed, or gave back other bytes than it was given.
    """
    is_again = False

    def attempt() -> tuple[int, str]:
        nonlocal is_again
        if is_again:
            target.delete()
        is_again = True
        written = _copied(source, target)
        if expected is not None:
            require_equal(source, written, expected)
        if (found := digested(target)) != written:
            raise StorageError(
                f"{target.uri}: expected {_shown(written)} to be read back, got {_shown(found)};"
                " copy the folder again"
            )
        return written

    return patience.call(attempt)


def digested(file: Location) -> tuple[int, str]:
    """Return size and SHA-256 of a file, which is read from its store.

    Raises:
        NotFoundError: The file is not there.
        FormatError: The file is a link or a special file.
        StorageError: The store refused or failed.
    """
    digest, num_bytes = hashlib.sha256(), 0
    with _opened(file) as read:
        while block := read.read(_BLOCK_BYTES):
            digest.update(block)
            num_bytes += len(block)
    return num_bytes, digest.hexdigest()


def require_equal(file: Location, found: tuple[int, str], expected: FolderFile) -> None:
    """Compare size and digest of a file with those of a manifest.

    Raises:
        ChecksumError: They differ.
    """
    wanted = (expected.num_bytes, expected.sha256)
    if found != wanted:
        raise ChecksumError(f"expected {_shown(wanted)}, got {_shown(found)}", path=file.uri)


def _copied(source: Location, target: Location) -> tuple[int, str]:
    with _opened(source) as read:
        write = target.open_write()
        try:
            found = _pumped(read, write)
        except BaseException:
            # Closing may fail as well; the first error says more.
            with suppress(StorageError):
                write.close()
            raise
        write.close()
    return found


def _pumped(read: BinaryIO, write: BinaryIO) -> tuple[int, str]:
    digest, num_bytes = hashlib.sha256(), 0
    while block := read.read(_BLOCK_BYTES):
        digest.update(block)
        num_bytes += len(block)
        write_all(write, block)
    return num_bytes, digest.hexdigest()


@contextmanager
def _opened(file: Location) -> Iterator[BinaryIO]:
    if is_local(file):
        # A file that was replaced by a link after the listing is refused.
        with open_plain(file.path, follow=False) as local:
            yield local
    else:
        with file.open_read() as remote:
            yield remote


def _shown(found: tuple[int, str]) -> str:
    return f"{found[0]} bytes with SHA-256 {found[1]}"
