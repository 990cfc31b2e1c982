"""Downloads files, and checks their MD5 before they get their name."""

from __future__ import annotations

import hashlib
import http.client
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final
from urllib.parse import urlsplit, urlunsplit

from trainfeed.datacenters import local_source, local_target
from trainfeed.errors import ChecksumError, ConfigError, NotFoundError, StorageError
from trainfeed.paths import FilePath, NewFile, open_plain, os_errors, write_all

__all__ = ["check_md5", "fetch", "md5_of", "name_of"]

_TIMEOUT_S: Final = 60.0
_PIECE_BYTES: Final = 1 << 20


def md5_of(path: FilePath) -> str:
    """Return the MD5 of a file, as 32 hex digits.

    Raises:
        NotFoundError: The file does not exist.
        StorageError: The file cannot be read.
    """
    digest = hashlib.md5(usedforsecurity=False)
    with open_plain(path, follow=True) as file:
        for piece in _pieces(file):
            digest.update(piece)
    return digest.hexdigest()


def name_of(url: str) -> str:
    """Return the last part of an address, the name of its file."""
    return urlsplit(url).path.rpartition("/")[2]


def check_md5(path: FilePath, md5sum: str) -> None:
    """Raise unless an existing file has the expected MD5.

    Raises:
        ChecksumError: The file has another MD5; the file is kept.
    """
    found = md5_of(path)
    if found != md5sum:
        raise ChecksumError(
            f"expected a file with the MD5 {md5sum}, the one that is there has {found}, and was"
            " kept; delete it, or give a save_name",
            path=str(path),
        )


def fetch(url: str, path: FilePath, md5sum: str) -> None:
    """Download a file, which gets its name when it is complete and its MD5 is verified.

    Args:
        url: An address with ``http://``, ``https://`` or ``file://``, or a path.
        path: Path of the file; the name is free.
        md5sum: Expected MD5, as 32 hex digits.

    Raises:
        ChecksumError: The downloaded file has another MD5; nothing was kept.
        NotFoundError: Nothing exists at the address.
        StorageError: Reading the address or writing the file failed.
        ConflictError: Another process made a file of this name meanwhile.
    """
    digest = hashlib.md5(usedforsecurity=False)
    path = Path(local_target(path))
    folder = path.parent
    with os_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    with NewFile(path) as new:
        with _opened(url) as source:
            for piece in _pieces(source):
                digest.update(piece)
                write_all(new.file, piece)
        if digest.hexdigest() != md5sum:
            raise ChecksumError(
                f"expected a file with the MD5 {md5sum} at {_shown(url)}, got one with"
                f" {digest.hexdigest()}; nothing was kept, check the address and the sum"
            )


@contextmanager
def _opened(url: str) -> Iterator[BinaryIO]:
    parts = urlsplit(local_source(url))
    if parts.scheme in {"", "file"} and parts.netloc in {"", "localhost"}:
        path = urllib.request.url2pathname(parts.path) if parts.scheme else local_source(url)
        with open_plain(path, follow=True) as file:
            yield file
        return
    if parts.scheme not in {"http", "https"}:
        raise ConfigError(
            f"expected an address with http://, https:// or file://, or a path, got {_shown(url)}"
        )
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT_S) as answer:  # noqa: S310 (scheme checked above)
            yield answer
    except urllib.error.HTTPError as error:
        kind = NotFoundError if error.code in {404, 410} else StorageError
        raise kind(f"{_shown(url)} answers {error.code} {error.reason}; nothing was kept") from None
    except (OSError, http.client.HTTPException) as error:
        raise StorageError(f"cannot read {_shown(url)}: {error}; nothing was kept") from error


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    while piece := file.read(_PIECE_BYTES):
        yield piece


def _shown(url: str) -> str:
    """Return an address without its user, password and query, which may be secret."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
