"""Quarantined bytes of published versions: private files, strict and audited access."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, cast

import pyarrow as pa

from trainfeed.core import faults
from trainfeed.core.accounts import account_name
from trainfeed.core.intervals import format_time
from trainfeed.core.printable_text import printable
from trainfeed.errors import AccessDeniedError, NotFoundError
from trainfeed.files import is_there, open_plain
from trainfeed.files.stores import posix
from trainfeed.pipeline.quarantine import (
    Quarantine,
    QuarantinedPlace,
    QuarantinedRecord,
    damaged,
    raw_records,
)
from trainfeed.pipeline.reports import PlanRef
from trainfeed.pipeline.sorting.spill_files import QUARANTINE_SCHEMA
from trainfeed.versions import DatasetFolder, Version
from trainfeed.versions.bucket_objects import place_in_bucket

if TYPE_CHECKING:
    from io import BufferedReader


# --- Refuses files of quarantined bytes that other accounts could read, or that others have made

PRIVATE_MODE: Final = 0o600
_OF_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


def require_private(
    path: Path,
    found: os.stat_result,
    *,
    owner: Path,
    remedy: str = "compare the version (trainfeed verify)",
) -> None:
    """Refuse an open file unless only its owner has access, and the owner is the builder.

    Args:
        path: The file, for messages.
        found: Facts about the open file.
        owner: The folder whose owner must be the file's owner.
        remedy: What to do about a file of another account.

    Raises:
        AccessDeniedError: Another account has access, or owns the file.
    """
    mode = stat.S_IMODE(found.st_mode)
    if mode & _OF_OTHERS:
        raise AccessDeniedError(
            f"{path}: expected access for its owner alone, because it holds raw bytes of records,"
            f" got mode {mode:04o}; nothing was shown; find out who opened it, then: chmod"
            f" {PRIVATE_MODE:o} {path}"
        )
    with posix.map_errors(owner):
        builder = owner.stat().st_uid
    if found.st_uid != builder:
        raise AccessDeniedError(
            f"{path}: expected a file of the account that owns {owner} (uid {builder}), got one of"
            f" uid {found.st_uid}; nothing was shown; another account has put it there: {remedy}"
        )


# --- The quarantined records of a published version: ``quarantine/records.arrow``

QUARANTINE_FILE: Final = "quarantine/records.arrow"


def quarantine_of_version(version: Version) -> Quarantine:
    """Return the quarantine of a published version; nothing is read yet.

    Raises:
        NotFoundError: The version has no such file.
    """
    path = version.path / QUARANTINE_FILE
    manifest = version.manifest
    entry = manifest.file_digests().get(QUARANTINE_FILE)
    if entry is None:
        raise NotFoundError(f"version {version.name} has no file {QUARANTINE_FILE}")
    if not is_there(path) and (place := place_in_bucket(version.path)) is not None:
        raise NotFoundError(
            f"{path} is not there: a private copy of a root in a bucket goes without quarantined"
            f" records, which may be secret; they are in {place.folder.uri}; nothing was read; read"
            " them where TRAINFEED_STATE names the folder of builds"
        )
    return Quarantine(
        dataset=manifest.dataset,
        interval=version.path.parent.name,
        origin=version.path.name,
        plan=PlanRef(manifest.dataset, version.path.parent.name, manifest.plan),
        is_published=True,
        place=str(path),
        modified_ms=_modified_ms(version.path),
        _sources=tuple(manifest.sources),
        _tables=lambda columns: _tables(path, entry[1], columns),
    )


def _tables(path: Path, sha256: str, columns: Sequence[str]) -> Iterator[pa.Table]:
    with open_plain(path, follow=False) as file, _arrow_errors(path):
        require_private(path, os.fstat(file.fileno()), owner=path.parent.parent)
        # Nothing in the file itself proves an offset or a text.
        if (
            got := hashlib.file_digest(cast("BufferedReader", file), "sha256").hexdigest()
        ) != sha256:
            raise damaged(str(path), f"expected SHA-256 {sha256}, got {got}")
        schema = pa.ipc.open_file(file).schema
        if not schema.equals(QUARANTINE_SCHEMA):
            raise damaged(str(path), f"got columns {schema.names}, or of other types")
        fields = [schema.get_field_index(name) for name in columns]
        options = pa.ipc.IpcReadOptions(included_fields=fields)
        reader = pa.ipc.open_file(file, options=options)
        for number in range(reader.num_record_batches):
            batch = reader.get_batch(number)
            # The buffers come from a file: without validation, an offset that points outside of its
            # buffer would crash the process.
            batch.validate(full=True)
            yield pa.Table.from_batches([_whole(batch, path)])


def _whole(batch: pa.RecordBatch, path: Path) -> pa.RecordBatch:
    """Refuse values that are missing: a build writes none, and only the bytes may be empty."""
    for name in batch.schema.names:
        if batch[name].null_count:
            raise damaged(str(path), f"got {batch[name].null_count} records without {name}")
    return batch


@contextmanager
def _arrow_errors(path: Path) -> Iterator[None]:
    """Raise Arrow's errors about damaged bytes of a file as ``FormatError``."""
    try:
        yield
    # pyarrow raises some errors about damaged bytes as OSError without errno.
    except (pa.ArrowException, OSError, UnicodeError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise damaged(str(path), str(error)) from error


def _modified_ms(path: Path) -> int:
    with posix.map_errors(path):
        return path.stat().st_mtime_ns // 1_000_000


# --- The audit of quarantined bytes: who read how many records of which build, and when

_APPEND: Final = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_REMEDY: Final = "move it aside; its lines may still be readings"
# A line has at most six texts, beside less than 250 bytes.
_MOST_LINE_BYTES: Final = 2048
_MOST_TEXT_BYTES: Final = 250


@dataclass(frozen=True)
class Access:
    """One reading of quarantined bytes.

    Attributes:
        at: Time, UTC, to the second.
        account: Name of the account of the process.
        uid: Its number.
        host: Name of the machine.
        command: What was asked for, as ``show`` or ``preview``.
        interval: Name of the interval.
        origin: Generation, or id of the plan that is not published.
        reason: The reason that was asked for; None for all.
        records: The most records whose bytes were handed out.
    """

    at: str
    account: str
    uid: int
    host: str
    command: str
    interval: str
    origin: str
    reason: str | None
    records: int

    @classmethod
    def now(
        cls, command: str, interval: str, origin: str, *, reason: str | None, records: int
    ) -> Access:
        """Return the access of this process at this time."""
        uid = os.geteuid()
        return cls(
            at=format_time(datetime.now(UTC).replace(microsecond=0)),
            account=_short(account_name()),
            uid=uid,
            host=_short(socket.gethostname()),
            command=_short(command),
            interval=_short(interval),
            origin=_short(origin),
            reason=None if reason is None else _short(reason),
            records=records,
        )


@dataclass(frozen=True)
class DamagedLine:
    """A line of the file that is no access: torn by a kill or a full disk, too long, or changed.

    Attributes:
        number: Number of the line, from 1.
    """

    number: int


def record_access(folder: DatasetFolder, access: Access) -> None:
    """Append an access durably; if this fails, the caller hands out nothing.

    Raises:
        AccessDeniedError: The file may not be written, belongs to another account, or is not there
            yet and would belong to another account than the builder's.
        StorageError: The disk is full, or the file system refused.
    """
    path = folder.quarantine_audit
    data = json.dumps(asdict(access), ensure_ascii=True, separators=(",", ":")).encode() + b"\n"
    descriptor = _opened(path, folder)
    try:
        require_private(path, os.fstat(descriptor), owner=folder.path, remedy=_REMEDY)
        # Not every network file system appends atomically, so writers take turns.
        with posix.file_lock(path), posix.map_errors(path):
            faults.point("quarantine.before_access")
            _append(descriptor, data)
            os.fsync(descriptor)
        posix.sync_dir(path.parent)
        faults.point("quarantine.after_access")
    finally:
        os.close(descriptor)


def accesses(folder: DatasetFolder) -> Iterator[Access | DamagedLine]:
    """Yield all accesses in the order of the file, the oldest first; nothing if there is no file.

    Raises:
        AccessDeniedError: Only the account that builds may read the file.
        FormatError: The name is that of no plain file.
    """
    path = folder.quarantine_audit
    if not os.path.lexists(path):
        return
    with open_plain(path, follow=False) as file, posix.map_errors(path):
        require_private(path, os.fstat(file.fileno()), owner=folder.path, remedy=_REMEDY)
        yield from _lines(file)


def _opened(path: Path, folder: DatasetFolder) -> int:
    with posix.map_errors(path), suppress(FileNotFoundError):
        return os.open(path, _APPEND)
    # Made by another account, the file would keep the builder from reading for ever.
    with posix.map_errors(folder.path):
        builder = folder.path.stat().st_uid
    if os.geteuid() != builder:
        raise AccessDeniedError(
            f"{path}: expected the account that owns {folder.path} (uid {builder}), got uid"
            f" {os.geteuid()}, to which the file would belong, because it is not there yet; nothing"
            " was shown; run the command as that account"
        )
    with posix.map_errors(path):
        return os.open(path, _APPEND | os.O_CREAT, PRIVATE_MODE)


def _append(descriptor: int, data: bytes) -> None:
    """Write a line; one that a kill or a full disk has torn before is ended first."""
    size = os.fstat(descriptor).st_size
    if size and os.pread(descriptor, 1, size - 1) != b"\n":
        data = b"\n" + data
    while data:
        data = data[os.write(descriptor, data) :]


def _lines(file: BinaryIO) -> Iterator[Access | DamagedLine]:
    number = 0
    while line := file.readline(_MOST_LINE_BYTES):
        number += 1
        # No reading writes such a line, so it hides none.
        is_too_long = False
        while len(line) == _MOST_LINE_BYTES and not line.endswith(b"\n"):
            is_too_long, line = True, file.readline(_MOST_LINE_BYTES)
        yield DamagedLine(number) if is_too_long else _parsed(line) or DamagedLine(number)


def _parsed(line: bytes) -> Access | None:
    try:
        value = json.loads(line)
        access = Access(**value)
    except (ValueError, TypeError):
        return None
    return access if _is_typed(access) else None


def _is_typed(access: Access) -> bool:
    texts = (access.at, access.account, access.host, access.command)
    names = (access.interval, access.origin, "" if access.reason is None else access.reason)
    numbers = (access.uid, access.records)
    return all(isinstance(each, str) for each in (*texts, *names)) and all(
        type(each) is int for each in numbers
    )


def _short(text: str) -> str:
    """Return the beginning of a text that has a bounded size as JSON."""
    shown = printable(text[:_MOST_TEXT_BYTES])
    while len(json.dumps(shown)) > _MOST_TEXT_BYTES:
        shown = shown[:-1]
    return shown


# --- The one place that hands out raw bytes of quarantined records: strict, and audited


def read_raw(
    root: Path,
    quarantine: Quarantine,
    command: str,
    *,
    reason: str | None = None,
    limit: int,
) -> Iterator[QuarantinedRecord]:
    """Record the reading in the audit of the data set, then hand out records with their bytes.

    Args:
        root: The publication root.
        quarantine: The quarantine.
        command: What is asked for, for the audit: a word such as ``show``.
        reason: Only records with this reason; None for all.
        limit: The most records.

    Returns:
        The records in order of source and offset. The line of the audit is durable before this
        function returns; it has the number of records that may be read.

    Raises:
        AccessDeniedError: Only the account that builds may read them; or the audit cannot be
            written, and no byte is handed out.
        StorageError: The audit cannot be written, because the disk is full for example.
        FormatError: A file is damaged.
    """
    counts = quarantine.reasons()
    there = sum(counts.values()) if reason is None else counts.get(reason, 0)
    _record(root, quarantine, command, reason, min(limit, there))
    return islice(raw_records(quarantine, reason), limit)


def read_raw_at(
    root: Path, quarantine: Quarantine, command: str, place: QuarantinedPlace
) -> QuarantinedRecord:
    """Record the reading in the audit of the data set, then return one record with its bytes.

    Args:
        root: The publication root.
        quarantine: The quarantine.
        command: What is asked for, for the audit.
        place: The record, as ``quarantine`` yields it.

    Raises:
        AccessDeniedError: Only the account that builds may read it; or the audit cannot be written.
        StorageError: The audit cannot be written, because the disk is full for example.
        FormatError: A file is damaged.
        NotFoundError: The quarantine was written again meanwhile, without the record.
    """
    _record(root, quarantine, command, place.reason, 1)
    for record in raw_records(quarantine, place.reason):
        if (record.source, record.offset) == (place.source, place.offset):
            return record
    raise NotFoundError(
        f"the record at {place.source} offset {place.offset} is gone: another build has written the"
        f" work files of plan {quarantine.origin} again; look again"
    )


def _record(
    root: Path, quarantine: Quarantine, command: str, reason: str | None, records: int
) -> None:
    access = Access.now(
        command, quarantine.interval, quarantine.origin, reason=reason, records=records
    )
    record_access(DatasetFolder(root, quarantine.dataset), access)
