"""New files, which get their name when they are complete, and what is written to them."""

from __future__ import annotations

import io
import os
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, BinaryIO, Final, Protocol, Self, cast

from trainfeed.core.datacenters import local_source, local_target
from trainfeed.errors import ConflictError, StorageError
from trainfeed.files.plain_files import FILE_MODE, FilePath, os_errors, path_of, unfinished_name

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer
    from typing_extensions import Buffer


# --- Writes bytes to new files, digests them, and syncs files and folders

_BUFFER_BYTES: Final = 1 << 20


class TargetFile(io.FileIO):
    """A new unbuffered file whose errors are ``StorageError`` and name its place.

    Args:
        path: The file; the name must be free, also of symbolic links.
        place: Path for errors; None for ``path``.
        mode: Mode of the file, before the umask.

    Raises:
        ConflictError: The name is taken.
        StorageError: The file cannot be made.
    """

    def __init__(
        self, path: FilePath, *, place: FilePath | None = None, mode: int = FILE_MODE
    ) -> None:
        path = local_target(path)
        self.place = path if place is None else place

        def opened(name: str, flags: int) -> int:
            return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, mode)

        with os_errors(self.place):
            super().__init__(os.fspath(path), "xb", opener=opened)

    def write(self, data: ReadableBuffer, /) -> int:
        """Write as many bytes as the system accepts, and return their number.

        Raises:
            QuotaExceededError: The disk is full.
            StorageError: The system refused for another reason.
        """
        try:
            # The context manager is entered only after an error: this runs once per write.
            return super().write(data)
        except OSError:
            with os_errors(self.place):
                raise


@contextmanager
def durable_file(path: FilePath) -> Iterator[BinaryIO]:
    """Write a new file into a folder that is named later; sync its bytes at the end.

    Raises:
        ConflictError: The name is taken.
        StorageError: The system refused.
    """
    with TargetFile(path) as raw:
        buffer = io.BufferedWriter(raw, _BUFFER_BYTES)
        try:
            yield cast("BinaryIO", buffer)
            buffer.flush()
            with os_errors(path):
                os.fsync(raw.fileno())
        finally:
            # Closing the buffer would flush it, fail again, and hide the first error.
            raw.close()


