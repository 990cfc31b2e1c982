"""The first of two looks at uploads, for checks that run by themselves.

A file that is copied to its final name can be seen half-way, exactly between two lines. A
check that is told of an earlier look takes only files that have not changed since. No clock of
another machine plays a part.
"""

from __future__ import annotations

from trainfeed.dataset.layout import DatasetFolder
from trainfeed.errors import AccessDeniedError, FormatError, NotFoundError
from trainfeed.uploads._receipt import Seen
from trainfeed.uploads._receipt_book import ReceiptBook
from trainfeed.uploads._upload_files import found_uploads, open_upload, seen_of

__all__ = ["first_look"]


def first_look(folder: DatasetFolder) -> dict[str, Seen]:
    """Return the states of the files of uploads that a receipt does not have, by their names.

    Files that cannot be opened are left out: a check refuses them without reading them.

    Raises:
        FormatError: The folder of uploads is a link.
        StorageError: The publication root refused or failed.
    """
    known = {receipt.name: receipt.seen for receipt in ReceiptBook(folder).entries()[0]}
    found = {}
    for file in found_uploads(folder, None):
        try:
            with open_upload(folder, file.path) as stream:
                seen = seen_of(stream.fileno())
        except (AccessDeniedError, FormatError, NotFoundError):
            continue
        if known.get(file.name) != seen:
            found[file.name] = seen
    return found
