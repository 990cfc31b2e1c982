"""Copies between trees: by compared chunks, resumed after a kill, complete or absent."""

from __future__ import annotations

import hashlib
import re
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Final, Literal, TypeAlias

from trainfeed.core import faults
from trainfeed.core.process_ties import mark_has_ended, process_mark
from trainfeed.errors import (
    AccessDeniedError,
    CommitUnknownError,
    ConflictError,
    FileReplacedError,
    FormatError,
    NotFoundError,
    QuotaExceededError,
    StorageError,
    TrainFeedError,
)
from trainfeed.serving.pfs.copy_plan import (
    CopyOptions,
    FileCopy,
    FileOutcome,
    Place,
    PlannedCopy,
    RefusedCopy,
    is_there,
    name_taken,
    planned_copies,
)
from trainfeed.serving.pfs.tree import (
    CHUNK_BYTES,
    SMALL_BYTES,
    DigestKind,
    Entry,
    Kind,
    SmallFile,
    Source,
    Target,
    chunk_count,
    chunk_size,
    is_unfinished_name,
)

# --- The unfinished name of a folder that is copied, and its adoption by the next try

# Age after which the unfinished copy of another machine counts as abandoned.
ABANDONED_S: Final = 3 * 24 * 3600.0
_NAME: Final = re.compile(
    r"\.pfs-(?P<mark>[0-9a-f]{12}-[0-9]+-[0-9]+)\.(?P<digits>[0-9a-f]{32})\.tmp"
)

_lock = threading.Lock()
# Addresses of the folders that this process fills now.
_in_use: set[str] = set()


@contextmanager
def unfinished_folder(source: Place, target: Place) -> Iterator[tuple[Place, bool]]:
    """Yield the unfinished folder of a copy, and whether an earlier try has left it.

    Raises:
        ConflictError: This process copies the folder to this name already.
        StorageError: The tree refused or failed.
    """
    text = f"{target.parts[-1]}\0{source.address}".encode(errors="surrogateescape")
    digits = hashlib.sha256(text).hexdigest()[:32]
    own = Place(target.tree, target.parts[:-1]).joined(f".pfs-{process_mark()}.{digits}.tmp")
    with _used_once(own, target):
        yield own, _is_resumed(own, digits)


@contextmanager
def _used_once(own: Place, target: Place) -> Iterator[None]:
    address = own.address
    with _lock:
        if address in _in_use:
            raise ConflictError(
                f"{target.shown}: this process copies the same folder to this name; nothing was"
                " changed; name each target once"
            )
        _in_use.add(address)
    try:
        yield
    finally:
        with _lock:
            _in_use.discard(address)


def _is_resumed(own: Place, digits: str) -> bool:
    """Adopt what an earlier try has left, or make the folder; return whether it was there."""
    above, name = own.parts[:-1], own.parts[-1]
    entries = own.tree.entries(above)
    if any(entry.name == name for entry in entries):
        return True  # of an earlier try of this process
    for entry in entries:
        found = _NAME.fullmatch(entry.name)
        if found and found["digits"] == digits and may_be_removed(entry):
            # Of several tries that find it, one can rename it.
            with suppress(NotFoundError):
                own.tree.rename((*above, entry.name), own.parts, replace=False)
                return True
    own.tree.make_folder(own.parts)
    return False


def may_be_removed(entry: Entry, *, older_than_s: float = ABANDONED_S) -> bool:
    """Return whether no process fills an unfinished file or folder any more.

    Args:
        entry: Its entry.
        older_than_s: Age in seconds that counts when the process is not known, or was on another
            machine.
    """
    owned = _NAME.fullmatch(entry.name)
    has_ended = mark_has_ended(owned["mark"]) if owned else None
    if has_ended is None:
        return time.time() - entry.modified_ns / 1e9 > older_than_s
    return has_ended


# --- Copies one file by chunks, of which only those are sent that the target does not have yet


