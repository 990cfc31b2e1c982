"""The folders of log files of an interval: whether they are complete, and their files."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from glob import escape
from typing import Final, TypeVar

from trainfeed.core.printable_text import printable
from trainfeed.errors import FormatError, NotFoundError, WindowOpenError
from trainfeed.files.stores import FileInfo, Location
from trainfeed.sources.log_folders import (
    HIDE,
    LINES,
    FolderEntries,
    Refusal,
    compression_of,
    names_of_one,
    sort_entries,
)

S = TypeVar("S")
T = TypeVar("T")

# A small request or two per file; waiting for the answers takes most of the time.
_THREADS: Final = 8
_MOST_AT_ONCE: Final = 64
_KEPT: Final = "nothing was read or written; run again when the folder is complete"
_SHOWN: Final = 3

# Why a folder is passed over: its name does not fit the path, or it is not there or holds nothing.
NOT_MATCHED: Final = "not_matched"
MISSING: Final = "missing"


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
class FolderTree:
    """The folders of log files of an interval.

    Attributes:
        top: The folder below which all of them lie.
        bases: Paths below ``top`` of the folders of which each has to be complete; the text ``""``
            is ``top`` itself. A part of a path may have ``*``.
        below: Path from such a folder to those with its files; ``""`` if it has the files itself.
            With the rule of a marker, only ``bases`` have one.
        file_format: The format of the files, as a specification names it.
    """

    top: Location
    bases: tuple[str, ...] = ("",)
    below: str = ""
    file_format: str = LINES

    def at(self, path: str) -> Location:
        """Return the location of a path below ``top``."""
        return self.top / path if path else self.top

    def found_bases(self) -> list[str]:
        """Return the paths of ``bases``, with those that fit ``*`` in their place.

        Raises:
            NotFoundError: A folder whose entries could fit is not there.
            FormatError: An entry has a fitting name and is a link, to a folder or to nothing.
        """
        return [found for base in self.bases for found in self._fitting("", base)]

    def _fitting(self, path: str, rest: str) -> Iterator[str]:
        if "*" not in rest:
            yield _joined(path, rest)
            return
        before, _, after = rest.partition("*")
        fixed, _, start = before.rpartition("/")
        end, _, rest = after.partition("/")
        parent = _joined(path, fixed)
        for info in self.at(parent).list(broken=True):
            if (info.is_link or info.oddity) and _is_named(f"{start}*{end}", info):
                what = info.oddity or "a link"
                raise FormatError(
                    f"expected a folder of its own, got {info.name!r}, {what}; nothing was read or"
                    f" published; {HIDE}",
                    path=self.at(_joined(parent, info.name)).uri,
                )
            if _fits(f"{start}*{end}", info):
                yield from self._fitting(_joined(parent, info.name), rest)


@dataclass(frozen=True)
class LogFile:
    """One log file of a complete folder.

    Attributes:
        info: Facts from the file system; the name is the path below the top folder.
        compression: none, or one of ``COMPRESSIONS``.
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
    """What complete folders hold.

    Attributes:
        files: The log files, in order of name.
        entries: What becomes of every entry.
        bases: Paths below the top folder of the folders that are complete.
    """

    files: list[LogFile]
    entries: FolderEntries
    bases: list[str]


@dataclass
class _Listing:
    """The entries of all folders, each by its path below the top folder.

    Attributes:
        leaves: The folders that hold log files.
        uppers: The folders that hold folders, with what the names of these have to fit.
        bases: The folders from which it starts.
    """

    leaves: dict[str, list[FileInfo]] = field(default_factory=dict)
    uppers: dict[str, tuple[str, list[FileInfo]]] = field(default_factory=dict)
    bases: list[str] = field(default_factory=list)

    def add(self, tree: FolderTree, path: str, below: str) -> None:
        """List a folder, and those below it."""
        entries = tree.at(path).list(broken=True)
        if not below:
            self.leaves[path] = entries
            return
        first, _, rest = below.partition("/")
        self.uppers[path] = first, entries
        for info in entries:
            if _fits(first, info):
                self.add(tree, _joined(path, info.name), rest)

    def all(self) -> Iterator[tuple[str, list[FileInfo]]]:
        """Yield path and entries of every folder."""
        yield from self.leaves.items()
        for path, (_, entries) in self.uppers.items():
            yield path, entries


def list_entries(tree: FolderTree, marker: str | None) -> FolderEntries:
    """Return what becomes of every entry, whether the folders are complete or not.

    Args:
        tree: The folders.
        marker: Name of the file that marks a complete folder, or None.

    Raises:
        NotFoundError: None of the folders is there.
    """
    listing, absent = _Listing(), None
    for base in tree.found_bases():
        try:
            listing.add(tree, base, tree.below)
        except NotFoundError as error:
            absent = error
    if absent is not None and not listing.leaves and not listing.uppers:
        raise absent
    return _sorted(tree, listing, marker)


