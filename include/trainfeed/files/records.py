"""Small JSON files that each hold one fact: typed, sealed, and compared with their path.

A kind of such files is one ``RecordFile``, which reads, checks, writes and removes them. A file
ends with its own digest (``canonical_json.seal``), so that damage is never taken for a fact::

    SKIPS = RecordFile(Skip, "the marker of a skipped interval", "nothing was changed; remove it")
    SKIPS.write_once(path, Skip(interval="2024-03-01", why="no logs", at="2024-03-02T00:00:00Z"))
    SKIPS.read(path, interval="2024-03-01")

A seal alone does not show that a whole file was put in the place of another one. ``read`` therefore
compares members with what the path says, and readers compare the content with what else knows it.

Some kinds had no seal at first (``ONCE_UNSEALED``). The mark of a publication root lists the
unsealed files that the root had when it was first written to by a trainfeed that seals, with their
digests. In such a root any other unsealed file is damage, so a seal cannot be taken away. Files
below a root whose mark has no list yet, or below no root, may be unsealed.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import (
    Any,
    Final,
    Generic,
    TypeAlias,
    TypeVar,
    cast,
    get_args,
    get_type_hints,
)

from trainfeed.core import canonical_json
from trainfeed.core.thread_ties import new_lock
from trainfeed.errors import ConfigError, FormatError, NotFoundError
from trainfeed.files import listed, listed_folder, read_plain
from trainfeed.files.stores import posix

T = TypeVar("T")

ROOT_MARK_FILE: Final = "TRAINFEED.json"
# Kinds whose files once had no seal: their paths in a publication root.
ONCE_UNSEALED: Final = {
    "plan": "*/plans/*/*-g*.json",
    "boundary": "*/boundaries/*/*/*Z.json",
    "schedule": "*/SCHEDULE.json",
    "skip": "*/plans/*/SKIPPED.json",
    "unpublished": "*/unpublished/*.json",
    "alias": "models/*/aliases/*/*.json",
    "mark of a training": "*/training/_marks/*.announced",
    "mark of no training": "*/training/_marks/*.declined",
    "begin of trainings": "*/training/_marks/since.json",
    "job": "*/training/*/*/job.json",
    "job of an evaluation": "*/training/*/*/*/*/job.json",
    "gate of a training": "*/training/*/*/gate.json",
    "result": "*/training/*/*/result.json",
    "note of an attempt": "*/training/*/*/attempts/*.json",
    "result of an evaluation": "*/training/*/*/*/*/result.json",
}

_MAX_BYTES: Final = 64 << 10
_SHOWN: Final = 300
_NUMBERED: Final = re.compile(r"([0-9]{4,})\.json")


Time: TypeAlias = canonical_json.Time


@dataclass(frozen=True)
class RecordFile(Generic[T]):
    """One kind of small JSON files.

    Attributes:
        type: A dataclass. Its members are checked strictly; unknown members of a file, which a
            later trainfeed may have added, are ignored. Or ``dict``, for a JSON object as it is.
        what: What the file should be, for messages.
        remedy: What was kept, and what to do about a damaged file, likewise.
        mode: Permissions, which the umask reduces; None for a file that every account may read.
        max_bytes: Length up to which a file is read.
        place: Path of the files in a publication root, a value of ``ONCE_UNSEALED``; None for a
            kind that always had a seal.
        follow: Whether a symbolic link at the path of a file is followed.
        format: Number that files have as the member ``format``; None for a kind without one.
        to_json: Returns the JSON of a record; by default ``canonical_json.json_value``, so that of
            ``JsonFields`` or the members of the dataclass.
        from_json: Returns the record of parsed JSON; by default ``record_of``. Raises
            ``ValueError``, ``TypeError``, ``KeyError`` or a ``FormatError`` for other values.
        check: Raises one of these for a record whose types are right, and which is wrong.
    """

    type: type[T]
    what: str
    remedy: str
    mode: int | None = None
    max_bytes: int = _MAX_BYTES
    place: str | None = None
    follow: bool = False
    format: int | None = None
    to_json: Callable[[T], Any] | None = None
    from_json: Callable[[Any], T] | None = None
    check: Callable[[T], object] | None = None

    def read(self, path: Path, **expected: object) -> T | None:
        """Return the record of a file, or None if there is no such file.

        Args:
            path: The file.
            **expected: Members, and the values that they must have here, as the path has them. A
                member that is None, because the file is older than the member, is not compared.

        Raises:
            FormatError: The file is damaged, too large, or of another path.
            StorageError: The file system refused or failed.
        """
        try:
            data = read_plain(path, follow=self.follow, max_bytes=self.max_bytes)
        except NotFoundError:
            return None
        except FormatError as error:
            raise self._damaged(path, error) from error
        return self.parse(data, path, **expected)

    def parse(self, data: bytes, path: Path | str, **expected: object) -> T:
        """Return the record in the content of a file, or of an object of a store; see ``read``."""
        try:
            self._require_sealed(data, path)
            value = canonical_json.loads(data, path=str(path))
            record = self._record(value)
            for name, wanted in expected.items():
                found = record.get(name) if isinstance(record, dict) else getattr(record, name)
                if found not in (wanted, None):
                    raise ValueError(f"{name}: expected {wanted!r}, got {found!r}")  # noqa: TRY301
        except (
            AttributeError,
            ConfigError,
            FormatError,
            KeyError,
            TypeError,
            ValueError,
        ) as error:
            raise self._damaged(path, error) from error
        return record

    def dumps(self, record: T) -> bytes:
        """Return the content of a file: canonical JSON that ends with its own digest."""
        value = dict((self.to_json or canonical_json.json_value)(record))
        if self.format is not None:
            value["format"] = self.format
        return canonical_json.seal(canonical_json.dumps(value).removesuffix(b"}"))

    def write_once(self, path: Path, record: T) -> bool:
        """Write a record durably, unless the name is taken; its folder is made.

        Returns:
            Whether this call wrote the file.

        Raises:
            StorageError: The file system refused or failed.
        """
        posix.make_public_dir(path.parent)
        return posix.create_exclusive(path, self.dumps(record), **self._access)

    def replace(self, path: Path, record: T) -> None:
        """Write a record durably in place of an earlier one, unless the file has that content.

        Raises:
            StorageError: The file system refused or failed. The file is the old one, or absent.
        """
        data = self.dumps(record)
        with suppress(FormatError, NotFoundError):
            if read_plain(path, follow=self.follow, max_bytes=self.max_bytes) == data:
                return
        posix.make_public_dir(path.parent)
        posix.replace_file(path, data, **self._access)

    def lift(self, path: Path) -> bool:
        """Remove a record durably; return whether there was one.

        Raises:
            StorageError: The file system refused or failed.
        """
        with posix.map_errors(path), suppress(FileNotFoundError):
            path.unlink()
            posix.sync_dir(path.parent)
            return True
        return False

    def numbered(self, folder: Path, **expected: object) -> list[tuple[int, T]]:
        """Return the records ``0001.json``, ``0002.json`` … of a folder with their numbers.

        A record that has a member ``number`` must have that of its file, or None.

        Raises:
            FormatError: A file is damaged, or one is missing: below the largest number, or the
                last one that ``append`` has confirmed.
            StorageError: The file system refused or failed.
        """
        matches = (_NUMBERED.fullmatch(path.name) for path in listed_folder(folder))
        numbers = {int(match[1]) for match in matches if match}
        last = max([*numbers, self.confirmed(folder)])
        found = []
        for number in range(1, last + 1):
            path = folder / f"{number:04d}.json"
            if (record := self.read(path, **expected)) is None:
                raise self._damaged(path, f"the file is missing, of {last} files up to {last:04d}")
            if getattr(record, "number", number) not in (number, None):
                raise self._damaged(path, "it has another number")
            found.append((number, record))
        return found

    def append(self, folder: Path, number: int, record: T) -> bool:
        """Write the record after those that ``numbered`` has returned, and confirm its number.

        Args:
            folder: The folder of the records.
            number: The number, one above the largest.
            record: The record.

        Returns:
            Whether this call wrote the file; False if another one was faster.

        Raises:
            StorageError: The file system refused or failed.
        """
        is_ours = self.write_once(folder / f"{number:04d}.json", record)
        self.confirm(folder, number)
        return is_ours

    def confirm(self, folder: Path, number: int) -> None:
        """Write down that a record has been there, so that its loss is noticed.

        A process that is killed between a record and its confirmation leaves a number that is too
        small; callers confirm what they find when they have nothing to add.

        Raises:
            StorageError: The file system refused or failed.
        """
        with suppress(FormatError):
            if self.confirmed(folder) >= number:
                return
        _CONFIRMED.replace(folder / _CONFIRMED_NAME, _Confirmed(number))

    def confirmed(self, folder: Path) -> int:
        """Return the largest number that was confirmed in a folder, 0 if none was.

        Raises:
            FormatError: The file with the number is damaged.
            StorageError: The file system refused or failed.
        """
        found = _CONFIRMED.read(folder / _CONFIRMED_NAME)
        return 0 if found is None else found.number

    def _require_sealed(self, data: bytes, path: Path | str) -> None:
        try:
            canonical_json.require_intact(data, path=str(path))
        except FormatError:
            # The unsealed form is one line; a damaged seal still has its own line.
            if self.place is None or b"\n" in data or not self._may_be_unsealed(data, Path(path)):
                raise

    def _may_be_unsealed(self, data: bytes, path: Path) -> bool:
        # Folders of dry runs have links to the files of the real root.
        path = Path(os.path.realpath(path)) if self.follow else path.absolute()
        for root in path.parents:
            if (mark := ROOT_MARKS.read(root / ROOT_MARK_FILE)) is not None:
                known = mark.unsealed
                name = path.relative_to(root).as_posix()
                return known is None or known.get(name) == hashlib.sha256(data).hexdigest()
        return True

    def _damaged(self, path: Path | str, why: object) -> FormatError:
        # The place stands at the end of the message, once.
        text = why.args[0] if isinstance(why, FormatError) else str(why)
        short = text if len(text) <= _SHOWN else text[:_SHOWN] + " …"
        return FormatError(f"expected {self.what}: {short}; {self.remedy}", path=str(path))

    def _record(self, value: dict[str, Any]) -> T:
        value.pop("digest", None)
        if self.format is not None and (found := value.pop("format")) != self.format:
            raise ValueError(f"expected format {self.format}, got {found!r} of another trainfeed")
        if self.from_json is not None:
            record = self.from_json(value)
        else:
            left_out = canonical_json.left_out(self.type)
            known = {name: each for name, each in value.items() if name not in left_out}
            record = record_of(self.type, known)
        if self.check is not None:
            self.check(record)
        return record

    @cached_property
    def _access(self) -> dict[str, Any]:
        return {"is_public": True} if self.mode is None else {"mode": self.mode}


def record_of(kind: type[T], value: Any) -> T:
    """Return the record of parsed JSON, such as a part of another file; its types are checked.

    Raises:
        ValueError, WindowError: It is something else.
    """
    adapter: Callable[[Any], T] = _adapter(cast("Hashable", kind))
    return adapter(value)


_KNOWING: Final = new_lock()


@cache
def _adapter(kind: Any) -> Callable[[Any], Any]:
    # On demand: commands that read no such file start faster.
    from msgspec import convert
    from msgspec.json import Decoder

    from trainfeed.core.intervals import parse_time

    # What msgspec knows of a class is on the class before it is complete: a second thread that
    # converts meanwhile ends by SIGSEGV. A decoder completes it, with all classes of its fields.
    with _KNOWING:
        Decoder(kind)

    hints = get_type_hints(kind, include_extras=True)
    times = [name for name, hint in hints.items() if Time in (hint, *get_args(hint))]

    def checked(value: Any) -> Any:
        record = convert(value, kind)
        for name in times:
            if (time := getattr(record, name)) is not None:
                parse_time(time)
        return record

    return checked


@dataclass(frozen=True)
class _Confirmed:
    """The number of the last record of a folder, in a file of its own."""

    number: int


_CONFIRMED_NAME: Final = "LAST.json"
_CONFIRMED: Final = RecordFile(
    _Confirmed,
    "the number of the last record of the folder",
    "nothing was changed; bring the file back from a backup, or remove it",
)


@dataclass(frozen=True)
class RootMark:
    """The content of the marker file of a publication root.

    Attributes:
        id: A UUID, which stays the same wherever the root is mounted.
        made_at: When ``init_root`` made the root, ISO 8601 in UTC.
        made_by: Name of the account that made it, or its number.
        unsealed: Path in the root → SHA-256 of the files without a seal that were there when the
            mark was sealed; None for a mark that is not sealed yet.
        format: 1.
    """

    id: str
    made_at: str
    made_by: str
    unsealed: dict[str, str] | None = field(default=None, repr=False)
    format: int = 1


def _mark_from_json(value: Any) -> RootMark:
    unsealed = value.get("unsealed")
    mark = RootMark(value["id"], value["made_at"], value["made_by"], unsealed)
    listed = [] if unsealed is None else [*unsealed, *unsealed.values()]
    texts = [mark.id, mark.made_at, mark.made_by, *listed]
    if value["format"] != 1 or not all(isinstance(text, str) and text for text in texts):
        raise ValueError(f"got {str(value)[:100]}")
    return mark


class _RootMarks(RecordFile[RootMark]):
    """The marks of roots. A mark with a list is sealed; one without has never been."""

    def _require_sealed(self, data: bytes, path: Path | str) -> None:
        if b"\n" in data or b'"unsealed"' in data:
            canonical_json.require_intact(data, path=str(path))


ROOT_MARKS: Final = _RootMarks(
    RootMark,
    "the mark of a publication root, of format 1 with id, made_at and made_by",
    "nothing was changed; the file was damaged, or is of a newer trainfeed: use that one, or bring"
    " the file back",
    max_bytes=canonical_json.MAX_BYTES,
    from_json=_mark_from_json,
)


def unsealed_files(root: Path) -> dict[str, str]:
    """Return path and SHA-256 of the unsealed files of a root, for its mark.

    Raises:
        StorageError: A folder or a file cannot be read by this account.
    """
    found = {}
    for place in ONCE_UNSEALED.values():
        for path in _matching(root, place.split("/")):
            with suppress(FormatError, NotFoundError):
                data = read_plain(path, follow=False, max_bytes=canonical_json.MAX_BYTES)
                # A file of several lines has a seal, which its readers check.
                if b"\n" not in data:
                    found[path.relative_to(root).as_posix()] = hashlib.sha256(data).hexdigest()
    return found


def _matching(folder: Path, parts: Sequence[str]) -> Iterator[Path]:
    name, *below = parts
    paths = listed(folder, name) if "*" in name else [folder / name]
    for path in paths:
        # Neither locks and unfinished files, nor what the file system keeps, such as lost+found.
        if path.name.startswith(".") or "+" in path.name or path.is_symlink():
            continue
        if not below:
            yield path
        elif path.is_dir():
            yield from _matching(path, below)
