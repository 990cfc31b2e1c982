"""The receipts of a data set: a numbered list to which files are added, and never removed.

A process creates number n exclusively after it has read all receipts below n. So no file gets two
receipts from two checks at once, and the numbers order uploads without a clock.
"""

from __future__ import annotations

import hashlib
import re
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from trainfeed import faults
from trainfeed.dataset.layout import DatasetFolder
from trainfeed.errors import FormatError, NotFoundError
from trainfeed.paths import is_there, listed, listed_folder, read_plain
from trainfeed.storage import posix
from trainfeed.uploads._receipt import Receipt, Refusal, from_sealed, to_sealed

__all__ = ["ReceiptBook"]

_MAX_BYTES: Final = 64 << 10
_NUMBER: Final = re.compile(r"([0-9]{8})\.json")
_REFUSED: Final = "refused"
_CONTENT: Final = "content"


class ReceiptBook:
    """The receipts and refusals of one data set.

    Args:
        folder: The data set below the publication root.
    """

    def __init__(self, folder: DatasetFolder) -> None:
        self._folder = folder.receipts
        self._known: list[Receipt] = []

    def content(self, sha256: str) -> Path:
        """Return the path of the kept bytes with this digest."""
        return self._folder / _CONTENT / sha256

    def receipts(self) -> list[Receipt]:
        """Return all receipts in order of arrival.

        Raises:
            FormatError: A receipt is damaged, or one is missing between two others.
            StorageError: The publication root refused or failed.
        """
        if not self._known:
            names = (path.name for path in listed_folder(self._folder))
            numbers = [int(match[1]) for match in map(_NUMBER.fullmatch, names) if match]
            self._known = [self._read(number) for number in range(1, max(numbers, default=0) + 1)]
        # Those that other processes have made since: a list of the folder for each would be slow.
        while is_there(self._path(len(self._known) + 1)):
            self._known.append(self._read(len(self._known) + 1))
        return list(self._known)

    def receipt(self, name: str) -> Receipt | None:
        """Return the receipt of an upload, or None; raises as ``receipts`` does."""
        return next((each for each in self.receipts() if each.name == name), None)

    def add(self, receipt: Receipt) -> tuple[Receipt, bool]:
        """Give a file the next number, unless it has a receipt already.

        Args:
            receipt: The receipt; its number is set here.

        Returns:
            The receipt that holds, and whether this call made it.

        Raises:
            StorageError: The publication root refused or failed.
        """
        posix.make_public_dir(self._folder)
        while True:
            found = self.receipt(receipt.name)
            if found is not None:
                return found, False
            numbered = replace(receipt, number=len(self._known) + 1)
            if posix.create_exclusive(
                self._path(numbered.number), to_sealed(numbered), is_public=True
            ):
                faults.point("uploads.after_receipt")
                return numbered, True

    def refusals(self) -> list[Refusal]:
        """Return all refusals, in order of the names of the uploads.

        Raises:
            FormatError: A refusal is damaged.
            StorageError: The publication root refused or failed.
        """
        found = [_refusal(path) for path in listed(self._folder / _REFUSED, "*.json")]
        return sorted(found, key=lambda refusal: refusal.name)

    def refuse(self, refusal: Refusal) -> None:
        """Write down why an upload is refused; a refusal of that name before is replaced."""
        path = self._refused(refusal.name)
        posix.make_public_dir(path.parent)
        posix.replace_file(path, to_sealed(refusal), is_public=True)
        faults.point("uploads.after_refusal")

    def lift(self, name: str) -> None:
        """Remove the refusal of an upload, if there is one."""
        path = self._refused(name)
        with posix.map_errors(path), suppress(FileNotFoundError):
            path.unlink()

    def _read(self, number: int) -> Receipt:
        path = self._path(number)
        try:
            data = read_plain(path, follow=True, max_bytes=_MAX_BYTES)
        except NotFoundError as error:
            raise FormatError(
                f"expected the receipts of uploads without a gap, number {number} is missing;"
                " nothing was changed; bring the file back from a backup",
                path=str(path),
            ) from error
        found: Receipt = from_sealed(Receipt, data, path=str(path))
        if found.number != number:
            raise FormatError(
                f"expected the receipt number {number}, got {found.number}; nothing was changed;"
                " bring the file back from a backup",
                path=str(path),
            )
        return found

    def _path(self, number: int) -> Path:
        return self._folder / f"{number:08d}.json"

    def _refused(self, name: str) -> Path:
        # A digest, because names of uploads may be longer than a name of a file, or not printable.
        digest = hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()
        return self._folder / _REFUSED / f"{digest[:32]}.json"


def _refusal(path: Path) -> Refusal:
    data = read_plain(path, follow=True, max_bytes=_MAX_BYTES)
    found: Refusal = from_sealed(Refusal, data, path=str(path))
    return found