def copy_chunked(copy: FileCopy, options: CopyOptions, *, threads: int) -> FileOutcome:
    """Copy a file; the target has its name complete and compared, or not at all.

    Memory: one chunk for each thread.

    Args:
        copy: The file.
        options: Options of all copies.
        threads: Number of threads that read, compare and send chunks.

    Raises:
        FileReplacedError: The source changed during the copy.
        ConflictError: The name of the copy is taken.
        StorageError: A tree refused or failed.
        Stopped: ``options.stop`` was set.
    """
    with closing(copy.source.tree.open_source(copy.source.parts)) as source:
        if _is_equal(copy, source, options, threads):
            # The copy that gave the name may have been killed before the name was durable.
            copy.target.tree.sync_names_of([copy.target.parts])
            return _outcome(copy, "equal", source.state.num_bytes, 0)
        target = copy.target.tree.open_target(
            copy.target.parts, source.state, replace=options.replace
        )
        with closing(target), _kept(copy):
            # What this call sent is compared with what was written: only an accident differs.
            kind = DigestKind.XXH3
            pump = _Pump(source, target, target.digests(kind), kind, options, copy.source.shown)
            chunks = pump.run(threads)
            source.require_same()
            target.commit(chunks, kind)
    return _outcome(copy, "copied", source.state.num_bytes, pump.sent_bytes)


def _is_equal(copy: FileCopy, source: Source, options: CopyOptions, threads: int) -> bool:
    """Return whether the file that has the name already has the bytes of the source."""
    there = copy.existing
    if there is None or there.kind is not Kind.FILE or there.num_bytes != source.state.num_bytes:
        return False
    # Others may have made both files, so only a digest that cannot be forged says it.
    found = copy.target.tree.digests(copy.target.parts)
    kind = DigestKind.SHA256
    pump = _Pump(source, None, found.chunks, kind, options, copy.source.shown)
    chunks = pump.run(threads)
    source.require_same()
    if found.chunks != chunks and not options.replace:
        raise name_taken(copy)
    return found.chunks == chunks


@dataclass
class _Pump:
    """Threads that take the chunks of a source in their order.

    Attributes:
        source: The file that is read.
        target: Where chunks are written; None if they are only digested.
        there: Digests of the chunks that the target has.
        kind: How chunks are digested.
        options: Options of all copies.
        shown: The source, for messages.
        sent_bytes: Bytes written so far.
    """

    source: Source
    target: Target | None
    there: tuple[bytes, ...]
    kind: DigestKind
    options: CopyOptions
    shown: str
    sent_bytes: int = 0

    def run(self, threads: int) -> tuple[bytes, ...]:
        """Return the digests of all chunks, each of which the target has now."""
        count = chunk_count(self.source.state.num_bytes)
        self._digests = [b""] * count
        self._indexes: Iterator[int] = iter(range(count))
        self._lock, self._ends = threading.Lock(), threading.Event()
        threads = min(threads, count)
        if threads < 2:
            self._work()
        else:
            with ThreadPoolExecutor(threads, "pfs-copy") as pool:
                for future in [pool.submit(self._work) for _ in range(threads)]:
                    future.result()
        return tuple(self._digests)

    def _work(self) -> None:
        buffer = bytearray(min(CHUNK_BYTES, self.source.state.num_bytes))
        try:
            while not self._ends.is_set():
                with self._lock:
                    index = next(self._indexes, None)
                if index is None:
                    return
                self.options.require_going()
                self._chunk(index, memoryview(buffer))
        except BaseException:
            self._ends.set()
            raise

    def _chunk(self, index: int, buffer: memoryview) -> None:
        view = buffer[: chunk_size(self.source.state.num_bytes, index)]
        if self.source.read_into(index * CHUNK_BYTES, view) != len(view):
            raise FileReplacedError(
                f"{self.shown}: expected {self.source.state.num_bytes} bytes, the file became"
                " shorter during the copy; no name was given to the copy; repeat the command when"
                " its writer has ended"
            )
        digest = self._digests[index] = self.kind.of(view)
        is_there = index < len(self.there) and self.there[index] == digest
        if self.target is not None and not is_there:
            self.options.rate.wait(len(view), self.options.stop)
            self.options.require_going()
            self.target.write(index * CHUNK_BYTES, view)
            faults.point(f"pfs.chunk_{index}")
            with self._lock:
                self.sent_bytes += len(view)
        if self.target is not None:
            self.options.tell(len(view))


