"""Which receipts an asset event has been sent for: one number, beside the receipts.

Airflow sends an event when a task ends well, and the number is written by a task after that one. A
kill in between repeats the event, so every receipt has at least one event. Whether a receipt was
made by the DAG, by a command or by a build plays no part.
"""

from __future__ import annotations

from typing import Final

from trainfeed import canonical_json, faults
from trainfeed.dataset.layout import DatasetFolder
from trainfeed.storage import posix
from trainfeed.uploads._receipt import Receipt
from trainfeed.uploads._receipt_book import ReceiptBook, announced_number, announced_path

__all__ = ["mark_announced", "unannounced"]

_FORMAT: Final = 1


def unannounced(folder: DatasetFolder) -> list[Receipt]:
    """Return the receipts that no event was sent for, in order of arrival.

    Those after a damaged or missing one without an event wait until that one is back.

    Raises:
        FormatError: The number of the last one with an event is damaged.
        StorageError: The publication root refused or failed.
    """
    # In this order: a receipt that is added meanwhile is above the number.
    number = announced_number(folder)
    receipts, lost = ReceiptBook(folder).entries()
    end = min((each.number for each in lost if each.number > number), default=None)
    return [each for each in receipts if each.number > number and (not end or each.number < end)]


def mark_announced(folder: DatasetFolder, number: int) -> None:
    """Write down that events were sent for all receipts up to a number; the number never falls.

    Raises:
        FormatError: The number that is there is damaged.
        StorageError: The publication root refused or failed.
    """
    faults.point("uploads.before_announced")
    if number > announced_number(folder):
        text = canonical_json.dumps({"format": _FORMAT, "number": number})
        data = canonical_json.seal(text.removesuffix(b"}") + b"\n}\n")
        posix.replace_file(announced_path(folder), data, is_public=True)
