"""Trees of files that copies read and write: one protocol for machines, mounts and servers."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol, TypeAlias

import xxhash

from trainfeed.core.datacenters import PfsPath
from trainfeed.core.printable_text import printable
from trainfeed.errors import ConfigError, TrainFeedError

# --- Values that trees give and take: entries, states of sources, digests of chunks, small files

# Names from the root of a tree to a file or folder; empty for the root itself.
Parts: TypeAlias = tuple[str, ...]

CHUNK_BYTES: Final = 4 << 20
# Files of at most this size travel many in one call.
SMALL_BYTES: Final = 1 << 20

_UNFINISHED: Final = re.compile(r"\.pfs[-.][0-9a-f.-]*[0-9a-f]{32}\.tmp")


class Kind(StrEnum):
    """Kind of an entry; links are never followed, and other kinds never opened."""

    FILE = "file"
    FOLDER = "folder"
    LINK = "link"
    OTHER = "other"


@dataclass(frozen=True)
class Entry:
    """One name in a folder.

    Attributes:
        name: The name; that of the tree for its root.
        kind: What has the name.
        num_bytes: Size of a file, 0 for everything else.
        modified_ns: Time of the last modification, in nanoseconds since 1970.
    """

    name: str
    kind: Kind
    num_bytes: int
    modified_ns: int


@dataclass(frozen=True)
class SourceState:
    """State of a source file, from which a later try recognises the copy of an earlier one.

    Attributes:
        num_bytes: Size.
        modified_ns: Time of the last modification, in nanoseconds since 1970.
        identity: 32 hex digits that stand for the place of the source, the same in every try.
    """

    num_bytes: int
    modified_ns: int
    identity: str


@dataclass(frozen=True)
class FileDigests:
    """Digests of a file.

    Attributes:
        num_bytes: Size.
        chunks: Digest of each chunk of ``CHUNK_BYTES``, the last one as long as it is; SHA-256
            unless another kind was asked for.
    """

    num_bytes: int
    chunks: tuple[bytes, ...]

    @property
    def sha256_of_chunks(self) -> str:
        """SHA-256, in hex, of the digests of all chunks in their order; the digest of the file."""
        return hashlib.sha256(b"".join(self.chunks)).hexdigest()


@dataclass(frozen=True)
class SmallFile:
    """A whole file of at most ``SMALL_BYTES``.

    Attributes:
        parts: Its place in a tree.
        data: Its bytes.
    """

    parts: Parts
    data: bytes

    @property
    def digest(self) -> bytes:
        """SHA-256 of the bytes."""
        return hashlib.sha256(self.data).digest()


def chunk_count(num_bytes: int) -> int:
    """Return the number of chunks of a file; 0 for an empty one."""
    return -(-num_bytes // CHUNK_BYTES)


def chunk_size(num_bytes: int, index: int) -> int:
    """Return the size in bytes of chunk ``index`` of a file of ``num_bytes``."""
    return min(CHUNK_BYTES, num_bytes - index * CHUNK_BYTES)


def is_unfinished_name(name: str) -> bool:
    """Return whether this is the name of an unfinished file or folder of a copy."""
    return _UNFINISHED.fullmatch(name) is not None


def unfinished_file_name(name: str, state: SourceState) -> str:
    """Return the name of the unfinished copy of a source beside its target.

    The name depends on target and source, so the next try finds it. Its length does not depend on
    the name of the target, which may have all the bytes that a file system allows.

    Args:
        name: Name of the target, the last of its parts.
        state: State of the source.
    """
    text = f"{name}\0{state.num_bytes}\0{state.modified_ns}\0{state.identity}"
    return f".pfs.{hashlib.sha256(text.encode(errors='surrogateescape')).hexdigest()[:32]}.tmp"


# --- Names in an area of shared storage: which ones calls refuse, and how messages show them


def shown_in_area(area: PfsPath, parts: Parts, *, is_current: bool) -> str:
    """Return a place as people type it; names that are refused are shown with escapes.

    Args:
        area: The area, without parts.
        parts: Names below the area, of any characters.
        is_current: Whether the area is in the data centre of ``pfs://`` paths.
    """
    try:
        return area.joined(*parts).shown(is_current=is_current)
    except ConfigError:
        return printable("/".join((area.shown(is_current=is_current), *parts)))


def address_in_area(area: PfsPath, parts: Parts) -> str:
    """Return the complete path of a place, which is the same on a mount and behind a server.

    Args:
        area: The area, without parts.
        parts: Names below the area, of any characters.
    """
    return "/".join((str(area), *parts))


def require_area_names(area: PfsPath, parts: Parts, *, is_current: bool) -> None:
    """Refuse a place with a name that shared storage does not allow; see ``shown_in_area``.

    Raises:
        ConfigError: A name is not allowed.
    """
    try:
        area.joined(*parts)
    except ConfigError as error:
        shown = shown_in_area(area, parts, is_current=is_current)
        raise ConfigError(f"{shown}: {error}") from error


# --- Kinds of digests of chunks: one that nobody can forge, and a fast one against accidents


class DigestKind(StrEnum):
    """How bytes are digested.

    ``SHA256`` says that two files are equal, whoever made them. ``XXH3`` says that bytes are still
    those that this copy sent or read: it finds every accident and takes a fortieth of the time, but
    bytes that have a given digest can be made on purpose.
    """

    SHA256 = "sha256"
    XXH3 = "xxh3-128"

    @property
    def num_bytes(self) -> int:
        """Size of a digest in bytes."""
        return 32 if self is DigestKind.SHA256 else 16

    def of(self, data: bytes | bytearray | memoryview) -> bytes:
        """Return the digest of bytes; other threads run meanwhile."""
        if self is DigestKind.SHA256:
            return hashlib.sha256(data).digest()
        return xxhash.xxh3_128_digest(data)


# --- The protocol of trees: what a copy asks of a machine, a mount or a server


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
