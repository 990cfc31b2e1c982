"""The uploads that a build of an interval uses, and their labels."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO, Final, cast

from trainfeed.core.reading_rules import NEWEST, ReadingRules
from trainfeed.errors import ChecksumError, FormatError, NotFoundError
from trainfeed.files import open_plain, os_errors
from trainfeed.specification import DatasetSpec
from trainfeed.uploads.check import changed
from trainfeed.uploads.files import LabelFields, iter_rows, open_upload
from trainfeed.uploads.labels import Labels, merged, table_of_rows
from trainfeed.uploads.receipts import Receipt, ReceiptBook, uploads_of
from trainfeed.uploads.removal import told_uploads_removal
from trainfeed.versions.layout import DatasetFolder

_REMEDY: Final = (
    "bring the file back from a backup of the publication root, or copy the upload, if it is still"
    " there, to that place"
)


@dataclass(frozen=True)
class AppliedUpload:
    """An upload in a plan.

    Attributes:
        number: Place in the order of arrival.
        name: ``<interval>/<file>``.
        kind: Format of the file.
        sha256: SHA-256 of the bytes, in hex.
        rows: Number of rows.
    """

    number: int
    name: str
    kind: str
    sha256: str
    rows: int

    @classmethod
    def of(cls, receipt: Receipt) -> AppliedUpload:
        """Return the upload of a receipt."""
        return cls(receipt.number, receipt.name, receipt.kind, receipt.sha256, receipt.rows)

    def fingerprint(self) -> list[str]:
        """Return what determines the content: neither number nor name."""
        return [self.kind, self.sha256]


def applied_uploads(folder: DatasetFolder, interval: str) -> list[AppliedUpload]:
    """Return the accepted uploads of an interval in order of arrival, and verify them.

    Raises:
        ChecksumError: A file changed after its receipt.
        FormatError: A receipt of the interval is damaged or gone, or a folder of uploads is a link.
        NotFoundError: The kept bytes of an upload are gone.
        StorageError: The publication root refused or failed.
    """
    book = ReceiptBook(folder)
    if (newest := folder.current_generation(interval)) is not None:
        book.require_known(interval, uploads_of(folder, interval, newest))
    receipts = book.receipts(interval)
    for receipt in receipts:
        _require_unchanged(folder, receipt)
        _require_kept(folder, receipt.number, receipt.name, receipt.sha256)
    return [AppliedUpload.of(receipt) for receipt in receipts]


def labels_of(
    spec: DatasetSpec,
    folder: DatasetFolder,
    uploads: Sequence[AppliedUpload],
    rules: ReadingRules = NEWEST,
) -> Labels:
    """Return the labels of uploads; of rows with equal keys, that of the newest upload counts.

    Args:
        spec: The data set.
        folder: The data set below the publication root.
        uploads: The uploads of an interval, in order of arrival.
        rules: The reading rules of the plan.

    Raises:
        ChecksumError: The kept bytes of an upload are not those of its receipt.
        FormatError: An upload does not match the fields of ``spec``.
        MemoryLimitError: The labels do not fit the memory.
        NotFoundError: The kept bytes of an upload are gone.
    """
    fields, limit, book = LabelFields.of(spec), spec.resources.memory_bytes, ReceiptBook(folder)
    tables = [table_of_rows([], fields, 0, limit)]
    for place, upload in enumerate(uploads):
        path = book.content(upload.sha256)
        _require_digest(folder, path, upload)
        try:
            rows = iter_rows(path, upload.kind, fields, rules)
            tables.append(table_of_rows(rows, fields, place, limit))
            # The rows were read after the digest, so they may be of a file that replaced it.
            _require_digest(folder, path, upload)
        except ChecksumError:
            raise
        except FormatError as error:
            raise FormatError(
                f"upload {upload.name} (receipt {upload.number}) does not match the fields of"
                f" dataset.yaml any more: {error.args[0]}; nothing was published; give the fields"
                " of uploads their earlier types, or new names",
                path=str(path),
            ) from error
    names = [f"upload {each.name} (receipt {each.number})" for each in uploads]
    try:
        return merged(tables, fields, limit, names)
    except FormatError as error:
        raise FormatError(
            f"{error.args[0]}; nothing was published; the file was accepted with other key fields:"
            " bring those of dataset.yaml back"
        ) from error


def _require_unchanged(folder: DatasetFolder, receipt: Receipt) -> None:
    """Compare a file that is still there with its receipt."""
    path = folder.uploads / receipt.name
    try:
        with open_upload(folder, path) as file:
            sha256 = _sha256(file)
    except NotFoundError:
        return
    if sha256 != receipt.sha256:
        raise ChecksumError(changed(path, receipt))


def _require_kept(folder: DatasetFolder, number: int, name: str, sha256: str) -> None:
    path = ReceiptBook(folder).content(sha256)
    with os_errors(path):
        if path.exists():
            return
    told = told_uploads_removal(folder, number, name) or f"; {_REMEDY}"
    raise NotFoundError(
        f"{path}, the kept bytes of upload {name}, is missing; nothing was published{told}"
    )


def _require_digest(folder: DatasetFolder, path: Path, upload: AppliedUpload) -> None:
    _require_kept(folder, upload.number, upload.name, upload.sha256)
    with open_plain(path, follow=True) as file:
        sha256 = _sha256(file)
    if sha256 != upload.sha256:
        raise ChecksumError(
            f"the kept bytes of upload {upload.name} are damaged; nothing was published; {_REMEDY}",
            path=str(path),
        )


def _sha256(file: BinaryIO) -> str:
    return hashlib.file_digest(cast("BufferedReader", file), "sha256").hexdigest()