@contextmanager
def _kept(copy: FileCopy) -> Iterator[None]:
    """Say after a full disk or quota what is kept, and what to do."""
    try:
        yield
    except QuotaExceededError as error:
        raise QuotaExceededError(
            f"{error}; {copy.target.shown} has no new content, and what was sent is kept for the"
            " next try; free space or raise the quota, then repeat the command, or remove what is"
            f" kept: trainfeed pfs rm --unfinished {copy.target.tree.show(copy.target.parts[:-1])}"
        ) from error


def _outcome(
    copy: FileCopy, verdict: Literal["copied", "equal"], num_bytes: int, sent: int
) -> FileOutcome:
    return FileOutcome(copy.source.shown, copy.target.shown, verdict, num_bytes, sent)


# --- Copies small files many in one call

_BATCH_FILES: Final = 64
_BATCH_BYTES: Final = 4 << 20


def batches(copies: Iterable[FileCopy]) -> Iterator[list[FileCopy]]:
    """Yield copies in groups of at most 64 files and, but for one file, 4 MiB."""
    batch: list[FileCopy] = []
    num_bytes = 0
    for copy in copies:
        is_full = len(batch) == _BATCH_FILES or num_bytes + copy.num_bytes > _BATCH_BYTES
        if batch and is_full:
            yield batch
            batch, num_bytes = [], 0
        batch.append(copy)
        num_bytes += copy.num_bytes
    if batch:
        yield batch


def copy_small(
    copies: Sequence[FileCopy], options: CopyOptions, *, is_hidden: bool
) -> list[FileOutcome]:
    """Copy files of at most ``SMALL_BYTES`` between two trees; each is whole, or has an error.

    Args:
        copies: Files of one source tree, for one target tree.
        options: Options of all copies.
        is_hidden: Whether a folder above the targets has an unfinished name.

    Raises:
        Stopped: ``options.stop`` was set.
    """
    options.require_going()
    read = copies[0].source.tree.get_small([copy.source.parts for copy in copies])
    found: dict[FileCopy, FileOutcome] = {}
    data: dict[FileCopy, bytes] = {}
    for copy, each in zip(copies, read, strict=True):
        if isinstance(each, bytes):
            data[copy] = each
        else:
            found[copy] = failed(copy, each)
    files = {copy: SmallFile(copy.target.parts, each) for copy, each in data.items()}
    found.update(_compared(files, options))
    rest = {copy: file for copy, file in files.items() if copy not in found}
    found.update(_sent(rest, options, is_hidden=is_hidden))
    for copy in copies:
        options.tell(copy.num_bytes)
    return [found[copy] for copy in copies]


def failed(copy: FileCopy, error: TrainFeedError) -> FileOutcome:
    """Return the outcome of a file that was not copied."""
    return FileOutcome(copy.source.shown, copy.target.shown, "failed", error=error)


def _compared(
    files: dict[FileCopy, SmallFile], options: CopyOptions
) -> Iterator[tuple[FileCopy, FileOutcome]]:
    """Yield the outcome of each file whose name has its bytes, or must not get them."""
    there = [
        copy
        for copy, file in files.items()
        if copy.existing is not None
        and copy.existing.kind is Kind.FILE
        and (copy.existing.num_bytes == len(file.data) or not options.replace)
    ]
    if not there:
        return
    digests = there[0].target.tree.small_digests([copy.target.parts for copy in there])
    equal = [copy for copy, each in zip(there, digests, strict=True) if each == files[copy].digest]
    if equal:
        # The copy that gave the names may have been killed before they were durable.
        there[0].target.tree.sync_names_of([copy.target.parts for copy in equal])
    for copy, digest in zip(there, digests, strict=True):
        if digest == files[copy].digest:
            yield copy, _done(copy, files[copy], "equal")
        elif not options.replace:
            yield copy, failed(copy, name_taken(copy))