def is_bare(tree: FolderTree) -> bool:
    """Return whether none of the folders is there, or none holds anything."""
    try:
        return all(_is_bare(tree.at(base)) for base in tree.found_bases())
    except NotFoundError:
        return True


def find_logs(
    tree: FolderTree,
    rule: CompleteRule,
    now: datetime,
    *,
    checksums: bool = True,
    passes_bare: bool = False,
) -> FoundLogs:
    """Return the log files of complete folders, and the entries that are passed over.

    Args:
        tree: The folders of an interval.
        rule: The rule by which each is complete.
        now: Aware UTC time.
        checksums: Whether to request checksums, which takes longest; a mere wait needs none.
        passes_bare: Whether folders that are not there or hold nothing are passed over, as long as
            others are complete.

    Raises:
        WindowOpenError: A folder is not complete yet; with ``ready_at`` if only time is missing.
        FormatError: A folder has an entry that is neither a log file nor passed over.
        StorageError: The file system does not answer.
    """
    try:
        # The marker first: a listing may come page by page while a writer still adds files.
        bases, bare = _complete(tree, rule, passes_bare=passes_bare)
        listing = _listed(tree, bases)
        if rule.stable is not None:
            _require_stable(tree, listing, rule.stable, now)
    except NotFoundError as error:
        raise _incomplete(tree.top, "the folder is not there") from error
    entries = _sorted(tree, listing, rule.marker).require()
    if bare:
        passed_over = {**entries.passed_over, **dict.fromkeys(map(printable, bare), MISSING)}
        entries = replace(entries, passed_over=dict(sorted(passed_over.items())))
    known = _closed_checksums(tree, listing, entries.logs, rule, asks=checksums)
    files = [LogFile.of(info, checksum) for info, checksum in zip(entries.logs, known, strict=True)]
    return FoundLogs(files, entries, bases)


def _joined(path: str, name: str) -> str:
    return f"{path}/{name}" if path and name else path or name


def _fits(pattern: str, info: FileInfo) -> bool:
    """Return whether an entry is a folder of this name."""
    return info.is_dir and _is_named(pattern, info)


def _is_named(pattern: str, info: FileInfo) -> bool:
    """Return whether an entry has this name; ``*`` does not stand for hidden ones."""
    is_hidden = info.name.startswith((".", "_")) and not pattern.startswith(info.name[0])
    # ``*`` alone has a meaning in a path; other characters of patterns stand for themselves.
    return not is_hidden and fnmatchcase(info.name, escape(pattern).replace("[*]", "*"))


def _listed(tree: FolderTree, bases: Iterable[str]) -> _Listing:
    listing = _Listing(bases=list(bases))
    for base in listing.bases:
        listing.add(tree, base, tree.below)
    return listing


def _complete(
    tree: FolderTree, rule: CompleteRule, *, passes_bare: bool
) -> tuple[list[str], list[str]]:
    """Return the folders that are complete as far as their markers say, and those without anything.

    Raises:
        WindowOpenError: A folder has no marker, and is not passed over.
    """
    bases = tree.found_bases()
    if not bases:
        raise _incomplete(tree.top, f"no folder fits {' or '.join(tree.bases)}")
    lacking = {base: why for base in bases if (why := _lacks(tree.at(base), rule))}
    bare = [base for base in lacking if passes_bare and _is_bare(tree.at(base))]
    if len(lacking) > len(bare) or len(bare) == len(bases):
        raise _incomplete_bases(tree, bases, lacking)
    return [base for base in bases if base not in lacking], bare


def _lacks(folder: Location, rule: CompleteRule) -> str | None:
    if rule.marker is not None:
        return None if (folder / rule.marker).exists() else _missing(folder, rule.marker)
    return None if folder.exists() else "the folder is not there"


def _missing(folder: Location, marker: str) -> str:
    try:
        found = folder.stat()
    except NotFoundError:
        return "the folder is not there"
    return f"it has no {marker}" if found.is_dir else "it is a file"


def _is_bare(folder: Location) -> bool:
    try:
        return not folder.list(broken=True)
    except NotFoundError:
        return not folder.exists()


def _incomplete_bases(
    tree: FolderTree, bases: Collection[str], lacking: Mapping[str, str]
) -> WindowOpenError:
    if len(bases) == 1:
        return _incomplete(tree.at(*bases), *lacking.values())
    shown = [f"{base}: {why}" for base, why in list(lacking.items())[:_SHOWN]]
    more = f", and {len(lacking) - _SHOWN} more" if len(lacking) > _SHOWN else ""
    verb = "is" if len(lacking) == 1 else "are"
    of = f"{len(lacking)} of its {len(bases)} folders {verb} not complete"
    return _incomplete(tree.top, f"{of} ({', '.join(shown)}{more})")


# --- Entries of several folders as those of one, with their paths as names


