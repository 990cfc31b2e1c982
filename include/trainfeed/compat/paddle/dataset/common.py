"""``paddle.dataset.common``: downloads files once, by MD5, and splits data sets into files."""

from __future__ import annotations

import hashlib
import http.client
import itertools
import os
import pickle  # noqa: TID251 (the original's default; see cluster_files_reader)
import re
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final
from urllib.parse import urlsplit, urlunsplit

from trainfeed.conversion import ShardManifest
from trainfeed.conversion import convert as _convert
from trainfeed.core.datacenters import local_source, local_target
from trainfeed.decorators import batch
from trainfeed.errors import ChecksumError, ConfigError, ConflictError, NotFoundError, StorageError
from trainfeed.files import FilePath, NewFile, matching, open_plain, os_errors, write_all
from trainfeed.readers import Reader, ReaderLike, Sample, open_reader

# --- Downloads files, and checks their MD5 before they get their name

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
    except http.client.InvalidURL:
        # Its text has a part of the address, perhaps of a password with a slash.
        raise ConfigError(
            f"expected an address with a host, a port and a path, got {_shown(url)}; nothing was"
            " kept"
        ) from None
    except (OSError, http.client.HTTPException) as error:
        raise StorageError(f"cannot read {_shown(url)}: {error}; nothing was kept") from error


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    while piece := file.read(_PIECE_BYTES):
        yield piece


def _shown(url: str) -> str:
    """Return an address without its user, password and query, which may be secret."""
    parts = urlsplit(url)
    host, path = parts.netloc.rpartition("@")[2], parts.path
    if "@" in path:  # perhaps of a password with a slash, which ends the host
        host, path = "…", path.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, path, "", ""))


# --- ``paddle.dataset.common``: downloads files once, and splits data sets into files

# Folder of all data sets; assign another folder before making readers.
DATA_HOME = str(Path.home() / ".cache" / "paddle" / "dataset")


def md5file(fname: str | os.PathLike[str]) -> str:
    """Return the MD5 of a file, as 32 hex digits.

    Raises:
        NotFoundError: The file does not exist.
        StorageError: The file cannot be read.
    """
    return md5_of(fname)


def download(url: str, module_name: str, md5sum: str, save_name: str | None = None) -> str:
    """Return the path of a file below ``DATA_HOME``; download the file if it does not exist.

    The checksum of an existing file is verified, and the file is never replaced. A downloaded file
    gets its name when it is complete and has the checksum.

    Args:
        url: An address with ``http://``, ``https://`` or ``file://``, or a path.
        module_name: Name of the folder below ``DATA_HOME``.
        md5sum: Expected MD5 of the file, as 32 hex digits.
        save_name: Name of the file; None for the last part of the address.

    Raises:
        ConfigError: A name is not that of a file, ``md5sum`` is not an MD5, or the scheme of the
            address is not supported.
        ChecksumError: The existing or the downloaded file has another MD5.
        NotFoundError: Nothing exists at the address.
        StorageError: Reading the address or writing the file failed.
    """
    name = name_of(url) if save_name is None else save_name
    for part in (module_name, name):
        if part in {"", ".", ".."} or "/" in part or "\0" in part:
            raise ConfigError(f"expected the name of a folder and of a file, got {part!r}")
    if not re.fullmatch("[0-9a-f]{32}", str(md5sum)):
        raise ConfigError(f"expected an MD5 of 32 hex digits, got {md5sum!r}")
    path = Path(local_source(DATA_HOME)) / module_name / name
    if not path.exists():
        local_target(DATA_HOME)
        try:
            fetch(url, path, md5sum)
        except ConflictError:
            # Another process was faster; its file is verified like any existing file.
            check_md5(path, md5sum)
        return str(path)
    check_md5(path, md5sum)
    return str(path)


def convert(
    output_path: str | os.PathLike[str], reader: ReaderLike, num_shards: int, name_prefix: str
) -> ShardManifest:
    """Write the samples of a reader to ``num_shards`` record files, shuffled across all files.

    Args:
        output_path: Folder of the files.
        reader: Reader of values or tuples of values: numbers, text, bytes, arrays, and lists of
            these.
        num_shards: Number of files.
        name_prefix: Prefix of the names ``<prefix>-aaaaa-of-bbbbb``; ``bbbbb`` is the largest
            index.

    Raises:
        SampleShapeError: A sample holds a value of another type.
        ConfigError: An argument is out of range.
    """
    return _convert(output_path, reader, num_shards, name_prefix)


def split(
    reader: ReaderLike,
    line_count: int,
    suffix: str = "%05d.pickle",
    dumper: Callable[[Any, BinaryIO], Any] = pickle.dump,
) -> None:
    """Write the samples of a reader to files of ``line_count`` samples; the last may have fewer.

    Args:
        reader: Reader of the samples.
        line_count: Samples per file.
        suffix: Path of the files, with a format field for their number.
        dumper: Called with the list of samples and the open binary file.

    Raises:
        TypeError: ``dumper`` is not callable.
        ValueError: ``line_count`` is below 1.
        StorageError: A file cannot be written.
    """
    if not callable(dumper):
        raise TypeError(f"expected a dumper that can be called, got {dumper!r}")
    with open_reader(batch(reader, line_count)) as lists:
        for number, samples in enumerate(lists):
            path = local_target(suffix % number)
            with os_errors(path), Path(path).open("wb") as file:
                dumper(samples, file)


def cluster_files_reader(
    files_pattern: str,
    trainer_count: int,
    trainer_id: int,
    loader: Callable[[BinaryIO], Any] | None = None,
) -> Reader:
    """Return a reader over one trainer's files: file i belongs to trainer ``i % trainer_count``.

    Args:
        files_pattern: A glob, whose matches are sorted.
        trainer_count: Number of trainers.
        trainer_id: Number of this trainer, from 0.
        loader: Function from an open binary file to its samples. The original's default is
            ``pickle.load``, which runs any code that a file contains; here it must be passed
            explicitly.

    Raises:
        ConfigError: ``loader`` is missing, ``trainer_id`` is out of range, or a trainer would have
            no file.
        NotFoundError: No file matches.
        FormatError: A match is not a plain file; raised by a pass.
        StorageError: A folder that may hold matches cannot be listed.
    """
    if not callable(loader):
        raise ConfigError(
            "expected a loader; pass loader=pickle.load for files of split() that you wrote"
            " yourself: it runs whatever code they hold"
        )
    paths = matching(files_pattern)
    if not paths:
        raise NotFoundError(f"no file matches {files_pattern!r}")
    if not 0 <= trainer_id < trainer_count or trainer_count > len(paths):
        raise ConfigError(
            f"expected a trainer from 0 to {trainer_count - 1}, and a file for each, got trainer"
            f" {trainer_id} and {len(paths)} files; split() the samples into more files"
        )

    def read() -> Iterator[Sample]:
        for path in itertools.islice(paths, trainer_id, None, trainer_count):
            with open_plain(path, follow=True) as file:
                samples = loader(file)
            yield from samples

    return read
