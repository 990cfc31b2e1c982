"""Folders that appear whole by one rename, and the check of their files by their manifest."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, BinaryIO, Final, Self, TypeAlias

from trainfeed.core import canonical_json, faults
from trainfeed.errors import (
    ChecksumError,
    CommitUnknownError,
    ConflictError,
    FormatError,
    NotFoundError,
    StorageError,
)
from trainfeed.files import (
    DigestedFile,
    UnfinishedFile,
    make_folders,
    open_plain,
    os_errors,
    read_plain,
    unfinished_name,
    walk,
)
from trainfeed.files.stores import posix
from trainfeed.files.stores.posix import map_errors
from trainfeed.versions.layout import MANIFEST, MANIFEST_DIGEST, check_name

if TYPE_CHECKING:
    import pyarrow as pa


# --- Compares the files of a version with its manifest

# The problems of a file: wrong bytes, or bytes that cannot be read.
Problem: TypeAlias = FormatError | StorageError

_HASH_BLOCK_BYTES: Final = 4 << 20
# Most files that are read at once, and the bytes from which on threads are worth their start.
_MOST_THREADS: Final = 4
_LEAST_BYTES: Final = 16 << 20
# How often a file is opened that another process replaces each time.
_MOST_OPENS: Final = 8


def list_files(folder: Path) -> Iterator[str]:
    """Yield the relative names of all files below ``folder``; links are files."""
    for entry in folder.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            yield from (f"{entry.name}/{name}" for name in list_files(entry))
        else:
            yield entry.name


def compare_file(path: Path, num_bytes: int, sha256: str) -> Iterator[Problem]:
    """Yield the problem of a file, if there is one."""
    try:
        _verify_file(path, num_bytes, sha256)
    except (FormatError, StorageError) as error:
        yield error


def compare_files(files: Sequence[tuple[Path, int, str]]) -> Iterator[Problem]:
    """Yield the problems of files, in their order; large ones are read by several threads.

    Args:
        files: Path, number of bytes, and SHA-256 in hex of each.
    """
    threads = min(_MOST_THREADS, len(files), len(os.sched_getaffinity(0)))
    if threads < 2 or sum(num_bytes for _, num_bytes, _ in files) < _LEAST_BYTES:
        for file in files:
            yield from compare_file(*file)
        return
    # The interpreter is free while a block is read or digested.
    pool = ThreadPoolExecutor(threads, thread_name_prefix="trainfeed-digest")
    try:
        for found in pool.map(lambda file: list(compare_file(*file)), files):
            yield from found
    finally:
        # Who stops at the first problem does not wait for files that nobody reads yet.
        pool.shutdown(cancel_futures=True)


def read_arrow(path: Path, schema: pa.Schema, num_bytes: int, sha256: str) -> pa.Table:
    """Read an Arrow file; its size is compared with ``num_bytes`` before it is read.

    Raises:
        NotFoundError: The file is missing.
        ChecksumError: The file has another size or SHA-256.
        FormatError: The content is not columns of ``schema`` without nulls.
        StorageError: The file system refused or failed.
    """
    with open_plain(path, follow=False) as file:
        _check_size(file, path, num_bytes)
        data = file.read(num_bytes)
    actual = hashlib.sha256(data).hexdigest()
    if actual != sha256:
        raise ChecksumError(f"expected SHA-256 {sha256}, got {actual}", path=str(path))
    return _parse(data, schema, path)


def _verify_file(path: Path, num_bytes: int, sha256: str) -> None:
    with _open_named(path) as file:
        _check_size(file, path, num_bytes)
        digest = hashlib.sha256()
        while block := file.read(_HASH_BLOCK_BYTES):
            digest.update(block)
    if digest.hexdigest() != sha256:
        raise ChecksumError(f"expected SHA-256 {sha256}, got {digest.hexdigest()}", path=str(path))


@contextmanager
def _open_named(path: Path) -> Iterator[BinaryIO]:
    """Open a file that has this name and no other.

    Two publishers of one plan write the same files into one folder: a file that the other one
    replaced between opening and looking has no name, and the one that took its place is opened.
    """
    for _ in range(_MOST_OPENS):
        with open_plain(path, follow=False) as file:
            names = os.fstat(file.fileno()).st_nlink
            if names == 1:
                yield file
                return
        if names > 1:
            got = f"one with {names}: others may change it"
            raise FormatError(f"expected a plain file with one name, got {got}", path=str(path))
    raise FormatError(
        "expected a file that stays, got one replaced again and again", path=str(path)
    )


def _check_size(file: BinaryIO, path: Path, num_bytes: int) -> None:
    size = os.fstat(file.fileno()).st_size
    if size != num_bytes:
        raise ChecksumError(f"expected {num_bytes} bytes, got {size}", path=str(path))


def _parse(data: bytes, schema: pa.Schema, path: Path) -> pa.Table:
    # Whoever only compares bytes, or reads a manifest, does not wait for Arrow.
    import pyarrow as pa

    try:
        table = pa.ipc.open_file(pa.BufferReader(data)).read_all()
        table.validate(full=True)
        names = table.schema.names
    # pyarrow raises some errors about damaged bytes as OSError.
    except (pa.ArrowException, OSError, UnicodeError) as error:
        raise FormatError(f"expected an Arrow file: {error}", path=str(path)) from error
    if not table.schema.equals(schema) or any(c.null_count for c in table.columns):
        raise FormatError(
            f"expected the columns {schema.names} without nulls, got {names} of other"
            " types, or with nulls",
            path=str(path),
        )
    return table


# --- Staged folders: filled where no reader looks, and published by one rename (versions, models)

_BUFFER_BYTES: Final = 1 << 20
_FOLDER_MODE: Final = 0o755


class StagedFile(DigestedFile):
    """A binary file that appears in a staged folder when it is complete.

    Use as a context manager; leaving with an exception removes the file. The folder itself is
    synced later, by ``seal_folder``.

    Args:
        staged: The folder that is to be published; exists, inside a staging folder.
        name: Final relative path, with or without subfolders, as in ``quarantine/part.arrow``.
        mode: Permissions of the finished file.

    Attributes:
        num_bytes: Number of bytes written so far.
        sha256: SHA-256 of the bytes written so far, in hex.
    """

    def __init__(self, staged: Path, name: str, *, mode: int) -> None:
        tmp = staged.parent / "tmp"
        with os_errors(tmp):
            make_folders(tmp)
        self._staged = staged
        self._target = self._staged.joinpath(*map(check_name, name.split("/")))
        self._mode = mode
        self._new = UnfinishedFile(
            self._target,
            unfinished=tmp / unfinished_name(staged.name),
            mode=0o600,
            buffer_bytes=_BUFFER_BYTES,
        )
        super().__init__(self._new.file, hashlib.sha256())

    @property
    def sha256(self) -> str:
        """SHA-256 of the bytes written so far, in hex."""
        return self.hexdigest

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with self._new:
            if error is None:
                self._finish()

    def _finish(self) -> None:
        self._new.set_mode(self._mode)
        self._new.sync()
        faults.point("staging.before_rename")
        # Only folders below the staged folder are created, never the staged folder: after the
        # commit it is gone, and an earlier attempt that still runs must not bring it back.
        for folder in reversed(self._target.relative_to(self._staged).parents[:-1]):
            with os_errors(self._target):
                (self._staged / folder).mkdir(_FOLDER_MODE, exist_ok=True)
        self._new.replace(is_folder_synced=False)


def seal_folder(staged: Path) -> None:
    """Make names as durable as contents: sync every folder, inner ones first.

    Raises:
        StorageError: The file system refused or failed.
    """
    folders = [path for path in walk(staged) if path.is_dir()]
    for folder in [*sorted(folders, reverse=True), staged]:
        # Readers run under other accounts, so the mode must not depend on the umask.
        folder.chmod(_FOLDER_MODE)
        posix.sync_dir(folder)


def commit_folder(staged: Path, target: Path) -> bool:
    """Rename a sealed folder to the name that readers know: the commit.

    Args:
        staged: The folder.
        target: Path after the commit; its parent folder is created.

    Returns:
        False when ``target`` exists already; nothing was moved then.

    Raises:
        CommitUnknownError: The file system did not tell whether the rename took place; a repeated
            call finds out.
        StorageError: The file system refused or failed.
    """
    # The folder above must be durable before anything is renamed into it.
    posix.make_public_dir(target.parent)
    posix.sync_dir(target.parent.parent)
    try:
        posix.rename_directory(staged, target)
    except ConflictError:
        return False
    return True


def confirm_folder(target: Path, staging: Path) -> None:
    """Make the commit durable; call it also when the version was found published already.

    An earlier attempt may have been killed between its rename and this step.

    Args:
        target: The published folder.
        staging: The staging folder that the staged folder was in.

    Raises:
        CommitUnknownError: The file system did not confirm it.
    """
    try:
        posix.sync_dir(target.parent)
        posix.sync_dir(staging)
    except (StorageError, OSError) as error:
        raise CommitUnknownError(
            f"{target} was renamed into place, but the file system did not confirm it:"
            f" {error}; nothing was deleted; run the task again: it first looks whether the"
            " version is there"
        ) from error


# --- The two manifest files of a published folder, equal for versions of data sets and of models

_SHA256: Final = re.compile(rb"[0-9a-f]{64}")
# 64 digits and a newline, with room for the blanks of an editor.
_DIGEST_BYTES: Final = 256
_MODE: Final = 0o444


def write_manifest_file(staged: Path, manifest: bytes) -> None:
    """Write ``MANIFEST.json`` and ``MANIFEST.sha256`` into a staged folder.

    Raises:
        StorageError: The file system refused or failed.
    """
    with StagedFile(staged, MANIFEST, mode=_MODE) as file:
        file.write(manifest)
    with StagedFile(staged, MANIFEST_DIGEST, mode=_MODE) as digest:
        digest.write(f"{file.sha256}\n".encode())


def read_manifest_file(folder: Path, *, what: str) -> tuple[bytes, str]:
    """Return the bytes of a published folder's manifest, and their verified SHA-256 in hex.

    Args:
        folder: The published folder.
        what: Kind of the folder for messages, such as "version" or "model".

    Raises:
        NotFoundError: A manifest file is missing.
        ChecksumError: The manifest was changed after its publication.
        FormatError: ``MANIFEST.sha256`` holds no digest.
        StorageError: The file system refused or failed.
    """
    path = f"{folder}/{MANIFEST}"
    try:
        data = read_plain(path, follow=False, max_bytes=canonical_json.MAX_BYTES)
        promised = _read_digest(f"{folder}/{MANIFEST_DIGEST}")
    except NotFoundError as error:
        raise NotFoundError(f"{folder} is not a {what}: {error}") from error
    actual = hashlib.sha256(data).hexdigest()
    if actual != promised:
        raise ChecksumError(f"expected a manifest with SHA-256 {promised}, got {actual}", path=path)
    return data, actual


def folder_problems(
    folder: Path, expected: Mapping[str, tuple[int, str]], own: Collection[str]
) -> Iterator[Problem]:
    """Yield every difference between a published folder and its manifest.

    Args:
        folder: The published folder.
        expected: Relative path of each file → (number of bytes, SHA-256 in hex).
        own: Files that the manifest does not list: the manifest files themselves.
    """
    try:
        with map_errors(folder):
            present = set(list_files(folder))
    except StorageError as error:
        yield error
        return
    for name in sorted(expected.keys() - present):
        yield FormatError(f"file {name!r} of the manifest is missing", path=str(folder))
    for name in sorted(present - expected.keys() - set(own)):
        yield FormatError(f"file {name!r} is not in the manifest", path=str(folder))
    names = sorted(expected.keys() & present)
    yield from compare_files([(folder / name, *expected[name]) for name in names])


def _read_digest(path: str) -> str:
    digest = read_plain(path, follow=False, max_bytes=_DIGEST_BYTES).strip()
    if not _SHA256.fullmatch(digest):
        raise FormatError(f"expected 64 hex digits, got {digest[:80]!r}", path=path)
    return digest.decode()
