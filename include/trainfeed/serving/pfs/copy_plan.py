"""What a call of ``cp`` copies: patterns, sources with their names, options and outcomes."""

from __future__ import annotations

import glob
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any, Final, Literal

from trainfeed.errors import ConfigError, ConflictError, FormatError, NotFoundError, TrainFeedError
from trainfeed.serving.pfs.tree import Entry, Kind, Parts, Tree

# --- Limits the bytes that all threads of a copy send in a second

# A pause of the sender is not made good later by more than this.
_BURST_S: Final = 0.1


class RateLimit:
    """A limit that is shared by threads.

    Args:
        bytes_per_s: The limit; None for no limit.
        clock: Seconds since any point in time.
    """

    def __init__(
        self, bytes_per_s: int | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._bytes_per_s = bytes_per_s
        self._clock = clock
        self._lock = threading.Lock()
        self._free_at_s = clock()

    def reserve(self, num_bytes: int) -> float:
        """Reserve the time of ``num_bytes``; return the seconds to wait before they are sent."""
        if self._bytes_per_s is None:
            return 0.0
        with self._lock:
            now_s = self._clock()
            begin_s = max(self._free_at_s, now_s - _BURST_S)
            self._free_at_s = begin_s + num_bytes / self._bytes_per_s
            return max(0.0, begin_s - now_s)

    def wait(self, num_bytes: int, stop: threading.Event) -> None:
        """Wait until ``num_bytes`` may be sent, or ``stop`` is set."""
        seconds = self.reserve(num_bytes)
        if seconds > 0:
            stop.wait(seconds)


# --- Values of copies: places, single copies, options, and what became of each file


class Stopped(Exception):  # noqa: N818 - an end that was asked for
    """The copy was stopped by a signal, or by the failure of another thread."""


@dataclass(frozen=True)
class Place:
    """A file or folder of a tree, as it was named.

    Attributes:
        tree: The tree.
        parts: The place in it.
        is_folder: Whether the text ended with a slash, which only a folder may have.
        is_content: Whether the text ended with ``/.``: what is in the folder, not the folder.
        makes_folder: Whether a target that ends with a slash is made if it is missing.
    """

    tree: Tree
    parts: Parts
    is_folder: bool = False
    is_content: bool = False
    makes_folder: bool = False

    @property
    def shown(self) -> str:
        """The place as people type it."""
        return self.tree.show(self.parts)

    @property
    def address(self) -> str:
        """A text that is the same for the same place."""
        return self.tree.address(self.parts)

    def joined(self, *names: str) -> Place:
        """Return a place below this one."""
        return Place(self.tree, (*self.parts, *names))


@dataclass(frozen=True)
class FileCopy:
    """One file that is to be copied.

    Attributes:
        source: The file.
        target: The name of the copy.
        num_bytes: Size of the source as it was listed.
        existing: What has the name of the copy, as it was listed.
    """

    source: Place
    target: Place
    num_bytes: int
    existing: Entry | None = None


@dataclass(frozen=True)
class FileOutcome:
    """What became of one file.

    Attributes:
        source: The file, as people type it.
        target: The copy; empty if no name was found for it.
        verdict: ``copied``; ``equal`` if a file with these bytes was there; or ``failed``.
        num_bytes: Size; 0 if it failed.
        sent_bytes: Bytes written by this call; without chunks that an earlier try has left.
        error: Why it failed.
    """

    source: str
    target: str
    verdict: Literal["copied", "equal", "failed"]
    num_bytes: int = 0
    sent_bytes: int = 0
    error: TrainFeedError | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        error = None if self.error is None else f"{type(self.error).__name__}: {self.error}"
        return {**self.__dict__, "error": error}


@dataclass(frozen=True)
class CopyOptions:
    """How files are copied.

    Attributes:
        replace: Whether a file that has the name of a copy is replaced.
        is_recursive: Whether folders are copied.
        threads: Number of threads.
        rate: Limit of the bytes that are sent.
        tell: Called with the bytes of each chunk that is done, from any thread.
        stop: Set when the copy is to end between two chunks.
    """

    replace: bool = True
    is_recursive: bool = False
    threads: int = 4
    rate: RateLimit = field(default_factory=RateLimit)
    tell: Callable[[int], object] = lambda _: None
    stop: threading.Event = field(default_factory=threading.Event)

    def require_going(self) -> None:
        """Raise ``Stopped`` after ``stop`` was set."""
        if self.stop.is_set():
            raise Stopped("the copy was stopped; what was sent is kept for the next try")


def name_taken(copy: FileCopy) -> ConflictError:
    """Return the error of a name that has other bytes, and is not to be replaced."""
    return ConflictError(
        f"{copy.target.shown}: expected a free name or the same bytes, got a file with other"
        " bytes; nothing was changed; choose another name, or allow that it is replaced"
    )


# --- Expands patterns in the places of any tree; a pattern without a match is an error


def expanded(place: Place) -> list[Place]:
    """Return the places that a pattern with ``*``, ``?`` or ``[…]`` names, sorted.

    A name with such characters that is there is taken literally, as a shell does. A pattern matches
    names that begin with a dot only if it does.

    Raises:
        NotFoundError: The pattern has no match.
        StorageError: A folder that may hold a match cannot be listed.
    """
    if not any(map(glob.has_magic, place.parts)) or is_there(place):
        return [place]
    found = list(_matches(place.tree, (), place.parts))
    if not found:
        raise NotFoundError(
            f"{place.shown}: no file or folder matches; nothing was done for it; correct the"
            " pattern"
        )
    return [replace(place, parts=parts) for parts in sorted(found)]


def is_there(place: Place) -> bool:
    """Return whether something has the name."""
    try:
        place.tree.stat(place.parts)
    except NotFoundError:
        return False
    return True


def _matches(tree: Tree, above: Parts, patterns: Parts) -> Iterator[Parts]:
    if not patterns:
        yield above
        return
    first, *rest = patterns
    if not glob.has_magic(first):
        if is_there(Place(tree, (*above, first))):
            yield from _matches(tree, (*above, first), tuple(rest))
        return
    for entry in tree.entries(above):
        is_hidden = entry.name.startswith(".") and not first.startswith(".")
        may_be = not rest or entry.kind in (Kind.FOLDER, Kind.LINK)
        if may_be and not is_hidden and fnmatchcase(entry.name, first):
            yield from _below(tree, (*above, entry.name), tuple(rest))


def _below(tree: Tree, above: Parts, patterns: Parts) -> Iterator[Parts]:
    if patterns and tree.stat(above).kind is not Kind.FOLDER:
        return
    yield from _matches(tree, above, patterns)


# --- The rules of ``cp SOURCE… TARGET``: sources and the names that they get, as with ``cp``


@dataclass(frozen=True)
class PlannedCopy:
    """One source and the name of its copy.

    Attributes:
        source: File or folder.
        target: The name of the copy; for ``FOLDER/.`` the folder that gets what is in it.
        entry: What the source is.
        existing: What has the name of the copy.
    """

    source: Place
    target: Place
    entry: Entry
    existing: Entry | None


@dataclass(frozen=True)
class RefusedCopy:
    """One source that is not copied.

    Attributes:
        source: The source.
        error: Why.
    """

    source: Place
    error: TrainFeedError


def planned_copies(
    sources: Sequence[Place], target: Place, options: CopyOptions
) -> Iterator[PlannedCopy | RefusedCopy]:
    """Yield the copies of a call, and the sources that are refused; the others go on.

    Raises:
        ConfigError: The target does not suit the sources; nothing is copied.
        StorageError: A tree refused or failed.
    """
    refused: list[RefusedCopy] = []
    places: list[Place] = []
    for source in sources:
        try:
            places += expanded(source)
        except NotFoundError as error:
            refused.append(RefusedCopy(source, error))
    found = [(place, _sourced(place, options)) for place in places]
    entry = _targeted(target, [each for _, each in found], len(sources) > 1 or len(places) > 1)
    yield from refused
    given: set[str] = set()
    for place, each in found:
        try:
            if isinstance(each, TrainFeedError):
                raise each
            yield _planned(place, each, target, entry, given)
        except TrainFeedError as error:
            yield RefusedCopy(place, error)


def _sourced(place: Place, options: CopyOptions) -> Entry | TrainFeedError:
    """Return the entry of a source, or why it is not copied."""
    try:
        entry = place.tree.stat(place.parts)
    except TrainFeedError as error:
        return error
    if entry.kind is Kind.FOLDER and not options.is_recursive:
        return ConfigError(
            f"{place.shown}: expected a file, got a folder, which was left out; copy folders with"
            " -r"
        )
    if entry.kind in (Kind.LINK, Kind.OTHER):
        return FormatError(
            "expected a file or a folder, got a link or a special file, which was left out; name"
            " the file itself",
            path=place.shown,
        )
    if place.is_folder and entry.kind is not Kind.FOLDER:
        return NotFoundError(f"{place.shown}/: expected a folder, got a file; leave the slash out")
    return entry


def _targeted(
    target: Place, found: Sequence[Entry | TrainFeedError], is_several: bool
) -> Entry | None:
    """Return the entry of the target; None if nothing has the name."""
    try:
        entry = target.tree.stat(target.parts)
    except NotFoundError:
        entry = None
    is_folder = entry is not None and entry.kind is Kind.FOLDER
    copies_folder = not is_several and any(
        isinstance(each, Entry) and each.kind is Kind.FOLDER for each in found
    )
    if entry is None and target.is_folder and not copies_folder and target.makes_folder:
        if any(isinstance(each, Entry) for each in found):
            target.tree.make_folder(target.parts)
        return Entry("", Kind.FOLDER, 0, 0)
    if not is_folder and (is_several or (target.is_folder and not copies_folder)):
        why = "several sources" if is_several else "a name that ends with a slash"
        got = "nothing" if entry is None else f"a {entry.kind}"
        raise ConfigError(
            f"{target.shown}: expected a folder for {why}, got {got};"
            f" nothing was copied; make the folder first, or choose another target"
        )
    return entry


def _planned(
    source: Place, entry: Entry, target: Place, found: Entry | None, given: set[str]
) -> PlannedCopy:
    final, existing = target, found
    name = source.parts[-1] if source.parts else ""
    is_content = source.is_content or name in ("", "..")
    if found is not None and found.kind is Kind.FOLDER and not is_content:
        final = target.joined(name)
        existing = _entry(final)
    _require_apart(source, entry, final, given)
    if existing is not None and existing.kind is not entry.kind:
        raise ConflictError(
            f"{final.shown}: expected a free name or a {entry.kind}, got a {existing.kind};"
            " nothing was changed; choose another target, or remove what has the name"
        )
    return PlannedCopy(source, final, entry, existing)


def _require_apart(source: Place, entry: Entry, final: Place, given: set[str]) -> None:
    """Refuse a copy onto or into the source, and a second copy to one name."""
    one, other = source.address, final.address
    if one == other:
        raise ConflictError(f"{source.shown} and {final.shown} are the same; nothing was copied")
    if entry.kind is Kind.FOLDER and other.startswith(f"{one.rstrip('/')}/"):
        raise ConflictError(
            f"{final.shown}: a folder cannot be copied into itself, {source.shown}; nothing was"
            " copied; choose another target"
        )
    if other in given:
        raise ConflictError(
            f"{final.shown} was made from another source of this call; {source.shown} was not"
            " copied; copy it in a call of its own"
        )
    given.add(other)


def _entry(place: Place) -> Entry | None:
    try:
        return place.tree.stat(place.parts)
    except NotFoundError:
        return None
