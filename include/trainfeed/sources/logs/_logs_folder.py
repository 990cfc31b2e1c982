"""A folder of log files: whether it is complete, and what it then holds.

A folder is complete by one of two rules: it has a marker file, or nothing in it has changed for a
while. By either, a file that is still written makes the folder incomplete. A complete folder
without a log file is an empty interval; a folder that is not there is not complete.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, TypeVar

from trainfeed.errors import FormatError, NotFoundError, WindowOpenError
from trainfeed.sources.logs._logs_names import compression_of, is_log
from trainfeed.storage import FileInfo, Location

__all__ = ["CompleteRule", "LogFile", "find_logs", "list_logs", "present_logs"]

T = TypeVar("T")

# Two small requests per file; waiting for the answers takes most of the time.
_THREADS: Final = 8
_KEPT: Final = "nothing was read or written; run again when the folder is complete"


@dataclass(frozen=True)
class CompleteRule:
    """When a folder is complete; exactly one of both.

    Attributes:
        marker: Once it has a file of this name.
        stable: Once nothing in it has changed for this long, by the clock of this machine.
    """

    marker: str | None
    stable: timedelta | None


@dataclass(frozen=True)
class LogFile:
    """One log file of a complete folder.

    Attributes:
        info: What the file system says of it.
        compression: none, gzip or zstd.
        checksum: ``algorithm:digest``, where the file system knows one.
    """

    info: FileInfo
    compression: str
    checksum: str | None


def list_logs(folder: Location) -> list[FileInfo]:
    """Return the log files of a folder by name, complete or not.

    Raises:
        NotFoundError: There is no such folder.
        FormatError: It has what is neither a log file nor hidden nor unfinished.
    """
    return _logs_of(folder.list(), folder)


def present_logs(folder: Location) -> list[LogFile]:
    """Return the log files of a folder by name, complete or not, without checksums.

    Raises:
        NotFoundError: There is no such folder.
        FormatError: It has what cannot be read.
    """
    infos = list_logs(folder)
    return [
        LogFile(info, compression_of(info.name, (folder / info.name).uri), None) for info in infos
    ]


def find_logs(
    folder: Location, rule: CompleteRule, now: datetime, *, checksums: bool = True
) -> list[LogFile]:
    """Return the log files of a complete folder by name.

    Args:
        folder: The folder of an interval.
        rule: When it is complete.
        now: Aware UTC time.
        checksums: Whether to ask for them, which takes longest; a mere wait needs none.

    Raises:
        WindowOpenError: It is not complete yet; with ``ready_at`` where time alone decides.
        FormatError: It has what is neither a log file nor hidden nor unfinished, or a file of a
            compression that is not read.
        StorageError: The file system does not answer.
    """
    try:
        # The marker first: files may be listed page by page while a writer adds to the folder.
        if rule.marker is not None and not (folder / rule.marker).exists():
            raise _incomplete(folder, _missing(folder, rule.marker))
        listing = folder.list()
        if rule.stable is not None:
            _require_stable(folder, listing, rule.stable, now)
    except NotFoundError as error:
        raise _incomplete(folder, "the folder is not there") from error
    infos = _logs_of(listing, folder)
    compressions = [compression_of(info.name, (folder / info.name).uri) for info in infos]
    known = _closed_checksums(folder, listing, infos, rule, asks=checksums)
    return [
        LogFile(info, compression, checksum)
        for info, compression, checksum in zip(infos, compressions, known, strict=True)
    ]


def _logs_of(listing: list[FileInfo], folder: Location) -> list[FileInfo]:
    infos = [info for info in listing if is_log(info.name)]
    for info in infos:
        if info.is_dir:
            raise FormatError(
                f"expected only files, got the folder {info.name!r}; nothing was read or published;"
                " move it away, or hide it: names that begin with '_' are not read",
                path=folder.uri,
            )
        if not info.name.isprintable():
            raise FormatError(
                f"expected names of printable characters, got {info.name!r}; nothing was read or"
                " published; rename the file",
                path=folder.uri,
            )
    return infos


def _missing(folder: Location, marker: str) -> str:
    try:
        found = folder.stat()
    except NotFoundError:
        return "the folder is not there"
    return f"it has no {marker}" if found.is_dir else "it is a file"


def _require_stable(
    folder: Location, listing: list[FileInfo], stable: timedelta, now: datetime
) -> None:
    # Hidden and unfinished files too: their writer is not done with the folder.
    newest = max([folder.stat(), *listing], key=lambda info: info.modified_ms)
    changed = datetime.fromtimestamp(newest.modified_ms / 1000, UTC)
    if changed + stable > now:
        what = newest.name if newest in listing else "the folder itself"
        error = _incomplete(
            folder, f"{what} changed at {changed:%Y-%m-%dT%H:%M:%SZ}, less than {stable} ago"
        )
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
        if folder.list() == listing:
            return checksums
    except NotFoundError:
        pass  # a file that is gone by now
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
        # A marker says that all files are closed; time alone does not.
        if is_open is None and rule.marker is None:
            raise _incomplete(
                folder,
                f"{folder.fs.scheme}:// does not show whether {info.name} is closed: it is"
                " empty, ends with a whole block, or is erasure-coded; use webhdfs://, or 'done'"
                " in place of 'stable'",
            )


def _ask(question: Callable[[FileInfo], T], infos: list[FileInfo]) -> list[T]:
    with ThreadPoolExecutor(_THREADS, "logs") as pool:
        return list(pool.map(question, infos))


def _incomplete(folder: Location, what: str) -> WindowOpenError:
    error = WindowOpenError(f"folder {folder.uri} is not complete: {what}; {_KEPT}")
    error.reason = what
    return error
