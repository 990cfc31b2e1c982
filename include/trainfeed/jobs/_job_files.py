"""Files that a job has written, each with its size and the SHA-256 of its bytes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final

from trainfeed.errors import ChecksumError
from trainfeed.paths import open_plain, os_errors, walk

__all__ = [
    "ResultFile",
    "digested",
    "digested_below",
    "files_from_json",
    "files_to_json",
    "verify_files",
]

_CHUNK_BYTES: Final = 1 << 20


@dataclass(frozen=True)
class ResultFile:
    """Size and digest of a file of a job.

    Attributes:
        size: Number of bytes.
        sha256: SHA-256 in hex.
    """

    size: int
    sha256: str


def digested(path: Path) -> ResultFile:
    """Read a file and return its size and digest.

    Raises:
        NotFoundError: There is no such file.
        StorageError: The file cannot be read, or is no plain file.
    """
    digest, size = hashlib.sha256(), 0
    with os_errors(path), open_plain(path, follow=False) as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
            size += len(chunk)
    return ResultFile(size, digest.hexdigest())


def digested_below(folder: Path) -> dict[str, ResultFile]:
    """Return the plain files below a folder, at any depth, by relative POSIX path.

    Raises:
        StorageError: A file cannot be read.
    """
    with os_errors(folder):
        paths = [path for path in walk(folder) if path.is_file() and not path.is_symlink()]
    return {path.relative_to(folder).as_posix(): digested(path) for path in sorted(paths)}


def verify_files(folder: Path, files: Mapping[str, ResultFile], remedy: str = "") -> None:
    """Compare files below a folder with their sizes and digests.

    Args:
        folder: The folder.
        files: Relative POSIX path → expected size and digest.
        remedy: End of the message about a file that differs: why it does, what was kept, what to
            do.

    Raises:
        ChecksumError: A file differs in size or digest.
        NotFoundError: A file is gone.
    """
    for name, expected in files.items():
        if (got := digested(folder / name)) != expected:
            raise ChecksumError(
                f"expected {expected.size} bytes with SHA-256 {expected.sha256}, got {got.size}"
                f" with {got.sha256}{remedy and ': '}{remedy}",
                path=str(folder / name),
            )


def files_to_json(files: Mapping[str, ResultFile]) -> dict[str, Any]:
    """Return files as JSON values."""
    return {name: asdict(file) for name, file in files.items()}


def files_from_json(value: Any) -> dict[str, ResultFile]:
    """Return the files from the JSON of ``files_to_json``.

    Raises:
        AttributeError, KeyError, TypeError, ValueError: The value has another shape, or names a
            path that leads out of the folder.
    """
    return {_inside(name): _file(each) for name, each in value.items()}


def _file(value: Any) -> ResultFile:
    size, sha256 = value["size"], value["sha256"]
    if type(size) is not int or size < 0 or not isinstance(sha256, str):
        raise ValueError
    return ResultFile(size, sha256)


def _inside(name: str) -> str:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts:
        raise ValueError
    return name
