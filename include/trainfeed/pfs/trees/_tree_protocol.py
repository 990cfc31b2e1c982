"""The protocol of trees: what a copy asks of a machine, a mount or a server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from trainfeed.errors import TrainFeedError
from trainfeed.pfs.trees._digest_kind import DigestKind
from trainfeed.pfs.trees._tree_values import Entry, FileDigests, Parts, SmallFile, SourceState

__all__ = ["Source", "Target", "Tree"]


class Source(Protocol):
    """An open file that is read; several threads may read at once."""

    @property
    def state(self) -> SourceState:
        """State when the file was opened."""
        ...

    def read_into(self, offset: int, buffer: memoryview) -> int:
        """Fill ``buffer`` from ``offset``; return the bytes read, fewer only at the end.

        Raises:
            StorageError: The tree refused or failed.
        """
        ...

    def require_same(self) -> None:
        """Compare the file, and what has its name, with the state at its opening.

        Raises:
            FileReplacedError: The file was changed or replaced since.
        """
        ...

    def close(self) -> None:
        """Close the file; may be called twice."""
        ...


class Target(Protocol):
    """A file that is written under an unfinished name; several threads may write at once.

    One target is open for one unfinished name at a time.
    """

    def digests(self, kind: DigestKind = DigestKind.SHA256) -> tuple[bytes, ...]:
        """Return the digests of the chunks that an earlier try has left, read from the tree.

        The tuple ends with the last chunk that is there; empty if there is none. A chunk that is
        shorter than that of the source has the digest of its shorter bytes.

        Raises:
            StorageError: The tree refused or failed.
        """
        ...

    def write(self, offset: int, data: memoryview) -> None:
        """Write all of ``data`` at ``offset``.

        Raises:
            QuotaExceededError: The disk or a quota is full; the chunks that are there stay.
            StorageError: The tree refused or failed.
        """
        ...

    def commit(self, chunks: Sequence[bytes], kind: DigestKind = DigestKind.SHA256) -> None:
        """Sync the file, read it back, compare it, and give it its name.

        Args:
            chunks: Digest of each chunk of the source.
            kind: How they were digested.

        Raises:
            ChecksumError: The file does not have these chunks; the name is unchanged.
            FormatError: The number of chunks is not that of the source; the name is unchanged.
            ConflictError: The name is taken, and is not to be replaced.
            CommitUnknownError: The file may have its name; it takes no more bytes.
            StorageError: The tree refused or failed.
        """
        ...

    def close(self) -> None:
        """Close the file; without ``commit``, what was written stays for the next try."""
        ...


class Tree(Protocol):
    """Files and folders beneath one root.

    All calls raise ``NotFoundError`` if a folder on the way is missing, ``AccessDeniedError`` if
    the tree refuses or a link is on the way, and ``StorageError`` if it fails.
    """

    def show(self, parts: Parts) -> str:
        """Return the place as people type it, for messages.

        A folder may hold names that the tree refuses in every other call. They are shown with
        escapes.
        """
        ...

    def require_names(self, parts: Parts) -> None:
        """Refuse a place with a name that the tree does not allow; all other calls refuse it too.

        Raises:
            ConfigError: A name is not allowed.
        """
        ...

    def address(self, parts: Parts) -> str:
        """Return a text that is the same for the same place in every process."""
        ...

    def stat(self, parts: Parts) -> Entry:
        """Return the entry of a place.

        Raises:
            NotFoundError: Nothing has the name.
        """
        ...

    def entries(self, parts: Parts) -> list[Entry]:
        """Return the entries of a folder, sorted by name, unfinished ones included."""
        ...

    def make_folder(self, parts: Parts, *, parents: bool = False) -> None:
        """Make a folder; its name is durable after ``sync_names``, or after that of a file in it.

        Args:
            parts: Its place.
            parents: Whether missing folders above are made, and a folder that is there is kept.

        Raises:
            ConflictError: Something has the name.
        """
        ...

    def remove(self, parts: Parts, *, recursive: bool = False) -> None:
        """Remove a file or a link, or a folder; links are never followed.

        Args:
            parts: The place; never the root.
            recursive: Whether a folder is removed with everything in it.

        Raises:
            ConflictError: The place is a folder, and ``recursive`` is not set.
        """
        ...

    def rename(self, source: Parts, target: Parts, *, replace: bool) -> None:
        """Rename a file or folder in one step, and make the new name durable.

        Args:
            source: The present place.
            target: The new place.
            replace: Whether a file that has the name is replaced; a folder never is.

        Raises:
            ConflictError: The name is taken.
        """
        ...

    def sync_names(self, parts: Parts) -> None:
        """Make the names in a folder, and in all folders below it, durable before a rename."""
        ...

    def sync_names_of(self, files: Sequence[Parts]) -> None:
        """Make the names of files durable: a call that was killed may not have done it."""
        ...

    def open_source(self, parts: Parts) -> Source:
        """Open a plain file for reading.

        Raises:
            FormatError: The place is not that of a plain file.
        """
        ...

    def open_target(self, parts: Parts, state: SourceState, *, replace: bool) -> Target:
        """Open the unfinished file of a copy, which an earlier try may have left.

        Args:
            parts: The place that the complete file gets; the folder above exists.
            state: State of the source.
            replace: Whether a file that has the name at the end is replaced.

        Raises:
            ConflictError: Another copy of this source to this target runs, a folder has the name,
                or the name is taken and is not to be replaced.
        """
        ...

    def digests(self, parts: Parts) -> FileDigests:
        """Return the digests of a plain file; every byte is read where the file lies.

        Raises:
            FormatError: The place is not that of a plain file.
        """
        ...

    def get_small(self, files: Sequence[Parts]) -> list[bytes | TrainFeedError]:
        """Return the bytes of small files, or the error of each, in their order."""
        ...

    def put_small(
        self, files: Sequence[SmallFile], *, replace: bool, is_hidden: bool
    ) -> list[TrainFeedError | None]:
        """Write small files, sync them, read them back; return the error of each, or None.

        Args:
            files: Files with different places; the folders above them exist.
            replace: Whether a file that has the name is replaced.
            is_hidden: Whether a folder above the files has an unfinished name. Files are then
                written under their own names, which is faster, and what a kill leaves of them is
                not seen under a final name. Otherwise each file gets its name when it is whole.
        """
        ...

    def small_digests(self, files: Sequence[Parts]) -> list[bytes | None]:
        """Return SHA-256 of each small file, None for what is no plain file of at most 1 MiB."""
        ...
