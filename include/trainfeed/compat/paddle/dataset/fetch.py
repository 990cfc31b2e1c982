"""A file from an address, checked by its MD5 before it has a name."""

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

from trainfeed.errors import ChecksumError, ConfigError, NotFoundError, StorageError
from trainfeed.paths import FilePath, NewFile, open_plain, os_errors, write_all

__all__ = ["check_md5", "fetch", "md5_of", "name_of"]

_TIMEOUT_S: Final = 60.0
_PIECE_BYTES: Final = 1 << 20


def md5_of(path: FilePath) -> str:
    """Return the MD5 of a file, as 32 hex digits.

    Raises:
        NotFoundError: There is none.
        StorageError: It cannot be read.
    """
    digest = hashlib.md5(usedforsecurity=False)
    with open_plain(path, follow=True) as file:
        for piece in _pieces(file):
            digest.update(piece)
    return digest.hexdigest()


def name_of(url: str) -> str:
    """Return the last part of an address, which its file is called by."""
    return urlsplit(url).path.rpartition("/")[2]


def check_md5(path: FilePath, md5sum: str) -> None:
    """Raise unless a file that is there is the one that was asked for.

    Raises:
        ChecksumError: It is another one; it is kept.
    """
    found = md5_of(path)
    if found != md5sum:
        raise ChecksumError(
            f"expected a file with the MD5 {md5sum}, the one that is there has {found}, and was"
            " kept; delete it, or give a save_name",
            path=str(path),
        )


def fetch(url: str, path: FilePath, md5sum: str) -> None:
    """Copy what an address gives to a file, which appears when it is whole and right.

    Args:
        url: ``http://``, ``https://``, ``file://``, or a path.
        path: The file; nothing has its name.
        md5sum: The MD5 that it must have.

    Raises:
        ChecksumError: The address gives something else; nothing was kept.
        NotFoundError: The address gives nothing.
        StorageError: It cannot be read now, or the file cannot be written.
        ConflictError: Another process has made a file of that name meanwhile.
    """
    digest = hashlib.md5(usedforsecurity=False)
    folder = Path(path).parent
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
    parts = urlsplit(url)
    if parts.scheme in {"", "file"} and parts.netloc in {"", "localhost"}:
        path = urllib.request.url2pathname(parts.path) if parts.scheme else url
        with open_plain(path, follow=True) as file:
            yield file
        return
    if parts.scheme not in {"http", "https"}:
        raise ConfigError(
            f"expected an address with http://, https:// or file://, or a path, got {_shown(url)}"
        )
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT_S) as answer:  # noqa: S310 (see above)
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
    """Return an address without what may be secret in it."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