def _sent(
    files: dict[FileCopy, SmallFile], options: CopyOptions, *, is_hidden: bool
) -> Iterator[tuple[FileCopy, FileOutcome]]:
    if not files:
        return
    options.rate.wait(sum(len(file.data) for file in files.values()), options.stop)
    options.require_going()
    tree = next(iter(files)).target.tree
    errors = tree.put_small(list(files.values()), replace=options.replace, is_hidden=is_hidden)
    for (copy, file), error in zip(files.items(), errors, strict=True):
        yield copy, _done(copy, file, "copied") if error is None else failed(copy, error)


def _done(copy: FileCopy, file: SmallFile, verdict: Literal["copied", "equal"]) -> FileOutcome:
    num_bytes = len(file.data)
    sent = num_bytes if verdict == "copied" else 0
    return FileOutcome(copy.source.shown, copy.target.shown, verdict, num_bytes, sent)


# --- Copies many files with several threads; a file that fails does not stop the others

_Task: TypeAlias = Callable[[], list[FileOutcome]]

# Files above this size are copied one after another, each by all threads.
_LARGE_BYTES: Final = 4 * CHUNK_BYTES


def copy_files(
    copies: Iterable[FileCopy], options: CopyOptions, *, is_hidden: bool
) -> Iterator[FileOutcome]:
    """Copy files; yield what became of each.

    When the iterator is closed, or an exception passes through it, ``options.stop`` is set, and
    all threads end at their next chunk. Unfinished files stay for the next try.

    Args:
        copies: Files of one source tree, for one target tree.
        options: Options of all copies.
        is_hidden: Whether a folder above the targets has an unfinished name.
    """
    sizes: dict[bool, list[FileCopy]] = {False: [], True: []}
    larger = []
    for copy in copies:
        if copy.num_bytes > _LARGE_BYTES:
            larger.append(copy)
        else:
            sizes[copy.num_bytes > SMALL_BYTES].append(copy)
    tasks: list[_Task] = [
        partial(_copied_small, batch, options, is_hidden=is_hidden)
        for batch in batches(sizes[False])
    ]
    tasks += [partial(_copied, copy, options, 1) for copy in sizes[True]]
    large: list[_Task] = [partial(_copied, copy, options, options.threads) for copy in larger]
    try:
        for outcome in chain(_in_threads(tasks, options), _in_turn(large)):
            # Every further file would fail as well, so the first one ends the copy.
            if isinstance(outcome.error, QuotaExceededError):
                raise outcome.error  # noqa: TRY301 - also for the sake of the threads
            yield outcome
    except BaseException:
        options.stop.set()
        raise


def _in_turn(tasks: Iterable[_Task]) -> Iterator[FileOutcome]:
    for task in tasks:
        yield from task()


def _in_threads(tasks: list[_Task], options: CopyOptions) -> Iterator[FileOutcome]:
    if len(tasks) < 2:
        yield from _in_turn(tasks)
        return
    pool = ThreadPoolExecutor(min(options.threads, len(tasks)), "pfs-copy")
    try:
        futures: list[Future[list[FileOutcome]]] = [pool.submit(task) for task in tasks]
        for future in futures:
            yield from future.result()
    except BaseException:
        options.stop.set()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _copied_small(
    copies: list[FileCopy], options: CopyOptions, *, is_hidden: bool
) -> list[FileOutcome]:
    try:
        return copy_small(copies, options, is_hidden=is_hidden)
    except TrainFeedError as error:
        return [failed(copy, error) for copy in copies]


def _copied(copy: FileCopy, options: CopyOptions, threads: int) -> list[FileOutcome]:
    try:
        return [copy_chunked(copy, options, threads=threads)]
    except TrainFeedError as error:
        return [failed(copy, error)]


# --- Copies folders: a new one appears whole by one rename, an existing one gets whole files


