"""Files of a POSIX tree: opened, read in chunks, written under an unfinished name, and named."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from typing import Final, TypeVar

from trainfeed.core import faults
from trainfeed.errors import (
    AccessDeniedError,
    ChecksumError,
    CommitUnknownError,
    ConflictError,
    FileReplacedError,
    FormatError,
    NotFoundError,
    StorageError,
    TrainFeedError,
)
from trainfeed.files import os_errors, storage_error
from trainfeed.serving.pfs.tree import (
    CHUNK_BYTES,
    DigestKind,
    Entry,
    Kind,
    SourceState,
    chunk_count,
    chunk_size,
    unfinished_file_name,
)

# --- The step that gives a whole file its name in a POSIX tree


def name_file(above: int, unfinished: str, name: str, *, replace: bool, shown: str) -> None:
    """Rename a synced file within its folder; ``sync_folder_at`` makes the name durable.

    Args:
        above: Descriptor of the folder.
        unfinished: Present name.
        name: Final name.
        replace: Whether a file that has the final name is replaced.
        shown: Place of the file, for messages.

    Raises:
        ConflictError: The name is taken by a folder, or by a file that is not to be replaced.
        StorageError: The system refused or failed.
    """
    with os_errors(shown):
        if replace:
            os.rename(unfinished, name, src_dir_fd=above, dst_dir_fd=above)
        else:
            link_file((above, unfinished), (above, name), shown=shown)
    faults.point("pfs.named")


def sync_folder_at(folder: int) -> None:
    """Make the names in a folder durable; ``folder`` may be open for its path only."""
    fd = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def mode_at(above: int, name: str) -> int | None:
    """Return the mode of what has a name, links not followed; None if nothing has it."""
    with suppress(FileNotFoundError):
        return os.stat(name, dir_fd=above, follow_symlinks=False).st_mode
    return None


def link_file(old: tuple[int, str], new: tuple[int, str], *, shown: str) -> None:
    """Rename a file to a free name; among any number of callers, one succeeds.

    Args:
        old: Descriptor of the folder that holds the file, and its name there.
        new: Descriptor of the folder of the new name, and the name.
        shown: The new place, for messages.

    Raises:
        ConflictError: The name is taken.
        OSError: The system refused or failed.
    """
    try:
        # A link fails if the name is taken; a rename would replace what has it.
        os.link(old[1], new[1], src_dir_fd=old[0], dst_dir_fd=new[0], follow_symlinks=False)
    except FileExistsError:
        # A network file system repeats a request whose answer was lost, and reports the name as
        # taken by its own first request. Then both names are of one file.
        if not os.path.samestat(_status(*old), _status(*new)):
            raise ConflictError(
                f"{shown}: the name was taken meanwhile; what has it was kept; choose another"
                " name, or allow that it is replaced"
            ) from None
    os.unlink(old[1], dir_fd=old[0])


def _status(above: int, name: str) -> os.stat_result:
    return os.stat(name, dir_fd=above, follow_symlinks=False)


# --- One call for each of several files or folders, by a few threads

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

# More do not help one server of names, and several batches are at work at once.
_THREADS: Final = 8


class ParallelCalls(ExitStack):
    """Threads for several rounds of calls; the context manager ends them.

    Args:
        count: Most calls of a round; one call needs no thread.
        is_far: Whether other machines answer; calls on a local disk run one after another.
    """

    def __init__(self, count: int, *, is_far: bool) -> None:
        super().__init__()
        self._threads: ThreadPoolExecutor | None = None
        if is_far and count > 1:
            self._threads = ThreadPoolExecutor(min(_THREADS, count), "pfs-files")
            self.callback(self._threads.shutdown, wait=True, cancel_futures=True)

    def each(self, call: Callable[[_Item], _Result], items: Iterable[_Item]) -> list[_Result]:
        """Return the results of a call for each item, in their order.

        The first exception of a call is raised; when the context has ended, all calls have.

        Args:
            call: The call, for many threads.
            items: Its arguments.
        """
        return list((map if self._threads is None else self._threads.map)(call, items))


# --- Gives new files and folders of an area to the owner of the folder that they are in

_Owner = tuple[int, int]
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def hand_over(above: int, fd: int) -> None:
    """Give an open file to the owner of its folder, if this process may; the mode stays.

    Args:
        above: Descriptor of the folder, which may be open for its path only.
        fd: Descriptor of the file.

    Raises:
        OSError: The system failed.
    """
    if (owner := _owner(os.fstat(above))) != _owner(os.fstat(fd)) and _may_give():
        os.fchown(fd, *owner)


def hand_over_folder(above: int, name: str) -> None:
    """Give a folder to the owner of the folder above, if this process may.

    The owner of the folder above may exchange the new folder for anything else, such as a second
    name of a file of another account. So only what was opened as a folder gets another owner.

    Args:
        above: Descriptor of the folder above.
        name: Name of the new folder.

    Raises:
        OSError: The system failed, or a link or a file has the name.
    """
    if _owner(os.fstat(above)) == (os.geteuid(), os.getegid()) or not _may_give():
        return
    fd = os.open(name, _FOLDER, dir_fd=above)
    try:
        hand_over(above, fd)
    finally:
        os.close(fd)


def _owner(found: os.stat_result) -> _Owner:
    return found.st_uid, found.st_gid


def _may_give() -> bool:
    return os.geteuid() == 0


# --- Kinds of entries of a POSIX folder, and the opening of files that refuses all other kinds

_READ: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC


def entry_of(name: str, found: os.stat_result) -> Entry:
    """Return the entry of a name."""
    kind = _kind_of(found.st_mode)
    return Entry(name, kind, found.st_size if kind is Kind.FILE else 0, found.st_mtime_ns)


def open_plain(above: int, name: str, *, follows: bool, shown: str) -> int:
    """Open a plain file for reading, without waiting for a pipe; return its descriptor.

    Args:
        above: Descriptor of the folder that holds it.
        name: Its name.
        follows: Whether a link is followed.
        shown: Its place, for messages.

    Raises:
        AccessDeniedError: A link has the name, and is not followed.
        FormatError: The name is not that of a plain file.
        OSError: The system refused or failed.
    """
    if not follows:
        _require_no_link(above, name, shown)
    fd = os.open(name, _READ if follows else _READ | os.O_NOFOLLOW, dir_fd=above)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise FormatError("expected a plain file, got another kind", path=shown)
    return fd


def require_free(above: int, name: str, *, replace: bool, shown: str) -> None:
    """Refuse a target that is a folder or a link, or is not to be replaced.

    Raises:
        ConflictError: The name is taken.
    """
    mode = mode_at(above, name)
    if mode is None or (replace and stat.S_ISREG(mode)):
        return
    expected = "a free name or a plain file" if replace else "a free name"
    raise ConflictError(
        f"{shown}: expected {expected}, got {_kind_of(mode)}; nothing was changed; choose another"
        " name, or remove what has this one"
    )


def _require_no_link(above: int, name: str, shown: str) -> None:
    # Only for the message: the flag of the opening refuses a link that comes here later.
    if stat.S_ISLNK(mode_at(above, name) or 0):
        raise AccessDeniedError(
            f"{shown} is a link, and links are not followed on shared storage; nothing was read;"
            " name the file itself"
        )


def _kind_of(mode: int) -> Kind:
    kinds = {stat.S_IFREG: Kind.FILE, stat.S_IFDIR: Kind.FOLDER, stat.S_IFLNK: Kind.LINK}
    return kinds.get(stat.S_IFMT(mode), Kind.OTHER)


# --- Digests of the chunks of an open file, computed by several threads

_HASHING_THREADS: Final = max(2, min(4, os.cpu_count() or 1))


def chunk_digests(
    fd: int, num_bytes: int, shown: str, kind: DigestKind = DigestKind.SHA256
) -> tuple[bytes, ...]:
    """Return the digest of each chunk of a file.

    Memory: one chunk for each of at most four threads.

    Args:
        fd: Descriptor, open for reading.
        num_bytes: Size of the file.
        shown: The file, for messages.
        kind: How chunks are digested.

    Raises:
        FileReplacedError: The file has become shorter.
        OSError: The system failed.
    """
    own = threading.local()

    def digest(index: int) -> bytes:
        if not hasattr(own, "buffer"):
            # Reused, because a new buffer of this size costs as many page faults as pages.
            own.buffer = bytearray(CHUNK_BYTES)
        view = memoryview(own.buffer)[: chunk_size(num_bytes, index)]
        if read_fully(fd, index * CHUNK_BYTES, view) != len(view):
            raise FileReplacedError(
                f"{shown}: expected {num_bytes} bytes, the file became shorter while it was read;"
                " nothing was changed; repeat the command when its writer has ended"
            )
        return kind.of(view)

    count = chunk_count(num_bytes)
    if count < 2:
        return tuple(map(digest, range(count)))
    with ThreadPoolExecutor(min(_HASHING_THREADS, count), "pfs-digest") as threads:
        return tuple(threads.map(digest, range(count)))


def read_fully(fd: int, offset: int, view: memoryview) -> int:
    """Fill ``view`` from ``offset``; return the bytes read, fewer only at the end of the file."""
    done = 0
    while done < len(view):
        count = os.preadv(fd, [view[done:]], offset + done)
        if not count:
            break
        done += count
    return done


# --- A file of a POSIX tree that is read, and compared at the end with its state at the beginning


class PosixSource:
    """An open plain file.

    Args:
        fd: Its descriptor, which this object closes.
        above: Descriptor of the folder that holds it, which this object closes.
        name: Its name there.
        identity: Identity of its place, for ``SourceState``.
        shown: Its place, for messages.
        follow: Whether ``name`` may be a link.
    """

    def __init__(
        self, fd: int, above: int, name: str, *, identity: str, shown: str, follow: bool
    ) -> None:
        self._fds = [fd, above]
        self._name = name
        self._shown = shown
        self._follow = follow
        self._found = os.fstat(fd)
        self.state = SourceState(self._found.st_size, self._found.st_mtime_ns, identity)

    def read_into(self, offset: int, buffer: memoryview) -> int:
        """Fill ``buffer`` from ``offset``; return the bytes read, fewer only at the end."""
        with os_errors(self._shown):
            return read_fully(self._fds[0], offset, buffer)

    def require_same(self) -> None:
        """Compare the file, and what has its name, with the state at its opening.

        Raises:
            FileReplacedError: The file was changed, replaced or removed since.
        """
        with os_errors(self._shown):
            now = os.fstat(self._fds[0])
        named = None
        with suppress(NotFoundError), os_errors(self._shown):
            named = os.stat(self._name, dir_fd=self._fds[1], follow_symlinks=self._follow)
        if _state(now) != _state(self._found) or named is None or _state(named) != _state(now):
            raise FileReplacedError(
                f"{self._shown}: expected no change during the copy, got {_what(now, named)};"
                " no name was given to the copy; repeat the command when its writer has ended"
            )

    def close(self) -> None:
        """Close the file; may be called twice."""
        while self._fds:
            os.close(self._fds.pop())


def _state(found: os.stat_result) -> tuple[int, int, int, int]:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _what(now: os.stat_result, named: os.stat_result | None) -> str:
    if named is None:
        return "a removed file"
    if (named.st_dev, named.st_ino) != (now.st_dev, now.st_ino):
        return "another file under its name"
    return "other bytes"


# --- A file of a POSIX tree that is written under an unfinished name, and named when it is whole

_MODE = 0o644
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class PosixTarget:
    """An unfinished file beside its target.

    Args:
        above: Descriptor of the folder that holds both, which this object closes.
        name: Name of the target.
        state: State of the source.
        replace: Whether a file that has the name is replaced.
        hands_over: Whether the file gets the owner of its folder.
        shown: Place of the target, for messages.

    Raises:
        ConflictError: Another copy of this source to this name runs.
        StorageError: The system refused or failed.
    """

    def __init__(
        self,
        above: int,
        name: str,
        state: SourceState,
        *,
        replace: bool,
        hands_over: bool,
        shown: str,
    ) -> None:
        self._name = name
        self._state = state
        self._replace = replace
        self._shown = shown
        self._unfinished = unfinished_file_name(name, state)
        # Whether another name than the unfinished one may be that of this file.
        self._is_named = False
        self._fds = [above]
        try:
            self._fds.append(_locked(above, self._unfinished, shown))
            if hands_over:
                with os_errors(shown):
                    hand_over(above, self._fds[1])
        except BaseException:
            self.close()
            raise

    def digests(self, kind: DigestKind = DigestKind.SHA256) -> tuple[bytes, ...]:
        """Return the digests of the chunks that an earlier try has left, read from the files."""
        fd = self._fds[1]
        with os_errors(self._shown):
            num_bytes = min(os.fstat(fd).st_size, self._state.num_bytes)
            return chunk_digests(fd, num_bytes, self._shown, kind)

    def write(self, offset: int, data: memoryview) -> None:
        """Write all of ``data`` at ``offset``; raises as ``Target.write`` says."""
        self._require_unfinished()
        with os_errors(self._shown):
            while data:
                count = os.pwrite(self._fds[1], data, offset)
                if not count:
                    raise StorageError(f"{self._shown}: the file takes no more bytes")
                data, offset = data[count:], offset + count

    def commit(self, chunks: Sequence[bytes], kind: DigestKind = DigestKind.SHA256) -> None:
        """Sync the file, read it back, compare it, and give it its name.

        Raises:
            ChecksumError: The file does not have these chunks; it stays unfinished.
            FormatError: The number of chunks is not that of the source; the file stays unfinished.
            ConflictError: The name is taken, and is not to be replaced.
            CommitUnknownError: The file may have its name; it takes no more bytes.
            StorageError: The system refused or failed.
        """
        self._require_unfinished()
        fd = self._fds[1]
        self._require_whole(fd, len(chunks))
        with os_errors(self._shown):
            # A longer file is one that another program has changed.
            os.ftruncate(fd, self._state.num_bytes)
            faults.point("pfs.before_sync")
            os.fsync(fd)
        faults.point("pfs.after_sync")
        self._require(fd, tuple(chunks), kind)
        faults.point("pfs.before_name")
        self._give_name()
        faults.point("pfs.after_name")

    def close(self) -> None:
        """Close the file, which drops its lock; may be called twice."""
        while self._fds:
            os.close(self._fds.pop())

    def _give_name(self) -> None:
        above, fd = self._fds
        self._is_named = True
        try:
            name_file(above, self._unfinished, self._name, replace=self._replace, shown=self._shown)
            with os_errors(self._shown):
                sync_folder_at(above)
        except TrainFeedError as error:
            with os_errors(self._shown):
                has_name = _has_name(fd, above, self._unfinished)
                self._is_named = not has_name or os.fstat(fd).st_nlink != 1
            if not self._is_named:
                raise
            raise CommitUnknownError(
                f"{error}; expected the folder to confirm the name of the complete file, which may"
                " be lost if the storage fails now; nothing more is written to the file; repeat"
                " the command, which compares what has the name"
            ) from error

    def _require_unfinished(self) -> None:
        if self._is_named:
            raise ConflictError(
                f"{self._shown}: expected an unfinished file, this one may have its final name;"
                " nothing was written; repeat the command, which compares what has the name"
            )

    def _require_whole(self, fd: int, count: int) -> None:
        """Refuse what cannot be the whole file, before any of its bytes is read."""
        expected = chunk_count(self._state.num_bytes)
        if count != expected:
            raise FormatError(
                f"{self._shown}: expected the digests of {expected} chunks, got {count}; no name"
                " was given to the copy; repeat the command"
            )
        with os_errors(self._shown):
            num_bytes = os.fstat(fd).st_size
        if num_bytes < self._state.num_bytes:
            raise ChecksumError(
                f"{self._shown}: expected a file of {self._state.num_bytes} bytes, read back"
                f" {num_bytes}; no name was given to the copy; repeat the command, which sends what"
                " is missing"
            )

    def _require(self, fd: int, chunks: tuple[bytes, ...], kind: DigestKind) -> None:
        with os_errors(self._shown):
            # Clean pages leave the cache, so the reads below are answered by the file system.
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            found = chunk_digests(fd, os.fstat(fd).st_size, self._shown, kind)
        if found != chunks:
            pairs = enumerate(zip(found, chunks, strict=False))
            differing = [index for index, (one, other) in pairs if one != other]
            raise ChecksumError(
                f"{self._shown}: expected {len(chunks)} chunks as they were written, read back"
                f" {len(found)} of which {len(differing)} differ, first {differing[:1]}; no name"
                " was given to the copy; repeat the command, which sends these chunks again"
            )


def _locked(above: int, name: str, shown: str) -> int:
    """Open an unfinished file, made if it is missing, and lock it."""
    while True:
        with os_errors(shown):
            fd = os.open(name, _FLAGS, _MODE, dir_fd=above)
        try:
            _lock(fd, shown)
            if _has_name(fd, above, name):
                if os.fstat(fd).st_nlink == 1:
                    return fd
                # Killed between its two names: what has the final name must not be written again.
                os.unlink(name, dir_fd=above)
        except BaseException:
            os.close(fd)
            raise
        # Another copy has finished between the two calls: its file has the final name now.
        os.close(fd)


def _lock(fd: int, shown: str) -> None:
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        raise FormatError("expected a plain unfinished file, got another kind", path=shown)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
            reason = f"the file cannot be locked: {error.strerror}"
            raise storage_error(StorageError, shown, reason) from error
        raise ConflictError(
            f"{shown}: another copy of the same source to this name runs; nothing was changed;"
            " wait until that copy has ended"
        ) from error


def _has_name(fd: int, above: int, name: str) -> bool:
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(fd), os.stat(name, dir_fd=above, follow_symlinks=False))
    return False
