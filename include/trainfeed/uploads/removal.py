"""The removal of uploads by retention: a note, then file and kept bytes go; the receipts stay."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace
from io import BufferedReader
from pathlib import Path
from typing import Final, cast

from trainfeed.core import faults
from trainfeed.core.accounts import Decided
from trainfeed.errors import FormatError, NotFoundError, StorageError, TrainFeedError
from trainfeed.files import os_errors
from trainfeed.files.records import RecordFile
from trainfeed.files.stores import posix
from trainfeed.uploads.files import open_upload, opened_folder, seen_of
from trainfeed.uploads.receipts import Receipt, ReceiptBook, Seen
from trainfeed.versions.layout import DatasetFolder, check_name

_LOCK_S: Final = 600.0


@dataclass(frozen=True)
class UploadsRemoval(Decided):
    """A removal of the uploads of an interval.

    Attributes:
        receipts: Numbers of the receipts whose bytes went, ascending.
        dataset: Name of the data set; None in a note of before.
        interval: Name of the interval, likewise.
    """

    receipts: tuple[int, ...]
    dataset: str | None = field(default=None, compare=False, repr=False)
    interval: str | None = field(default=None, compare=False, repr=False)


_FILE: Final = RecordFile(
    UploadsRemoval,
    "the note of a removal of uploads",
    "remove the file; the history of the data set has the removal, too",
    max_bytes=1 << 20,
)


def keeping(folder: DatasetFolder) -> AbstractContextManager[object]:
    """Return the lock under which kept bytes are removed, and looked for after a receipt."""
    return posix.file_lock(folder.receipts / ".lock", timeout_s=_LOCK_S)


def write_uploads_removal(folder: DatasetFolder, interval: str, removal: UploadsRemoval) -> None:
    """Write the note of an interval, before its files go.

    Raises:
        StorageError: The publication root refused or failed; the files must stay.
    """
    named = replace(removal, dataset=folder.name, interval=interval)
    _FILE.replace(folder.uploads_removal(interval), named)
    faults.point("uploads.after_note")


def removal_of_uploads(folder: DatasetFolder, interval: str) -> UploadsRemoval | None:
    """Return the last removal of uploads of an interval, None if there was none.

    Raises:
        FormatError: The note is damaged.
        StorageError: The publication root refused or failed.
    """
    path = folder.uploads_removal(interval)
    return _FILE.read(path, dataset=folder.name, interval=interval)


def told_uploads_removal(folder: DatasetFolder, receipt: int, name: str) -> str:
    """Return a sentence about the removal of an upload for a message; empty if it was not removed.

    Args:
        folder: The data set.
        receipt: Number of its receipt.
        name: ``<interval>/<file>``.
    """
    try:
        found = removal_of_uploads(folder, name.partition("/")[0])
    except TrainFeedError as error:
        return f"; whether retention removed it cannot be told: {error}"
    if found is None or receipt not in found.receipts:
        return ""
    return (
        f"; retention removed it with its retired interval on {found.at}, for {found.by}"
        f" ({found.why}); to build the interval again, put the file back with the same bytes, as"
        f" {folder.uploads / name}: the build keeps them again"
    )


def take_upload(folder: DatasetFolder, receipt: Receipt, place: Path) -> bool:
    """Move the file of an upload away, if it is there and has the bytes of its receipt.

    People may exchange folders and files there at any time: no link is followed, and what is not
    the file of the receipt is put back.

    Args:
        folder: The data set.
        receipt: The receipt.
        place: Where to, on the same file system; nothing is there.

    Returns:
        Whether it was moved; False if it is gone, or is another file by now.

    Raises:
        StorageError: The publication root refused or failed.
    """
    path = folder.uploads / receipt.name
    try:
        with open_upload(folder, path) as stream:
            seen, reader = seen_of(stream.fileno()), cast("BufferedReader", stream)
            is_same = hashlib.file_digest(reader, "sha256").hexdigest() == receipt.sha256
        return is_same and _move(folder, path, place, seen)
    except (FormatError, NotFoundError):
        return False


def _move(folder: DatasetFolder, path: Path, place: Path, seen: Seen) -> bool:
    """Rename a file from its folder, of which no part is a link; another one is renamed back."""
    with opened_folder(folder, path.parent) as above, os_errors(path):
        os.rename(path.name, place, src_dir_fd=above)
        moved = place.lstat()
        if Seen(moved.st_size, moved.st_mtime_ns, moved.st_ino) == seen:
            return True
        os.rename(place, path.name, dst_dir_fd=above)
    return False


def take_bytes(folder: DatasetFolder, digests: Sequence[str], place: Path) -> None:
    """Move kept bytes away; those that are gone are passed over."""
    book = ReceiptBook(folder)
    for digest in digests:
        path = book.content(digest)
        with posix.map_errors(path), suppress(FileNotFoundError):
            path.rename(place / digest)
        faults.point("uploads.after_bytes")


def lift_empty_folder(folder: DatasetFolder, interval: str) -> None:
    """Remove the folder of an interval's uploads if nothing is in it."""
    errors = (StorageError, FormatError, OSError)
    with suppress(*errors), opened_folder(folder, folder.uploads) as above:
        os.rmdir(check_name(interval), dir_fd=above)