def copy_into_folder(source: Place, target: Place, options: CopyOptions) -> Iterator[FileOutcome]:
    """Copy what is in a folder into an existing one, file by file; each file is whole.

    Raises:
        StorageError: A folder cannot be listed or made.
    """
    listing = _Listing()
    listing.add(source, target, is_there=True)
    if target.parts:
        # The copy that named the folder may have been killed before the name was durable. A folder
        # above that may not be read cannot be one in which that copy has named it.
        with suppress(AccessDeniedError):
            target.tree.sync_names_of([target.parts])
    yield from listing.problems
    yield from copy_files(listing.copies, options, is_hidden=False)


def copy_new_folder(source: Place, target: Place, options: CopyOptions) -> Iterator[FileOutcome]:
    """Copy a folder under an unfinished name, and rename it when all files are there.

    If a file fails, the folder keeps its unfinished name, and the next try goes on with it.

    Raises:
        StorageError: A folder cannot be listed, made or renamed.
        CommitUnknownError: The rename failed, and the unfinished name is not there any more.
    """
    with unfinished_folder(source, target) as (hidden, is_resumed):
        faults.point("pfs.folder_made")
        yield from _filled(source, target, hidden, options, is_resumed=is_resumed)


def _filled(
    source: Place, target: Place, hidden: Place, options: CopyOptions, *, is_resumed: bool
) -> Iterator[FileOutcome]:
    """Copy all files into the unfinished folder; rename it if none failed."""
    # A kill may have cut a file of an earlier try; what the user has lies outside this folder.
    options = replace(options, replace=True)
    listing = _Listing(is_hidden=True)
    listing.add(source, hidden, is_there=is_resumed)
    for place in listing.extra:
        # Unfinished files stay: the copies below go on with them.
        if not is_unfinished_name(place.parts[-1]):
            place.tree.remove(place.parts, recursive=True)
    failures = 0
    outcomes = copy_files(listing.copies, options, is_hidden=True)
    for outcome in (*listing.problems, *_renamed(outcomes, hidden, target)):
        failures += outcome.verdict == "failed"
        yield outcome
    if failures:
        yield FileOutcome(source.shown, target.shown, "failed", error=_incomplete(target, failures))
        return
    for place in listing.extra:
        with suppress(NotFoundError):
            place.tree.remove(place.parts, recursive=True)
    faults.point("pfs.folder_filled")
    target.tree.sync_names(hidden.parts)
    faults.point("pfs.folder_before_name")
    _name(source, hidden, target)
    faults.point("pfs.folder_after_name")


def _name(source: Place, hidden: Place, target: Place) -> None:
    """Rename the unfinished folder; after a lost answer, say how the copy is repeated."""
    try:
        target.tree.rename(hidden.parts, target.parts, replace=False)
    except TrainFeedError as error:
        if is_there(hidden):
            raise
        raise CommitUnknownError(
            f"{target.shown}: all files were copied, and the unfinished folder was renamed, but"
            f" the rename ended with: {error}; look whether {target.shown} is there; a repeated"
            f" copy of {source.shown} would go below it; to compare the copy, repeat the command"
            f" with {source.shown}/. as its source"
        ) from error


def _renamed(
    outcomes: Iterator[FileOutcome], hidden: Place, target: Place
) -> Iterator[FileOutcome]:
    """Yield outcomes with the names that files have after the rename."""
    old, new = hidden.shown, target.shown
    for outcome in outcomes:
        yield replace(outcome, target=new + outcome.target.removeprefix(old))


