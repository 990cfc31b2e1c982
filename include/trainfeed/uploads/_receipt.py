"""Receipts of accepted uploads, and refusals of the others: sealed JSON, one file each."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Final

from trainfeed import canonical_json
from trainfeed.errors import ChecksumError, FormatError

__all__ = ["Receipt", "Refusal", "Seen", "from_sealed", "to_sealed"]

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
