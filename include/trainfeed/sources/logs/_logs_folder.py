"""Folders of log files: whether a folder is complete, and its files.

A folder is complete by one of two rules: it has a marker file, or nothing in it has changed for a
while. By both rules, a file that is still being written makes the folder incomplete. A complete
folder without log files is an empty interval; a folder that is not there is not complete.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, TypeVar

from trainfeed.errors import NotFoundError, WindowOpenError
from trainfeed.sources.logs._logs_entries import FolderEntries, sort_entries
from trainfeed.sources.logs._logs_formats import compression_of
from trainfeed.storage import FileInfo, Location

__all__ = ["CompleteRule", "FoundLogs", "LogFile", "find_logs", "list_entries"]

T = TypeVar("T")

# Two small requests per file; waiting for the answers takes most of the time.
_THREADS: Final = 8
_KEPT: Final = "nothing was read or written; run again when the folder is complete"


@dataclass(frozen=True)
class CompleteRule:
    """The rule by which a folder is complete: exactly one of both attributes.

    Attributes:
        marker: The folder is complete when it has a file of this name.
        stable: The folder is complete when nothing in it has changed for this long, by the clock
            of this machine.
    """

    marker: str | None
    stable: timedelta | None


@dataclass(frozen=True)
class LogFile:
    """One log file of a complete folder.

    Attributes:
        info: Facts from the file system.
        compression: none, gzip or zstd.
        checksum: ``algorithm:digest``, or None if the file system has none.
    """

    info: FileInfo
    compression: str
    checksum: str | None

    @classmethod
    def of(cls, info: FileInfo, checksum: str | None = None) -> LogFile:
        """Return the log file of an entry, by its name."""
        return cls(info, compression_of(info.name), checksum)


@dataclass(frozen=True)
class FoundLogs:
    """What a complete folder holds.

    Attributes:
        files: The log files, in order of name.
        entries: What becomes of every entry.
    """

    files: list[LogFile]
    entries: FolderEntries


def list_entries(folder: Location, marker: str | None) -> FolderEntries:
    """Return what becomes of every entry of a folder, whether it is complete or not.

    Args:
        folder: The folder.
        marker: Name of the file that marks it as complete, or None.

    Raises:
        NotFoundError: The folder is not there.
    """
    return sort_entries(folder, folder.list(broken=True), marker)


def find_logs(
    folder: Location, rule: CompleteRule, now: datetime, *, checksums: bool = True
) -> FoundLogs:
    """Return the log files of a complete folder, and the entries that are passed over.

    Args:
        folder: The folder of an interval.
        rule: The rule by which it is complete.
        now: Aware UTC time.
        checksums: Whether to request checksums, which takes longest; a mere wait needs none.

    Raises:
        WindowOpenError: The folder is not complete yet; with ``ready_at`` if only time is missing.
        FormatError: The folder has an entry that is neither a log file nor passed over.
        StorageError: The file system does not answer.
    """
    try:
        # The marker first: a listing may come page by page while a writer still adds files.
        if rule.marker is not None and not (folder / rule.marker).exists():
            raise _incomplete(folder, _missing(folder, rule.marker))
        listing = folder.list(broken=True)
        if rule.stable is not None:
            _require_stable(folder, listing, rule.stable, now)
    except NotFoundError as error:
        raise _incomplete(folder, "the folder is not there") from error
    entries = sort_entries(folder, listing, rule.marker).require()
    known = _closed_checksums(folder, listing, entries.logs, rule, asks=checksums)
    files = [LogFile.of(info, checksum) for info, checksum in zip(entries.logs, known, strict=True)]
    return FoundLogs(files, entries)


def _missing(folder: Location, marker: str) -> str:
    try:
        found = folder.stat()
    except NotFoundError:
        return "the folder is not there"
    return f"it has no {marker}" if found.is_dir else "it is a file"


def _require_stable(
    folder: Location, listing: list[FileInfo], stable: timedelta, now: datetime
) -> None:
    # Hidden and unfinished files count, too: their writer has not finished the folder.
    newest = max([folder.stat(), *listing], key=lambda info: info.modified_ms)
    changed = datetime.fromtimestamp(newest.modified_ms / 1000, UTC)
    if changed + stable > now:
        what = newest.name if newest in listing else "the folder itself"
        told = f"{what} changed at {changed:%Y-%m-%dT%H:%M:%SZ}"
        if changed > now:
            raise _incomplete(
                folder,
                f"{told}, which is in the future of this machine, where it is"
                f" {now:%Y-%m-%dT%H:%M:%SZ}: it was copied with its time, or a clock is wrong; give"
                " it the time of now (touch), or correct the clock",
            )
        error = _incomplete(folder, f"{told}, less than {stable} ago")
        error.ready_at = changed + stable
        raise error


def _closed_checksums(
    folder: Location,
    listing: list[FileInfo],
    infos: list[FileInfo],
    rule: CompleteRule,
    *,
    asks: bool,
) -> list[str | None]:
    try:
        _require_closed(folder, infos, rule)
        checksums: list[str | None] = [None] * len(infos)
        if asks:
            checksums = _ask(lambda info: (folder / info.name).checksum(), infos)
        # A second listing after all requests: equal listings mean that nothing changed meanwhile.
        if folder.list(broken=True) == listing:
            return checksums
    except NotFoundError:
        pass  # a file has vanished meanwhile
    raise _incomplete(folder, "it changed while it was looked at")


def _require_closed(folder: Location, infos: list[FileInfo], rule: CompleteRule) -> None:
    states = _ask(lambda info: (folder / info.name).is_open(), infos)
    for info, is_open in zip(infos, states, strict=True):
        if is_open:
            raise _incomplete(
                folder,
                f"{info.name} is not closed, a program still writes it (if its writer died, the"
                " NameNode closes it within an hour, 'hdfs debug recoverLease' at once)",
            )
        # With a marker, all files are closed; with the rule ``stable`` that is not certain.
        if is_open is None and rule.marker is None:
            raise _incomplete(
                folder,
                f"{folder.fs.scheme}:// does not show whether {info.name} is closed: it is"
                " empty, ends with a whole block, is erasure-coded, or a snapshot holds more of it;"
                " use webhdfs://, or 'done' in place of 'stable'",
            )


def _ask(question: Callable[[FileInfo], T], infos: list[FileInfo]) -> list[T]:
    with ThreadPoolExecutor(_THREADS, "logs") as pool:
        return list(pool.map(question, infos))


def _incomplete(folder: Location, what: str) -> WindowOpenError:
    error = WindowOpenError(f"folder {folder.uri} is not complete: {what}; {_KEPT}")
    error.reason = what
    return error