@dataclass
class _Listing:
    """What a copy of a folder has to do.

    Attributes:
        is_hidden: Whether the target has an unfinished name; what an earlier try has left there is
            then removed if its kind is not that of the source.
        copies: The files.
        problems: Entries that are not copied.
        extra: Places in the target that are not in the source.
    """

    is_hidden: bool = False
    copies: list[FileCopy] = field(default_factory=list)
    problems: list[FileOutcome] = field(default_factory=list)
    extra: list[Place] = field(default_factory=list)

    def add(self, source: Place, target: Place, *, is_there: bool) -> None:
        """Note everything below ``source``, and make the folders below ``target``."""
        self._listed(source, target, source.tree.entries(source.parts), is_there=is_there)

    def _listed(
        self, source: Place, target: Place, entries: list[Entry], *, is_there: bool
    ) -> None:
        existing: dict[str, Entry] = {}
        if is_there:
            existing = {each.name: each for each in target.tree.entries(target.parts)}
        for entry in entries:
            if is_unfinished_name(entry.name):
                continue  # the copy of a file that another process makes
            place, has_name = source.joined(entry.name), existing.pop(entry.name, None)
            try:
                self._entry(place, target, entry, has_name)
            except TrainFeedError as error:
                self.problems.append(FileOutcome(place.shown, "", "failed", error=error))
        self.extra += [target.joined(name) for name in existing]

    def _entry(self, source: Place, above: Place, entry: Entry, existing: Entry | None) -> None:
        target = above.joined(entry.name)
        source.tree.require_names(source.parts)
        target.tree.require_names(target.parts)
        if entry.kind in (Kind.LINK, Kind.OTHER):
            raise FormatError(
                f"expected files and folders in a folder that is copied, got a"
                f" {'link' if entry.kind is Kind.LINK else 'special file'}; it was not copied;"
                " copy what it points to under a name of its own",
                path=source.shown,
            )
        if existing is not None and existing.kind is not entry.kind:
            self._clear(target, entry.kind, existing.kind)
            existing = None
        if entry.kind is Kind.FILE:
            self.copies.append(FileCopy(source, target, entry.num_bytes, existing))
            return
        # A folder that cannot be listed gets no copy.
        entries = source.tree.entries(source.parts)
        if existing is None:
            target.tree.make_folder(target.parts)
        self._listed(source, target, entries, is_there=existing is not None)

    def _clear(self, target: Place, expected: Kind, got: Kind) -> None:
        """Remove what has the name in an unfinished folder; elsewhere it is an error."""
        if self.is_hidden:
            target.tree.remove(target.parts, recursive=True)
            return
        raise ConflictError(
            f"{target.shown}: expected a free name or a {expected}, got a {got}; what has the name"
            " was kept; choose another target, or remove it"
        )


def _incomplete(target: Place, failures: int) -> StorageError:
    return StorageError(
        f"{target.shown}: the folder has no name yet, because {failures} files in it were not"
        " copied; the others are kept for the next try; look at the lines above, then repeat the"
        " command"
    )


# --- One call of ``cp``: plans what is copied, and copies it


def copy_places(
    sources: Sequence[Place], target: Place, options: CopyOptions
) -> Generator[FileOutcome, None, None]:
    """Copy files and folders as ``cp`` does; yield what became of each file.

    A file that fails does not stop the others. After each step, every target is complete or has
    its former content.

    Args:
        sources: Files, folders and patterns, of one tree or several.
        target: A folder, or the name of the copy.
        options: How files are copied.

    Raises:
        ConfigError: The target does not suit the sources; nothing was copied.
        QuotaExceededError: The disk or a quota is full; what was sent is kept.
        Stopped: ``options.stop`` was set.
    """
    files: list[FileCopy] = []
    folders: list[PlannedCopy] = []
    for planned in planned_copies(sources, target, options):
        if isinstance(planned, RefusedCopy):
            yield FileOutcome(planned.source.shown, "", "failed", error=planned.error)
        elif planned.entry.kind is Kind.FOLDER:
            folders.append(planned)
        else:
            size = planned.entry.num_bytes
            files.append(FileCopy(planned.source, planned.target, size, planned.existing))
    for group in _of_one_tree(files):
        yield from copy_files(group, options, is_hidden=False)
    for planned in folders:
        yield from _folder(planned, options)


def _of_one_tree(files: list[FileCopy]) -> list[list[FileCopy]]:
    groups: dict[int, list[FileCopy]] = {}
    for copy in files:
        groups.setdefault(id(copy.source.tree), []).append(copy)
    return list(groups.values())


def _folder(planned: PlannedCopy, options: CopyOptions) -> Iterator[FileOutcome]:
    copy = copy_new_folder if planned.existing is None else copy_into_folder
    try:
        yield from copy(planned.source, planned.target, options)
    except QuotaExceededError:
        raise
    except TrainFeedError as error:
        yield FileOutcome(planned.source.shown, planned.target.shown, "failed", error=error)
