"""Uploads as files: found, opened, copied for the check, and read strictly as rows of labels."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

from trainfeed.core import canonical_json, faults
from trainfeed.core.intervals import Schedule
from trainfeed.core.reading_rules import NEWEST, ReadingRules
from trainfeed.errors import (
    AccessDeniedError,
    ConfigError,
    FormatError,
    NotFoundError,
    SampleShapeError,
    WindowError,
)
from trainfeed.files import (
    UnfinishedFile,
    claim_name,
    make_folders,
    open_plain,
    os_errors,
    plain_size,
    unfinished_name,
    write_all,
)
from trainfeed.files.stores import posix
from trainfeed.samples import Schema, TypedCodec
from trainfeed.specification import DatasetSpec
from trainfeed.uploads.receipts import ReceiptBook, Seen
from trainfeed.versions.layout import DatasetFolder

# --- Reads an upload strictly, as rows of the key and label fields of a data set

# Suffix of a name → kind of the file.
KINDS: Final[Mapping[str, str]] = {".csv": "csv", ".jsonl": "jsonl", ".parquet": "parquet"}


@dataclass(frozen=True)
class LabelFields:
    """The fields of an upload.

    Attributes:
        key: Fields that identify a sample; none is optional.
        labels: Fields that the upload gives.
    """

    key: Schema
    labels: Schema

    @classmethod
    def of(cls, spec: DatasetSpec) -> LabelFields:
        """Return the fields that a specification names.

        Raises:
            ConfigError: The data set has no part ``uploads``.
        """
        if spec.uploads is None:
            raise ConfigError(
                f"data set {spec.name!r} takes no uploads; add the part uploads to dataset.yaml"
            )
        known = {field["name"]: field for field in spec.schema_fields()}
        key, labels = (
            Schema.from_json([known[name] for name in names])
            for names in (spec.uploads.key, spec.uploads.labels)
        )
        return cls(key, labels)

    def digest(self) -> str:
        """Return the digest of all fields: files of equal bytes are read alike under equal ones."""
        return canonical_json.sha256_of([self.key.to_json(), self.labels.to_json()])


def iter_rows(
    path: Path, kind: str, fields: LabelFields, rules: ReadingRules = NEWEST
) -> Iterator[dict[str, Any]]:
    """Yield the rows of an upload in the form of ``TypedCodec.decode``.

    Args:
        path: The file; its name tells nothing.
        kind: csv (commas, a header), jsonl or parquet.
        fields: The fields; a file has all of them but absent optional ones, and no others.
        rules: The rules by which values are read.

    Raises:
        FormatError: A row does not match; the message has the row or line, and the field.
        StorageError: The file cannot be read.
    """
    # Every planner imports this module, and few data sets have uploads.
    from trainfeed.conversion.csv_files import CsvOptions, read_csv
    from trainfeed.conversion.json_lines import read_json_lines

    schema = Schema((*fields.key, *fields.labels))
    rows: Iterator[dict[str, Any]]
    match kind:
        case "csv":
            rows = read_csv(path, schema, options=CsvOptions(delimiter=",", rules=rules))
        case "jsonl":
            rows = read_json_lines(path, schema, rules=rules)
        case _:
            rows = _parquet(path, schema, rules)
    texts = [field.name for field in schema if field.dtype == "str"]
    keys = [field.name for field in fields.key if field.is_text]
    for number, row in enumerate(rows, 1):
        _require_text(row, texts, keys, number)
        yield row


def _parquet(path: Path, schema: Schema, rules: ReadingRules) -> Iterator[dict[str, Any]]:
    from trainfeed.conversion.arrow import open_parquet
    from trainfeed.conversion.json_lines import require_kept

    codec, number = TypedCodec(schema), 0
    try:
        with open_parquet(path) as table:
            if rules is not ReadingRules.GUESSED:
                table.require_no_times(schema)
            for row in table.iter_samples():
                number += 1
                if rules is not ReadingRules.GUESSED:
                    require_kept(schema, row)
                yield codec.decode(codec.encode(row))
    except (ConfigError, SampleShapeError) as error:
        place = f"row {number}: " if isinstance(error, SampleShapeError) else ""
        raise FormatError(f"{place}{error}", path=str(path)) from error


def _require_text(row: Mapping[str, Any], texts: list[str], keys: list[str], number: int) -> None:
    for name in texts:
        if row[name] is not None and "\0" in row[name]:
            raise FormatError(f"row {number}: field {name!r}: expected text without NUL")
    for name in keys:
        if not row[name]:
            raise FormatError(f"row {number}: field {name!r}: expected a key, got an empty one")


# --- Finds and opens the files that people have put into the folder of uploads

_UNFINISHED_STARTS: Final = (".", "_")
_UNFINISHED_ENDS: Final = (".tmp", "~")
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Errnos of opening a link or a file as a folder.
_NO_FOLDER: Final = frozenset({errno.ENOTDIR, errno.ELOOP})


@dataclass(frozen=True)
class UploadFile:
    """A file in the folder of uploads.

    Attributes:
        path: Path of the file.
        name: ``<interval>/<file>`` below the folder; bytes that are no UTF-8 are escaped.
    """

    path: Path
    name: str

    @property
    def interval(self) -> str:
        """Name of the folder that the file is in; empty for a file beside these folders."""
        head, _, _ = self.name.rpartition("/")
        return head

    @property
    def kind(self) -> str | None:
        """Format of the file by its suffix; None for another suffix."""
        return KINDS.get(self.path.suffix)


def found_uploads(folder: DatasetFolder, intervals: Collection[str] | None) -> Iterator[UploadFile]:
    """Yield the finished files of uploads, and whatever else stands in their place.

    Args:
        folder: The data set.
        intervals: Names of the intervals to look at; None for all, and files outside of them.

    Yields:
        Files in order of the UTF-8 bytes of their names. Unfinished files are left out.

    Raises:
        FormatError: The folder of uploads is a link or a file.
        StorageError: A folder cannot be listed.
    """
    found = [
        path
        for name in _names(folder.uploads, folder.uploads)
        if intervals is None or name in intervals
        for path in _files(folder.uploads, folder.uploads / name)
    ]
    files = (UploadFile(path, _name(path.relative_to(folder.uploads))) for path in found)
    yield from sorted(files, key=lambda file: file.name.encode())


@contextmanager
def open_upload(folder: DatasetFolder, path: Path) -> Iterator[BinaryIO]:
    """Open a file of uploads for reading, and close it at the end; no link is followed.

    Args:
        folder: The data set.
        path: Path of a file in the folder of uploads, or in a folder in it.

    Raises:
        NotFoundError: Nothing has the name.
        FormatError: The file is no plain one, or a folder is a link or a file.
        StorageError: The file system refused or failed.
    """
    with (
        _opened(folder.uploads, path.parent) as above,
        open_plain(path, follow=False, above=above) as stream,
    ):
        yield stream


def opened_folder(folder: DatasetFolder, place: Path) -> AbstractContextManager[int]:
    """Open the folder of uploads, or a folder in it, and yield its descriptor; no link is followed.

    Raises:
        NotFoundError: There is none.
        FormatError: It is a link or a file.
        StorageError: The file system refused or failed.
    """
    return _opened(folder.uploads, place)


def require_upload(file: UploadFile, schedule: Schedule) -> str:
    """Return the kind of a file that may be an upload.

    Raises:
        FormatError: The file lies in no folder of an interval, has another suffix, or a name with
            characters that are not printable.
    """
    if not file.name.isprintable() or "\\x" in file.name:
        raise FormatError(
            "expected a name of printable characters in UTF-8; rename the file", path=file.name
        )
    try:
        schedule.interval_named(file.interval)
    except WindowError as error:
        raise FormatError(
            f"expected the file in a folder with the name of its interval: {error}; move the file"
        ) from error
    if file.kind is None:
        raise FormatError(f"expected a name with one of {', '.join(KINDS)}; rename the file")
    return file.kind


def seen_of(fd: int) -> Seen:
    """Return the state of an open file."""
    found = os.fstat(fd)
    return Seen(found.st_size, found.st_mtime_ns, found.st_ino)


def _is_unfinished(name: str) -> bool:
    return name.startswith(_UNFINISHED_STARTS) or name.endswith(_UNFINISHED_ENDS)


def _files(uploads: Path, path: Path) -> list[Path]:
    try:
        return [path / name for name in _names(uploads, path)]
    except FormatError:
        return [path]  # a file or a link; the check refuses it


def _names(uploads: Path, folder: Path) -> list[str]:
    """Return the finished names in a folder; none for a missing folder."""
    try:
        with _opened(uploads, folder) as fd, os_errors(folder):
            names = os.listdir(fd)  # noqa: PTH208 (a path has no listing by descriptor)
    except NotFoundError:
        return []
    return [name for name in names if not _is_unfinished(name)]


@contextmanager
def _opened(uploads: Path, folder: Path) -> Iterator[int]:
    """Open the folder of uploads, or a folder in it; yield its descriptor."""
    with ExitStack() as stack:
        fd = _folder_fd(uploads, None)
        stack.callback(os.close, fd)
        if folder != uploads:
            fd = _folder_fd(folder, fd)
            stack.callback(os.close, fd)
        yield fd


def _folder_fd(folder: Path, above: int | None) -> int:
    with os_errors(folder):
        try:
            return os.open(folder if above is None else folder.name, _FOLDER, dir_fd=above)
        except OSError as error:
            if error.errno not in _NO_FOLDER:
                raise
            raise FormatError(
                "expected a folder of uploads, got a link or a file; nothing below was read; put a"
                " folder in its place",
                path=str(folder),
            ) from error


def _name(path: Path) -> str:
    return os.fsencode(path).decode("utf-8", "backslashreplace")


# --- Private copies of uploads: the bytes that are checked are those that are kept

_BLOCK_BYTES: Final = 1 << 20
_PRIVATE_MODE: Final = 0o600
# That of receipts: builds may run under another account than the check.
_KEPT_MODE: Final = 0o644
_BINARY: Final = frozenset({"parquet"})
_LINE_ENDS: Final = (b"\n", b"\r")


@dataclass(frozen=True)
class UploadCopy:
    """A copy of an upload that only the account of the check can read.

    Attributes:
        path: Path of the copy.
        sha256: SHA-256 of the bytes, in hex.
        file: The copy, durable, until it is kept or dropped.
    """

    path: Path
    sha256: str
    file: UnfinishedFile

    def keep(self, path: Path) -> None:
        """Give the copy its name by digest, readable for all; an equal file of that name stays."""
        posix.make_public_dir(path.parent)
        self.file.set_mode(_KEPT_MODE)
        self.file.sync()
        with os_errors(path):
            claim_name(self.path, path)
        posix.sync_dir(path.parent)
        faults.point("uploads.after_content")


@contextmanager
def copied(place: Path, stream: BinaryIO, kind: str, max_bytes: int) -> Iterator[UploadCopy]:
    """Yield a private copy of a file; the copy is removed at the end.

    Args:
        place: Folder of the copy, on the file system of the publication root.
        stream: The file.
        kind: csv, jsonl or parquet.
        max_bytes: Size of the largest file.

    Raises:
        FormatError: The file is larger, or is text with a NUL or an unfinished last line.
        StorageError: The file system refused or failed.
    """
    with posix.map_errors(place):
        make_folders(place)
    path = place / unfinished_name("upload")
    with UnfinishedFile(path, unfinished=path, mode=_PRIVATE_MODE) as new:
        sha256 = _copy(stream, new.file, max_bytes, is_text=kind not in _BINARY)
        new.sync()
        faults.point("uploads.after_copy")
        yield UploadCopy(path, sha256, new)


def _copy(stream: BinaryIO, target: BinaryIO, max_bytes: int, *, is_text: bool) -> str:
    digest, num_bytes, last = hashlib.sha256(), 0, b""
    plain_size(stream.fileno(), None)
    while block := stream.read(_BLOCK_BYTES):
        if is_text and (place := block.find(b"\0")) >= 0:
            raise FormatError(f"expected text, got a NUL at byte {num_bytes + place}")
        num_bytes += len(block)
        if num_bytes > max_bytes:
            raise FormatError(
                f"expected at most uploads.max_file_bytes = {max_bytes} bytes, got more;"
                " divide the file, or raise it in dataset.yaml"
            )
        digest.update(block)
        write_all(target, block)
        last = block[-1:]
    if is_text and last and last not in _LINE_ENDS:
        raise FormatError(
            f"expected a newline at the end of the last line, got none behind {num_bytes} bytes;"
            " the file may be cut, and its last value with it: copy it again, or end its last line"
        )
    return digest.hexdigest()


# --- The first of two looks at uploads, for checks that run by themselves


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
