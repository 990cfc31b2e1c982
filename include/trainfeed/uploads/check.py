"""Checks uploads: reads each file once, keeps its bytes, and writes a receipt or a refusal."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, Final

from trainfeed.core import canonical_json
from trainfeed.core.accounts import account_name
from trainfeed.core.intervals import format_time
from trainfeed.core.printable_text import printable
from trainfeed.core.reading_rules import NEWEST
from trainfeed.errors import AccessDeniedError, FormatError, MemoryLimitError, NotFoundError
from trainfeed.files import is_there
from trainfeed.specification import DatasetSpec
from trainfeed.uploads.files import (
    LabelFields,
    UploadFile,
    copied,
    found_uploads,
    iter_rows,
    open_upload,
    require_upload,
    seen_of,
)
from trainfeed.uploads.labels import Labels, merged, table_of_rows
from trainfeed.uploads.receipts import LostReceipt, Receipt, ReceiptBook, Refusal, Seen
from trainfeed.uploads.removal import keeping
from trainfeed.versions.layout import DatasetFolder

# --- Reasons of refusals: messages about a file, with at most the first characters of its cells

_MAX_CHARS: Final = 2000
_MAX_CELL_CHARS: Final = 20
# A text in quotes, also one without its end quote, which a message has cut; can't has none.
_QUOTED: Final = re.compile(
    r"""(?<![^\Wb])(?:'(?P<one>(?:[^'\\]|\\.)*)(?:'|\\?$)|"(?P<two>(?:[^"\\]|\\.)*)(?:"|\\?$))""",
    re.DOTALL,
)


def short_reason(message: str, names: Collection[str]) -> str:
    """Return a message with texts in quotes cut behind 20 characters.

    Args:
        message: The message about a file.
        names: Names of fields, which are never cut.
    """

    def cut(found: re.Match[str]) -> str:
        text = found["one"] if found["one"] is not None else found["two"]
        if len(text) <= _MAX_CELL_CHARS or text in names:
            return found[0]
        quote = found[0][0]
        return f"{quote}{text[:_MAX_CELL_CHARS]}…{quote}"

    return _QUOTED.sub(cut, message)[:_MAX_CHARS].encode("utf-8", "replace").decode()


# --- Checks uploads: reads each file once, keeps its bytes, and writes a receipt or a refusal

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class UploadsReport:
    """The uploads of a data set after a check.

    Attributes:
        dataset: Name of the data set.
        accepted: Receipts that this check made, in order of arrival.
        refused: Refusals of files that are still there, in order of their names.
        unfinished: Names of files that were written to during the check, or since the first look;
            the next check reads them.
        damaged: What is wrong with receipts; files of their intervals were not looked at.
    """

    dataset: str
    accepted: tuple[Receipt, ...]
    refused: tuple[Refusal, ...]
    unfinished: tuple[str, ...] = ()
    damaged: tuple[str, ...] = ()

    @property
    def intervals(self) -> tuple[str, ...]:
        """Names of the intervals that got uploads by this check, sorted."""
        return tuple(sorted({receipt.interval for receipt in self.accepted}))


def check_uploads(
    spec: DatasetSpec,
    folder: DatasetFolder,
    intervals: Collection[str] | None = None,
    *,
    earlier: Mapping[str, Seen] | None = None,
) -> UploadsReport:
    """Check the uploads that have no receipt yet.

    Any number of processes may check at once: a file gets one receipt.

    Args:
        spec: The data set.
        folder: The data set below the publication root.
        intervals: Names of the intervals whose uploads are checked; None for all.
        earlier: Result of ``first_look``: files that have changed since, or are new since, are left
            to the next check. None to take every file that does not change during the check.

    Raises:
        ConfigError: The data set has no part ``uploads``.
        FormatError: A receipt that may be of any interval is damaged. A wrong upload is no error:
            it is refused; nor is a damaged receipt of one interval: the others are checked.
        StorageError: The publication root refused or failed.
    """
    check = _Check(spec, folder, earlier)
    for file in found_uploads(folder, intervals):
        check.look_at(file)
    return check.report(intervals)


def changed(file: Path, receipt: Receipt) -> str:
    """Return the message about a file that changed after its receipt."""
    return (
        f"{file} changed after receipt {receipt.number}, which has SHA-256 {receipt.sha256}; an"
        " upload never changes, nothing of the new content is used; give the new content another"
        " name, and bring the old file back or remove it (its labels are kept)"
    )