def sync_folder(path: FilePath) -> None:
    """Make the names in a folder durable, including renames into and out of it.

    Raises:
        StorageError: The folder could not be synced.
    """
    with os_errors(path):
        descriptor = os.open(local_source(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            # fsync of a file does not cover its name, which is an entry of the folder.
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def takes_no_more(path: FilePath | None) -> StorageError:
    """Return the error of a file that accepts no bytes, which would be asked again without end."""
    return StorageError(f"{path or 'an unnamed file'} takes no more bytes")


def write_all(file: BinaryIO, data: bytes | memoryview) -> None:
    """Write all of ``data``, also to a raw file, which may accept fewer bytes per call.

    Raises:
        QuotaExceededError: The disk is full.
        StorageError: The file refused the bytes.
    """
    rest = memoryview(data)
    path = path_of(file)
    with os_errors(path):
        while rest:
            num_bytes = file.write(rest)
            if not num_bytes:
                raise takes_no_more(path)
            rest = rest[num_bytes:]


class Digest(Protocol):
    """A digest object of ``hashlib`` or ``xxhash``."""

    def update(self, data: memoryview, /) -> None:
        """Add further bytes."""
        ...

    def hexdigest(self) -> str:
        """Return the digest of all bytes so far, in hex."""
        ...


class DigestedFile(io.RawIOBase):
    """A write-only binary file that counts and digests the bytes the underlying file accepts.

    Args:
        file: The underlying file, raw or buffered; its owner closes it.
        digest: A new digest object.

    Attributes:
        num_bytes: Bytes written so far.
    """

    def __init__(self, file: BinaryIO, digest: Digest) -> None:
        super().__init__()
        self.num_bytes = 0
        self._file = file
        self._digest = digest

    @property
    def hexdigest(self) -> str:
        """Digest of the bytes written so far, in hex."""
        return self._digest.hexdigest()

    def writable(self) -> bool:
        """Whether ``write`` works: always."""
        return True

    def tell(self) -> int:
        """Return the number of bytes written."""
        return self.num_bytes

    def write(self, data: Buffer, /) -> int:
        """Append ``data`` as far as the file accepts it; return the number of bytes accepted."""
        view = memoryview(data).cast("B")
        num_bytes = self._file.write(view)
        # A raw file may accept fewer bytes than given; the caller writes the rest again.
        self._digest.update(view[:num_bytes])
        self.num_bytes += num_bytes
        return num_bytes


# --- Writes several pieces to a plain file with one call

# The system takes up to 1024 pieces with a call.
_MAX_PIECES: Final = 512


def can_gather(file: BinaryIO) -> bool:
    """Return whether ``file`` is a plain unbuffered file; others may do anything in ``write``."""
    return type(file) in (io.FileIO, TargetFile)


def write_gathered(file: BinaryIO, pieces: Sequence[bytes | memoryview]) -> None:
    """Write all pieces to a file that ``can_gather``, one after another.

    Raises:
        QuotaExceededError: The disk is full.
        StorageError: The file refused the bytes.
    """
    rest = [memoryview(piece) for piece in pieces if len(piece)]
    path = file.place if isinstance(file, TargetFile) else path_of(file)
    with os_errors(path):
        while rest:
            num_bytes = os.writev(file.fileno(), rest[:_MAX_PIECES])
            if not num_bytes:
                raise takes_no_more(path)
            rest = _after(rest, num_bytes)


def _after(pieces: list[memoryview], num_bytes: int) -> list[memoryview]:
    """Return what follows the first ``num_bytes`` of pieces."""
    for number, piece in enumerate(pieces):
        if num_bytes < len(piece):
            return [piece[num_bytes:], *pieces[number + 1 :]]
        num_bytes -= len(piece)
    return []


# --- New files that get their name when they are complete; all local files are made this way


class UnfinishedFile:
    """A file with an unfinished name, which gets its final name when it is complete.

    A file that is dropped before ``claim`` or ``replace`` is removed, at the latest when the
    interpreter ends; only a killed process leaves its unfinished file. The context manager removes
    a file that has no final name at the end of the block.

    Args:
        path: The final name; errors show it.
        unfinished: The unfinished name, on the same file system; None for ``<path>.<hex>.tmp``.
        mode: Mode of the file, before the umask.
        buffer_bytes: Size of the write buffer; 0 for none.

    Attributes:
        file: The open file, valid until the file has its final name; closing it is not required.

    Raises:
        StorageError: The file cannot be made.
    """

    def __init__(
        self,
        path: FilePath,
        *,
        unfinished: FilePath | None = None,
        mode: int = FILE_MODE,
        buffer_bytes: int = 0,
    ) -> None:
        self._path = Path(local_target(path))
        self._unfinished = (
            self._path.with_name(unfinished_name(self._path.name))
            if unfinished is None
            else Path(local_target(unfinished))
        )
        raw = TargetFile(self._unfinished, place=self._path, mode=mode)
        file = io.BufferedWriter(raw, buffer_bytes) if buffer_bytes else raw
        self.file: BinaryIO = cast("BinaryIO", file)
        # The finalizer must not refer to self, which would keep it alive: it gets the parts it
        # needs. The process id keeps forked children from removing the file of their parent.
        self._drop = weakref.finalize(self, _drop, raw, self._unfinished, os.getpid())
        self._is_synced = False

    def set_mode(self, mode: int) -> None:
        """Set the mode of the file regardless of the umask; before ``claim`` or ``replace``."""
        with os_errors(self._path):
            os.fchmod(self.file.fileno(), mode)

    def sync(self) -> None:
        """Make the bytes durable; nothing may be written afterwards.

        Raises:
            QuotaExceededError: The disk is full.
            StorageError: The bytes could not be synced. Do not retry: the kernel reports a failed
                write-back once, so a second fsync would succeed although the bytes are lost.
        """
        with os_errors(self._path):
            self.file.flush()
            os.fsync(self.file.fileno())
        self._is_synced = True

    def claim(self) -> bool:
        """Give the file its final name durably, unless the name is taken; then drop the file.

        Returns:
            Whether the file has the name; False if anything else had it.

        Raises:
            StorageError: Syncing or naming failed. The final name is unchanged, or names the
                complete file; the unfinished file is removed.
        """
        with self._naming():
            is_ours = claim_name(self._unfinished, self._path)
        sync_folder(self._path.parent)
        return is_ours

    def replace(self, *, is_folder_synced: bool = True) -> None:
        """Give the file its final name durably, replacing a file that has the name.

        Args:
            is_folder_synced: Whether to sync the folder; False if the caller syncs it once for
                many files.

        Raises:
            ConflictError: A folder has the name.
            StorageError: As for ``claim``.
        """
        with self._naming():
            # A rename is atomic: readers see the old file or the complete new one.
            self._unfinished.replace(self._path)
        if is_folder_synced:
            sync_folder(self._path.parent)

    def abandon(self) -> None:
        """Remove the file unless it has its final name; may be called twice."""
        self._drop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.abandon()

    @contextmanager
    def _naming(self) -> Iterator[None]:
        try:
            if not self._is_synced:
                self.sync()
            with os_errors(self._path):
                yield
        finally:
            self.abandon()


class NewFile(UnfinishedFile):
    """A file that gets its name when it is complete, and only if the name is free.

    The context manager commits at the end of the block, and abandons the file after an exception.
    Arguments are those of ``UnfinishedFile``.

    Raises:
        ConflictError: The name is taken.
        StorageError: The file cannot be made.
    """

    def __init__(self, path: FilePath, *, buffer_bytes: int = 0) -> None:
        path = local_target(path)
        with os_errors(path):
            # A check before any byte is written; ``claim`` refuses a name that is taken later.
            is_taken = Path(path).exists()
        if is_taken:
            raise ConflictError(f"{path} exists; choose another name, or delete it first")
        super().__init__(path, buffer_bytes=buffer_bytes)

    def commit(self) -> None:
        """Make the bytes and their name durable.

        Raises:
            ConflictError: The name was taken meanwhile; the new file is removed.
            StorageError: As for ``claim``.
        """
        if not self.claim():
            raise ConflictError(
                f"{self._path} was made by another process meanwhile; the new file was dropped;"
                " choose another name, or delete it first"
            )

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None:
            self.commit()
        else:
            self.abandon()


def claim_name(unfinished: FilePath, path: FilePath) -> bool:
    """Give a complete file a second name by a hard link; return whether the file has it now.

    Args:
        unfinished: The file, under its only name.
        path: The second name, on the same file system. A file that already has it is kept.

    Raises:
        OSError: The link failed for another reason than a taken name.
    """
    try:
        # A link fails if the name is taken; a rename would replace the file of another process.
        Path(local_target(path)).hardlink_to(unfinished)
    except FileExistsError:
        # A network file system repeats a request whose answer was lost, and then reports the name
        # as taken by its own first request. A link count of 2 shows that this happened.
        return Path(unfinished).lstat().st_nlink > 1
    return True


def _drop(raw: io.FileIO, unfinished: Path, pid: int) -> None:
    # Errors are ignored: after a rename the file is gone, and otherwise the first error says more.
    # The housekeeping recognizes a remaining file by its name.
    with suppress(OSError):
        raw.close()
    # A forked child closes its copy of the descriptor, but the parent still writes the file.
    if os.getpid() == pid:
        with suppress(OSError):
            unfinished.unlink()


# --- Base class of the writers of record files: a path or an open file as target, closed once

# Pieces are written together once they have this size: larger calls gain nothing, and the pieces
# would leave the cache before they are written.
_GATHERED_BYTES: Final = 2 << 20
# Small pieces are not kept in any number either.
_GATHERED_PIECES: Final = 512


class TargetWriter(ABC):
    """Writes to a path, whose file appears when the writer is closed, or to an open file.

    The context manager closes the writer at the end of the block, and drops the file after an
    exception. After an error of the file the writer is closed; do not use the bytes written so
    far.

    Args:
        target: A path; or an open binary file, written from its current position and left open.

    Raises:
        ConflictError: The path is taken.
    """

    def __init__(self, target: FilePath | BinaryIO) -> None:
        self._new_file: NewFile | None = None
        if isinstance(target, str | os.PathLike):
            # The path is written as an unfinished file, and named by ``close``.
            self._new_file = NewFile(target)
            target = self._new_file.file
        self._file: BinaryIO | None = target
        self._waiting: list[bytes | memoryview] = []
        self._waiting_bytes = 0

    def close(self) -> None:
        """Write the buffered rest; sync and name the file if the target is a path.

        A closed writer is left as it is.

        Raises:
            ConflictError: The path was taken meanwhile.
            QuotaExceededError: The disk is full.
            StorageError: The file refused the bytes.
        """
        if self._file is None:
            return
        self._write_rest()
        self._write_waiting()
        self._end()
        if self._new_file is not None:
            self._new_file.commit()

    def __enter__(self) -> Self:
        """Return the writer itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close after success, drop the file after an exception."""
        if kind is None:
            self.close()
        else:
            self._abandon()

    @abstractmethod
    def _write_rest(self) -> None:
        """Pass the buffered rest of the format to ``_put`` or ``_put_later``."""

    def _put(self, *pieces: bytes | memoryview) -> None:
        file = self._require_open()
        try:
            for piece in pieces:
                write_all(file, piece)
        except BaseException:
            # The file may end in part of a record: readers would not find a record after it.
            self._abandon()
            raise

    def _put_later(self, *pieces: bytes | memoryview) -> None:
        """Write pieces, a plain file's together with further ones; their bytes must not change.

        A writer uses either this or ``_put``: the order of bytes is that of calls of one of them.
        """
        if not can_gather(self._require_open()):
            self._put(*pieces)
            return
        self._waiting += pieces
        self._waiting_bytes += sum(map(len, pieces))
        if self._waiting_bytes >= _GATHERED_BYTES or len(self._waiting) >= _GATHERED_PIECES:
            self._write_waiting()

    def _write_waiting(self) -> None:
        try:
            if self._waiting:
                write_gathered(self._require_open(), self._waiting)
        except BaseException:
            self._abandon()
            raise
        self._forget_waiting()

    def _forget_waiting(self) -> None:
        self._waiting, self._waiting_bytes = [], 0

    def _end(self) -> None:
        self._file = None
        self._forget_waiting()

    def _abandon(self) -> None:
        self._end()
        if self._new_file is not None:
            self._new_file.abandon()

    def _require_open(self) -> BinaryIO:
        if self._file is None:
            raise ValueError("the writer is closed")
        return self._file
