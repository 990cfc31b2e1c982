"""The receipts of a data set: a numbered list of accepted and refused uploads, sealed."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from trainfeed.core import canonical_json, faults
from trainfeed.errors import ChecksumError, FormatError, NotFoundError
from trainfeed.files import is_there, listed, listed_folder, read_plain
from trainfeed.files.stores import posix
from trainfeed.versions import Manifest
from trainfeed.versions.layout import DatasetFolder

# --- Receipts of accepted uploads, and refusals of the others: sealed JSON, one file each

_FORMAT: Final = 1
_TYPES: Final = {"int": int, "str": str}
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


_REMEDIES: Final[Mapping[type[Receipt] | type[Refusal], str]] = {
    Receipt: "nothing was changed; bring the file back from a backup",
    Refusal: "nothing was changed; remove the file: the next check reads the upload again",
}


def to_sealed(value: Receipt | Refusal) -> bytes:
    """Return the file of a receipt or refusal."""
    body = canonical_json.dumps({"format": _FORMAT, **asdict(value)})
    return canonical_json.seal(body.removesuffix(b"}") + b"\n}\n")


def from_sealed(kind: type[Receipt] | type[Refusal], data: bytes, *, path: str) -> Any:
    """Read the file of a receipt or refusal; returns an object of ``kind``.

    Raises:
        ChecksumError: The file was changed.
        FormatError: The file is of another kind, or of a later trainfeed.
    """
    what = f"expected the {kind.__name__.lower()} of an upload"
    try:
        canonical_json.require_intact(data, path=path)
    except ChecksumError as error:
        raise ChecksumError(f"{what}: {error.args[0]}; {_REMEDIES[kind]}", path=path) from error
    found = canonical_json.loads(data, path=path)
    try:
        return _of_json(kind, found)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise FormatError(f"{what}, got {error!r}; {_REMEDIES[kind]}", path=path) from error


def _of_json(kind: type[Receipt] | type[Refusal], found: Mapping[str, Any]) -> Receipt | Refusal:
    if found["format"] != _FORMAT:
        raise ValueError(f"format {found['format']!r} of a later trainfeed")
    values = {each.name: _typed(found[each.name], each.type) for each in fields(kind)}
    seen = values["seen"]
    if seen is not None:
        values["seen"] = Seen(
            **{each.name: _typed(seen[each.name], "int") for each in fields(Seen)}
        )
    made = kind(**values)
    if isinstance(made, Receipt) and not _is_sound(made):
        raise ValueError("a name, kind or digest that no upload has")
    return made


def _typed(value: Any, kind: object) -> Any:
    """Return a value if it has the type that a field is annotated with."""
    if kind in _TYPES and type(value) is not _TYPES[str(kind)]:
        raise TypeError(f"{value!r:.60} in place of {kind}")
    return value


def _is_sound(receipt: Receipt) -> bool:
    # The name and the digest become parts of paths.
    parts = receipt.name.split("/")
    return (
        len(parts) == 2
        and not {"", ".", ".."}.intersection(parts)
        and receipt.kind in _KINDS
        and _DIGEST.fullmatch(receipt.sha256) is not None
        and receipt.number > 0
    )


# --- The receipts of a data set: a numbered list to which files are added, and never removed

# Missing receipts in a row that are each looked for in versions.
_MOST_MISSING: Final = 100
_MAX_BYTES: Final = 64 << 10
_NUMBER: Final = re.compile(r"([0-9]{8})\.json")
_REFUSED: Final = "refused"
_CONTENT: Final = "content"
_ANNOUNCED: Final = "announced.json"
_ANNOUNCED_FORMAT: Final = 1
_MOST_ANNOUNCED: Final = 4 << 10
_ANNOUNCED_REMEDY: Final = (
    "no receipt was changed; bring the folder of receipts back from a backup, or remove this file:"
    " the next run sends an event for all receipts once more"
)
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
        posix.make_public_dir(self._folder)
        while True:
            found = self.receipt(receipt.name)
            if found is not None:
                return found, False
            numbered = replace(receipt, number=self._last + 1)
            if posix.create_exclusive(
                self._path(numbered.number), to_sealed(numbered), is_public=True
            ):
                faults.point("uploads.after_receipt")
                self._mark(numbered)
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
        try:
            data = read_plain(path, follow=True, max_bytes=_MAX_BYTES)
        except NotFoundError as error:
            raise _missing(path, f"number {number}") from error
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


def _refusal(path: Path) -> Refusal:
    data = read_plain(path, follow=True, max_bytes=_MAX_BYTES)
    found: Refusal = from_sealed(Refusal, data, path=str(path))
    return found


def announced_number(folder: DatasetFolder) -> int:
    """Return the number of the last receipt that an event was sent for; 0 if there was none.

    Raises:
        FormatError: The file is damaged.
        StorageError: The publication root refused or failed.
    """
    path = announced_path(folder)
    try:
        data = read_plain(path, follow=True, max_bytes=_MOST_ANNOUNCED)
    except NotFoundError:
        return 0
    try:
        canonical_json.require_intact(data, path=str(path))
        found = canonical_json.loads(data, path=str(path))
    except ChecksumError as error:
        raise ChecksumError(f"{error.args[0]}; {_ANNOUNCED_REMEDY}", path=str(path)) from error
    number = found.get("number")
    if found.get("format") != _ANNOUNCED_FORMAT or type(number) is not int or number < 0:
        raise FormatError(
            f"expected the number of the last receipt with an event, got {found!r:.100};"
            f" {_ANNOUNCED_REMEDY}",
            path=str(path),
        )
    return number


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
        text = canonical_json.dumps({"format": _FORMAT, "number": number})
        data = canonical_json.seal(text.removesuffix(b"}") + b"\n}\n")
        posix.replace_file(announced_path(folder), data, is_public=True)
