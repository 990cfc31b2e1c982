"""The receipts of a data set: a numbered list of accepted and refused uploads, sealed."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Final, TypeVar

from trainfeed.core import faults
from trainfeed.errors import ChecksumError, FormatError, NotFoundError
from trainfeed.files import is_there, listed, listed_folder
from trainfeed.files.records import RecordFile
from trainfeed.files.stores import posix
from trainfeed.versions import Manifest
from trainfeed.versions.layout import DatasetFolder

# --- Receipts of accepted uploads, and refusals of the others: sealed JSON, one file each

T = TypeVar("T")

_KINDS: Final = frozenset({"csv", "jsonl", "parquet"})
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Seen:
    """The state of a file at a look: equal states mean that nobody has written in between.

    Attributes:
        size: Bytes.
        modified_ns: Modification time, nanoseconds since 1970, by the clock of the store.
        inode: Number of the file in the file system.
    """

    size: int
    modified_ns: int
    inode: int


@dataclass(frozen=True)
class Receipt:
    """An upload that was accepted.

    Attributes:
        number: Place in the order of arrival, from 1; the largest number is the newest upload.
        name: ``<interval>/<file>``, below the folder ``uploads``.
        kind: Format of the file: csv, jsonl or parquet.
        sha256: SHA-256 of the bytes, in hex.
        rows: Number of rows.
        keys: Number of different keys.
        seen: State of the file when it was read.
        checked_at: Time of the check, UTC, for information.
        checked_by: Account of the check, for information.
        owner: Number of the account that owned the file, for information.
    """

    number: int
    name: str
    kind: str
    sha256: str
    rows: int
    keys: int
    seen: Seen
    checked_at: str
    checked_by: str
    owner: int

    @property
    def interval(self) -> str:
        """Name of the interval that the upload belongs to."""
        return self.name.partition("/")[0]


@dataclass(frozen=True)
class Refusal:
    """An upload that was refused.

    Attributes:
        name: As in a receipt.
        reason: What was expected, what was got, and the row.
        seen: State of the file when it was read; None if it was not a file that can be read.
        rules: Digest of the rules by which it was read; under others the file is read again.
        checked_at: Time of the check, UTC.
    """

    name: str
    reason: str
    seen: Seen | None
    rules: str
    checked_at: str


class _UploadFile(RecordFile[T]):
    """A file with a broken seal is a ``ChecksumError``, as kept bytes that were changed are."""

    def _damaged(self, path: Path | str, why: object) -> FormatError:
        error = super()._damaged(path, why)
        if isinstance(why, ChecksumError):
            return ChecksumError(*error.args, path=error.path)
        return error


def _require_sound(receipt: Receipt) -> None:
    # The name and the digest become parts of paths.
    parts = receipt.name.split("/")
    if (
        len(parts) != 2
        or {"", ".", ".."}.intersection(parts)
        or receipt.kind not in _KINDS
        or _DIGEST.fullmatch(receipt.sha256) is None
        or receipt.number < 1
    ):
        raise ValueError("a name, kind or digest that no upload has")


RECEIPTS: Final = _UploadFile(
    Receipt,
    "the receipt of an upload",
    "nothing was changed; bring the file back from a backup",
    follow=True,
    format=1,
    check=_require_sound,
)
REFUSALS: Final = _UploadFile(
    Refusal,
    "the refusal of an upload",
    "nothing was changed; remove the file: the next check reads the upload again",
    follow=True,
    format=1,
)


# --- The receipts of a data set: a numbered list to which files are added, and never removed

# Missing receipts in a row that are each looked for in versions.
_MOST_MISSING: Final = 100
_NUMBER: Final = re.compile(r"([0-9]{8})\.json")
_REFUSED: Final = "refused"
_CONTENT: Final = "content"
_ANNOUNCED: Final = "announced.json"
_INTERVALS: Final = "intervals"
_OF_INTERVAL: Final = re.compile(r"([0-9]{8})\.(.+)")


@dataclass(frozen=True)
class LostReceipt:
    """A receipt that was there once, and is damaged or missing.

    Attributes:
        number: Its number.
        error: What is wrong with it.
        intervals: The intervals that it may be of; None if it may be of any.
    """

    number: int
    error: FormatError
    intervals: frozenset[str] | None

    def may_be_of(self, interval: str) -> bool:
        """Return whether it may be of an interval."""
        return self.intervals is None or interval in self.intervals


class ReceiptBook:
    """The receipts and refusals of one data set.

    Args:
        folder: The data set below the publication root.
    """

    def __init__(self, folder: DatasetFolder) -> None:
        self._folder = folder.receipts
        self._dataset = folder
        self._known: list[Receipt | LostReceipt] = []
        self._last = 0

    def content(self, sha256: str) -> Path:
        """Return the path of the kept bytes with this digest."""
        return self._folder / _CONTENT / sha256

    def receipts(self, interval: str | None = None) -> list[Receipt]:
        """Return the receipts in order of arrival: all, or those of an interval.

        Raises:
            FormatError: One of them is damaged or missing, or may be.
            StorageError: The publication root refused or failed.
        """
        found, lost = self.entries()
        for each in lost:
            if interval is None or each.may_be_of(interval):
                raise each.error
        return found if interval is None else [each for each in found if each.interval == interval]

    def entries(self) -> tuple[list[Receipt], list[LostReceipt]]:
        """Return all receipts that can be read, in order of arrival, and the others.

        Raises:
            StorageError: The publication root refused or failed.
        """
        if not self._known:
            self._known = self._read_all()
        # Those that other processes have made since: a list of the folder for each would be slow.
        while is_there(self._path(self._last + 1)):
            self._last += 1
            self._known.append(self._entry(self._last, {}))
        lost = [each for each in self._known if isinstance(each, LostReceipt)]
        return [each for each in self._known if isinstance(each, Receipt)], lost

    def require_known(self, interval: str, uploads: Iterable[tuple[int, str]]) -> None:
        """Refuse an interval whose version has an upload without a receipt.

        Args:
            interval: Name of the interval.
            uploads: Number and name of each upload of the version.

        Raises:
            FormatError: The receipt of an upload is gone; or a receipt that may be of the interval
                is damaged or missing.
            StorageError: The publication root refused or failed.
        """
        names = {receipt.number: receipt.name for receipt in self.receipts(interval)}
        for number, name in uploads:
            if names.get(number) != name:
                raise _missing(
                    self._path(number), f"number {number}, of {name} that a version has,"
                )

    def mark_intervals(self, receipts: Iterable[Receipt]) -> None:
        """Write down of which interval each receipt is, where that is not known yet."""
        known = self._marked()
        for each in receipts:
            if each.interval not in known.get(each.number, ()):
                self._mark(each)

    def receipt(self, name: str) -> Receipt | None:
        """Return the receipt of an upload, or None; raises as ``receipts`` of its interval does."""
        mine = self.receipts(name.partition("/")[0])
        return next((each for each in mine if each.name == name), None)

    def add(self, receipt: Receipt) -> tuple[Receipt, bool]:
        """Give a file the next number, unless it has a receipt already.

        Args:
            receipt: The receipt; its number is set here.

        Returns:
            The receipt that holds, and whether this call made it.

        Raises:
            StorageError: The publication root refused or failed.
        """
        while True:
            found = self.receipt(receipt.name)
            if found is not None:
                return found, False
            numbered = replace(receipt, number=self._last + 1)
            if RECEIPTS.write_once(self._path(numbered.number), numbered):
                faults.point("uploads.after_receipt")
                self._mark(numbered)
                return numbered, True

    def refusals(self) -> list[Refusal]:
        """Return all refusals, in order of the names of the uploads.

        Raises:
            FormatError: A refusal is damaged.
            StorageError: The publication root refused or failed.
        """
        found = map(REFUSALS.read, listed(self._folder / _REFUSED, "*.json"))
        return sorted(filter(None, found), key=lambda refusal: refusal.name)

    def refuse(self, refusal: Refusal) -> None:
        """Write down why an upload is refused; a refusal of that name before is replaced."""
        REFUSALS.replace(self._refused(refusal.name), refusal)
        faults.point("uploads.after_refusal")

    def lift(self, name: str) -> None:
        """Remove the refusal of an upload, if there is one."""
        REFUSALS.lift(self._refused(name))

    def _read_all(self) -> list[Receipt | LostReceipt]:
        names = (path.name for path in listed_folder(self._folder))
        marked = self._marked()
        numbers = {int(match[1]) for match in map(_NUMBER.fullmatch, names) if match}.union(marked)
        self._last = max((*numbers, self._announced()), default=0)
        known: list[Receipt | LostReceipt] = []
        for before, number in pairwise([0, *sorted(numbers | {self._last})]):
            # Of many that are missing one is enough: a damaged number may be very large.
            first = before + 1 if number - before <= _MOST_MISSING else number - 1
            known += [self._entry(each, marked) for each in range(first, number)]
            known += [self._entry(number, marked)] if number else []
        return known

    def _entry(self, number: int, marked: dict[int, set[str]]) -> Receipt | LostReceipt:
        try:
            return self._read(number)
        except FormatError as error:
            found = (marked or self._marked()).get(number) or self._versions_with(number)
            return LostReceipt(number, error, frozenset(found) or None)

    def _announced(self) -> int:
        # Here only a witness of receipts that are lost: who sends events is told of its damage.
        with suppress(FormatError):
            return announced_number(self._dataset)
        return 0

    def _marked(self) -> dict[int, set[str]]:
        """Return the number of each receipt that was there → its interval."""
        found: dict[int, set[str]] = {}
        for path in listed_folder(self._folder / _INTERVALS):
            if match := _OF_INTERVAL.fullmatch(path.name):
                found.setdefault(int(match[1]), set()).add(match[2])
        return found

    def _mark(self, receipt: Receipt) -> None:
        path = self._folder / _INTERVALS / f"{receipt.number:08d}.{receipt.interval}"
        posix.make_public_dir(path.parent)
        posix.create_exclusive(path, b"", is_public=True)

    def _versions_with(self, number: int) -> set[str]:
        """Return the intervals with a version that has the upload with this number."""
        return {
            interval
            for interval in self._dataset.intervals()
            for generation in self._dataset.generations(interval)
            if any(each[0] == number for each in uploads_of(self._dataset, interval, generation))
        }

    def _read(self, number: int) -> Receipt:
        path = self._path(number)
        if (found := RECEIPTS.read(path, number=number)) is None:
            raise _missing(path, f"number {number}")
        return found

    def _path(self, number: int) -> Path:
        return self._folder / f"{number:08d}.json"

    def _refused(self, name: str) -> Path:
        # A digest, because names of uploads may be longer than a name of a file, or not printable.
        digest = hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()
        return self._folder / _REFUSED / f"{digest[:32]}.json"


def uploads_of(folder: DatasetFolder, interval: str, generation: int) -> list[tuple[int, str]]:
    """Return number and name of the uploads of a version; none if its manifest is damaged."""
    try:
        manifest, _ = Manifest.read(folder.version(interval, generation))
        files: Sequence[dict[str, object]] = manifest.uploads.get("files", [])
        return [(int(str(each["number"])), str(each["name"])) for each in files]
    except (FormatError, NotFoundError, KeyError, ValueError):
        return []


def _missing(path: Path, what: str) -> FormatError:
    return FormatError(
        f"expected the receipts of uploads without a gap, {what} is missing; nothing was changed;"
        " bring the file back from a backup",
        path=str(path),
    )


@dataclass(frozen=True)
class _Announced:
    """The number of the last receipt that an event was sent for."""

    number: int

    def require_sound(self) -> None:
        """Refuse a number that no receipt has."""
        if self.number < 0:
            raise ValueError(f"number: got {self.number}")


_ANNOUNCEMENTS: Final = _UploadFile(
    _Announced,
    "the number of the last receipt with an event",
    "no receipt was changed; bring the folder of receipts back from a backup, or remove this file:"
    " the next run sends an event for all receipts once more",
    follow=True,
    format=1,
    check=_Announced.require_sound,
)


def announced_number(folder: DatasetFolder) -> int:
    """Return the number of the last receipt that an event was sent for; 0 if there was none.

    Raises:
        FormatError: The file is damaged.
        StorageError: The publication root refused or failed.
    """
    found = _ANNOUNCEMENTS.read(announced_path(folder))
    return 0 if found is None else found.number


def announced_path(folder: DatasetFolder) -> Path:
    """Return the file with that number."""
    return folder.receipts / _ANNOUNCED


# --- Which receipts an asset event has been sent for: one number, beside the receipts


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
        _ANNOUNCEMENTS.replace(announced_path(folder), _Announced(number))
