"""``paddle.dataset.common``: downloads files once, and splits data sets into files."""

from __future__ import annotations

import itertools
import os
import pickle  # noqa: TID251 (the original's default; see cluster_files_reader)
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from trainfeed.compat.paddle.dataset.fetch import check_md5, fetch, md5_of, name_of
from trainfeed.conversion import ShardManifest
from trainfeed.conversion import convert as _convert
from trainfeed.datacenters import local_source, local_target
from trainfeed.decorators import batch
from trainfeed.errors import ConfigError, ConflictError, NotFoundError
from trainfeed.paths import matching, open_plain, os_errors
from trainfeed.readers import Reader, ReaderLike, Sample, open_reader

__all__ = ["DATA_HOME", "cluster_files_reader", "convert", "download", "md5file", "split"]

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
