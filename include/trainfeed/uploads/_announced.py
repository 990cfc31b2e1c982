"""Which receipts an asset event has been sent for: one number, beside the receipts.

Airflow sends an event when a task ends well, and the number is written by a task after that one. A
kill in between repeats the event, so every receipt has at least one event. Whether a receipt was
made by the DAG, by a command or by a build plays no part.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from trainfeed import canonical_json, faults
from trainfeed.dataset.layout import DatasetFolder
from trainfeed.errors import ChecksumError, FormatError, NotFoundError
from trainfeed.paths import read_plain
from trainfeed.storage import posix
from trainfeed.uploads._receipt import Receipt
from trainfeed.uploads._receipt_book import ReceiptBook

__all__ = ["mark_announced", "unannounced"]

_NAME: Final = "announced.json"
_FORMAT: Final = 1
_MAX_BYTES: Final = 4 << 10
_REMEDY: Final = (
    "no receipt was changed; bring the folder of receipts back from a backup, or remove this file:"
    " the next run sends an event for all receipts once more"
)


def unannounced(folder: DatasetFolder) -> list[Receipt]:
    """Return the receipts that no event was sent for, in order of arrival.

    Raises:
        FormatError: A receipt, or the number of the last one with an event, is damaged; or that
            number is above all receipts.
        StorageError: The publication root refused or failed.
    """
    # In this order: a receipt that is added meanwhile is above the number.
    number = _announced(folder)
    receipts = ReceiptBook(folder).receipts()
    if number > len(receipts):
        raise FormatError(
            f"expected receipts of uploads up to number {number}, which had an event, got"
            f" {len(receipts)}; {_REMEDY}",
            path=str(_path(folder)),
        )
    return receipts[number:]


def mark_announced(folder: DatasetFolder, number: int) -> None:
    """Write down that events were sent for all receipts up to a number; the number never falls.

    Raises:
        FormatError: The number that is there is damaged.
        StorageError: The publication root refused or failed.
    """
    faults.point("uploads.before_announced")
    if number > _announced(folder):
        text = canonical_json.dumps({"format": _FORMAT, "number": number})
        data = canonical_json.seal(text.removesuffix(b"}") + b"\n}\n")
        posix.replace_file(_path(folder), data, is_public=True)


def _announced(folder: DatasetFolder) -> int:
    path = _path(folder)
    try:
        data = read_plain(path, follow=True, max_bytes=_MAX_BYTES)
    except NotFoundError:
        return 0
    try:
        canonical_json.require_intact(data, path=str(path))
        found = canonical_json.loads(data, path=str(path))
    except ChecksumError as error:
        raise ChecksumError(f"{error.args[0]}; {_REMEDY}", path=str(path)) from error
    number = found.get("number")
    if found.get("format") != _FORMAT or type(number) is not int or number < 0:
        raise FormatError(
            f"expected the number of the last receipt with an event, got {found!r:.100}; {_REMEDY}",
            path=str(path),
        )
    return number


def _path(folder: DatasetFolder) -> Path:
    return folder.receipts / _NAME
