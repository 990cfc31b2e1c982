"""Compares the files of a version with its manifest."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, TypeAlias

from trainfeed.errors import ChecksumError, FormatError, StorageError
from trainfeed.paths import open_plain

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Problem", "compare_file", "compare_files", "list_files", "read_arrow"]

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