class _Check:
    """One check of the uploads of a data set."""

    def __init__(
        self, spec: DatasetSpec, folder: DatasetFolder, earlier: Mapping[str, Seen] | None
    ) -> None:
        self._spec = spec
        self._earlier = earlier
        self._folder = folder
        self._fields = LabelFields.of(spec)
        self._book = ReceiptBook(folder)
        self._rules = canonical_json.sha256_of(
            [self._fields.digest(), self._max_bytes, int(NEWEST)]
        )
        # Read before any file: a damaged receipt is an error, and no reason to refuse a file.
        receipts, self._lost = self._book.entries()
        for lost in self._lost:
            if lost.intervals is None:
                raise lost.error
        self._book.mark_intervals(receipts)
        self._receipts = {receipt.name: receipt for receipt in receipts}
        self._refusals = {refusal.name: refusal for refusal in self._book.refusals()}
        self._accepted: list[Receipt] = []
        self._unfinished: list[str] = []
        self._found: set[str] = set()

    @property
    def _max_bytes(self) -> int:
        return 0 if self._spec.uploads is None else self._spec.uploads.max_file_bytes

    def look_at(self, file: UploadFile) -> None:
        """Accept or refuse a file, unless that was done before and the file is the same."""
        self._found.add(file.name)
        # The file may be the one of a receipt that is lost, which keeps its number.
        if any(lost.may_be_of(file.name.partition("/")[0]) for lost in self._lost):
            return
        receipt, refusal = self._receipts.get(file.name), self._refusals.get(file.name)
        seen: Seen | None = None
        try:
            with open_upload(self._folder, file.path) as stream:
                seen = seen_of(stream.fileno())
                if refusal is not None and (refusal.seen, refusal.rules) == (seen, self._rules):
                    return
                if receipt is None or receipt.seen != seen or not self._is_kept(receipt):
                    receipt = self._read(file, stream, seen, receipt)
        except NotFoundError:
            logger.info("%s went away during the check", printable(str(file.path)))
        except (AccessDeniedError, FormatError, MemoryLimitError) as error:
            self._refuse(file, error, seen, refusal)
        else:
            if receipt is not None:
                self._receive(file, receipt, refusal)

    def report(self, intervals: Collection[str] | None) -> UploadsReport:
        """Return the result; refusals of files that are gone are removed."""
        refused = []
        for refusal in self._book.refusals():
            if refusal.name in self._found:
                refused.append(refusal)
            elif intervals is None or refusal.name.partition("/")[0] in intervals:
                self._book.lift(refusal.name)
        return UploadsReport(
            self._spec.name,
            tuple(self._accepted),
            tuple(refused),
            tuple(self._unfinished),
            tuple(str(lost.error) for lost in self._lost if _concerns(lost, intervals)),
        )

    def _read(
        self, file: UploadFile, stream: BinaryIO, seen: Seen, receipt: Receipt | None
    ) -> Receipt | None:
        """Return the receipt that a file should have; None while the file is written to."""
        kind = require_upload(file, self._spec.schedule_model())
        if self._earlier is not None and self._earlier.get(file.name) != seen:
            logger.info("%s is new or has changed since the first look", printable(str(file.path)))
            self._unfinished.append(file.name)
            return None
        with copied(self._folder.staging / "tmp", stream, kind, self._max_bytes) as copy:
            if seen_of(stream.fileno()) != seen:
                logger.info("%s was written to during the check", printable(str(file.path)))
                self._unfinished.append(file.name)
                return None
            if receipt is None:
                labels, owner = self._labels(copy.path, kind), os.fstat(stream.fileno()).st_uid
                receipt = _receipt_of(file, kind, copy.sha256, labels, seen, owner)
            if receipt.sha256 != copy.sha256:
                raise FormatError(changed(file.path, receipt))
            if not self._is_kept(receipt):
                copy.keep(self._book.content(copy.sha256))
        return receipt

    def _receive(self, file: UploadFile, receipt: Receipt, refusal: Refusal | None) -> None:
        held, is_ours = self._book.add(receipt)
        if held.sha256 != receipt.sha256:
            # Another check has read other bytes under this name.
            self._refuse(file, FormatError(changed(file.path, held)), receipt.seen, refusal)
            return
        if is_ours:
            self._accepted.append(held)
            self._require_kept(file, held)
            logger.info("%s has receipt %d", printable(held.name), held.number)
        if refusal is not None:
            self._book.lift(file.name)

    def _require_kept(self, file: UploadFile, receipt: Receipt) -> None:
        """Keep the bytes of a new receipt again if retention removed them before it was there.

        It removes bytes under a lock, and looks at the receipts before. So it has seen this one, or
        the bytes are found to be gone here.
        """
        with keeping(self._folder):
            is_kept = self._is_kept(receipt)
        if not is_kept:
            self._receipts[file.name] = receipt
            self.look_at(file)

    def _is_kept(self, receipt: Receipt) -> bool:
        """Whether the bytes of a receipt are there; retention may have removed them."""
        return is_there(self._book.content(receipt.sha256))

    def _labels(self, copy: Path, kind: str) -> Labels:
        limit = self._spec.resources.memory_bytes
        rows = iter_rows(copy, kind, self._fields)
        labels = merged([table_of_rows(rows, self._fields, 0, limit)], self._fields, limit)
        if not labels.rows:
            raise FormatError("expected at least one row of labels, got none")
        return labels

    def _refuse(
        self, file: UploadFile, error: Exception, seen: Seen | None, known: Refusal | None
    ) -> None:
        # Only the message: the path in the error is that of the copy.
        names = (*self._fields.key.names, *self._fields.labels.names)
        reason = short_reason(str(error.args[0]), names)
        refusal = Refusal(file.name, reason, seen, self._rules, _now())
        if known is None or replace(known, checked_at=refusal.checked_at) != refusal:
            logger.warning("%s is refused: %s", printable(str(file.path)), printable(reason))
            self._book.refuse(refusal)


def _concerns(lost: LostReceipt, intervals: Collection[str] | None) -> bool:
    return intervals is None or any(map(lost.may_be_of, intervals))


def _receipt_of(
    file: UploadFile, kind: str, sha256: str, labels: Labels, seen: Seen, owner: int
) -> Receipt:
    """Return the receipt of a file; its number is set when it is written."""
    return Receipt(
        number=0,
        name=file.name,
        kind=kind,
        sha256=sha256,
        rows=labels.rows,
        keys=len(labels.table),
        seen=seen,
        checked_at=_now(),
        checked_by=account_name(),
        owner=owner,
    )


def _now() -> str:
    return format_time(datetime.now(UTC).replace(microsecond=0))
