"""``paddle.dataset.common``: files that are fetched once, data sets cut into files."""

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
from trainfeed.decorators import batch
from trainfeed.errors import ConfigError, ConflictError, NotFoundError
from trainfeed.paths import matching, open_plain, os_errors
from trainfeed.readers import Reader, ReaderLike, Sample, open_reader

__all__ = ["DATA_HOME", "cluster_files_reader", "convert", "download", "md5file", "split"]

# Where data sets are looked for; assign another folder before you make readers.
DATA_HOME = str(Path.home() / ".cache" / "paddle" / "dataset")


def md5file(fname: str | os.PathLike[str]) -> str:
    """Return the MD5 of a file, as 32 hex digits.

    Raises:
        NotFoundError: There is none.
        StorageError: It cannot be read.
    """
    return md5_of(Path(fname))


def download(url: str, module_name: str, md5sum: str, save_name: str | None = None) -> str:
    """Return the path of a file below ``DATA_HOME``, copied from an address unless it is there.

    A file that is there is compared with the sum and never replaced; another one appears when it
    is whole and has the sum.

    Args:
        url: ``http://``, ``https://``, ``file://``, or a path.
        module_name: The folder below ``DATA_HOME``.
        md5sum: The MD5 that the file must have, as 32 hex digits.
        save_name: Name of the file; the last part of the address when None.

    Raises:
        ConfigError: A name is none, the sum is no MD5, or the address is of another kind.
        ChecksumError: The file that is there, or what the address gives, is another one.
        NotFoundError: The address gives nothing.
        StorageError: The address cannot be read now, or the file cannot be written.
    """
    name = name_of(url) if save_name is None else save_name
    for part in (module_name, name):
        if part in {"", ".", ".."} or "/" in part or "\0" in part:
            raise ConfigError(f"expected the name of a folder and of a file, got {part!r}")
    if not re.fullmatch("[0-9a-f]{32}", str(md5sum)):
        raise ConfigError(f"expected an MD5 of 32 hex digits, got {md5sum!r}")
    path = Path(DATA_HOME) / module_name / name
    if not path.exists():
        try:
            fetch(url, path, md5sum)
        except ConflictError:
            # Another process was faster; its file is looked at like any that is there.
            check_md5(path, md5sum)
        return str(path)
    check_md5(path, md5sum)
    return str(path)


def convert(
    output_path: str | os.PathLike[str], reader: ReaderLike, num_shards: int, name_prefix: str
) -> ShardManifest:
    """Write the samples of a reader to ``num_shards`` record files, shuffled over all of them.

    Args:
        output_path: The folder.
        reader: Yields values, or tuples of them: numbers, text, bytes, arrays, lists of such.
        num_shards: How many files.
        name_prefix: The files are ``<prefix>-aaaaa-of-bbbbb``; ``bbbbb`` is the largest index.

    Raises:
        SampleShapeError: A sample holds something else.
        ConfigError: An argument is out of range.
    """
    return _convert(output_path, reader, num_shards, name_prefix)


def split(
    reader: ReaderLike,
    line_count: int,
    suffix: str = "%05d.pickle",
    dumper: Callable[[Any, BinaryIO], Any] = pickle.dump,
) -> None:
    """Write the samples of a reader to files of ``line_count``, a list each, the last one shorter.

    Args:
        reader: What to write.
        line_count: Samples in a file.
        suffix: The files' path with a place for their number.
        dumper: Called with the list and the open binary file.

    Raises:
        TypeError: ``dumper`` cannot be called.
        ValueError: ``line_count`` is below 1.
        StorageError: A file cannot be written.
    """
    if not callable(dumper):
        raise TypeError(f"expected a dumper that can be called, got {dumper!r}")
    with open_reader(batch(reader, line_count)) as lists:
        for number, samples in enumerate(lists):
            path = suffix % number
            with os_errors(path), Path(path).open("wb") as file:
                dumper(samples, file)


def cluster_files_reader(
    files_pattern: str,
    trainer_count: int,
    trainer_id: int,
    loader: Callable[[BinaryIO], Any] | None = None,
) -> Reader:
    """Return a reader over the samples of one trainer's files: file i is of i modulo the trainers.

    Args:
        files_pattern: A glob; its matches are sorted.
        trainer_count: Trainers.
        trainer_id: This one, from 0.
        loader: Called with an open binary file, returns its samples. The original's
            ``pickle.load`` runs whatever code a file holds, so it must be asked for.

    Raises:
        ConfigError: There is no loader, no such trainer, or a trainer would have no file.
        NotFoundError: Nothing matches.
        FormatError: A match is no plain file; raised by a pass.
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