def _sorted(tree: FolderTree, listing: _Listing, marker: str | None) -> FolderEntries:
    """Return what becomes of the entries of all folders."""
    parts = [
        (path, sort_entries(tree.at(path), entries, marker, tree.file_format))
        for path, entries in listing.leaves.items()
    ]
    parts += [
        (path, _upper(tree.at(path), pattern, entries, marker))
        for path, (pattern, entries) in listing.uppers.items()
    ]
    if [path for path, _ in parts] == [""]:
        return parts[0][1]
    logs = [_below(path, info) for path, found in parts for info in found.logs]
    refused = [
        each._replace(names=tuple(_joined(path, name) for name in each.names))
        for path, found in parts
        for each in found.refused
    ]
    refused += [each for each in names_of_one(logs) if len(set(map(_parent, each.names))) > 1]
    passed_over = {
        _joined(printable(path), name): reason
        for path, found in parts
        for name, reason in found.passed_over.items()
    }
    infos = [_below(path, info) for path, found in parts for info in found.infos.values()]
    return FolderEntries(
        tree.top,
        sorted(logs, key=lambda info: info.name),
        {name: passed_over[name] for name in sorted(passed_over)},
        refused,
        {info.name: info for info in infos},
    )


def _upper(
    folder: Location, pattern: str, listing: Sequence[FileInfo], marker: str | None
) -> FolderEntries:
    """Return what becomes of the entries of a folder that holds folders, besides those that fit."""
    fitting = [info for info in listing if _fits(pattern, info)]
    rest = sort_entries(folder, [info for info in listing if not _fits(pattern, info)], marker)
    others = {
        printable(name): NOT_MATCHED
        for name, info in rest.infos.items()
        if info.is_dir and printable(name) not in rest.passed_over
    }
    # A broken link or a pipe, too: a link may be to a folder whose mount is away.
    refused = [
        Refusal(
            (info.name,),
            f"expected folders named {pattern!r}, got {info.oddity or 'the file'} {info.name!r}",
            HIDE,
        )
        for name, info in rest.infos.items()
        if not info.is_dir and printable(name) not in rest.passed_over
    ]
    refused += [
        Refusal((info.name,), f"expected a folder of its own, got {info.name!r}, a link", HIDE)
        for info in fitting
        if info.is_link
    ]
    if others and not fitting:
        names = tuple(others)
        what = f"expected folders named {pattern!r}, got only {', '.join(names[:_SHOWN])}"
        refused.append(Refusal(names[:1], what, "correct source.logs.path, or hide them"))
    return FolderEntries(folder, [], {**rest.passed_over, **others}, refused, rest.infos)


def _below(path: str, info: FileInfo) -> FileInfo:
    return replace(info, name=_joined(path, info.name))


def _parent(name: str) -> str:
    return name.rpartition("/")[0]


# --- Whether folders rest, and their files are closed and stay as they are


def _require_stable(tree: FolderTree, listing: _Listing, stable: timedelta, now: datetime) -> None:
    # Hidden and unfinished files count, too: their writer has not finished the folder.
    for path, entries in listing.all():
        folder = tree.at(path)
        newest = max([folder.stat(), *entries], key=lambda info: info.modified_ms)
        changed = datetime.fromtimestamp(newest.modified_ms / 1000, UTC)
        if changed + stable <= now:
            continue
        what = newest.name if newest in entries else "the folder itself"
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
    tree: FolderTree,
    listing: _Listing,
    infos: list[FileInfo],
    rule: CompleteRule,
    *,
    asks: bool,
) -> list[str | None]:
    try:
        _require_closed(tree.top, _unknown(tree, listing, infos), rule)
        checksums: list[str | None] = [None] * len(infos)
        if asks:
            checksums = _ask(lambda info: (tree.top / info.name).checksum(), infos)
        # A second listing after all requests: equal listings mean that nothing changed meanwhile.
        if _listed(tree, listing.bases) == listing:
            return checksums
    except NotFoundError:
        pass  # a file has vanished meanwhile
    raise _incomplete(tree.top, "it changed while it was looked at")


def _unknown(tree: FolderTree, listing: _Listing, infos: list[FileInfo]) -> list[FileInfo]:
    """Return the files of which only a request for each can tell whether they are closed."""
    folders = list(listing.leaves)
    found = _ask(lambda path: tree.at(path).closed_files(listing.leaves[path]), folders)
    closed = {
        _joined(path, name) for path, names in zip(folders, found, strict=True) for name in names
    }
    return [info for info in infos if info.name not in closed]


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


def _ask(question: Callable[[S], T], subjects: list[S]) -> list[T]:
    # Several for each call of a thread: to hand one over costs more than a small request.
    step = min(_MOST_AT_ONCE, -(-len(subjects) // _THREADS) or 1)
    parts = [subjects[first : first + step] for first in range(0, len(subjects), step)]
    with ThreadPoolExecutor(_THREADS, "logs") as pool:
        answers = pool.map(lambda part: [question(each) for each in part], parts)
        return [answer for part in answers for answer in part]


def _incomplete(folder: Location, what: str) -> WindowOpenError:
    error = WindowOpenError(f"folder {folder.uri} is not complete: {what}; {_KEPT}")
    error.reason = what
    return error
