"""Finds all that is wrong with the files of a version, also what readers would not notice."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Final

from trainfeed.dataset import Version
from trainfeed.dataset.layout import MANIFEST, MANIFEST_DIGEST
from trainfeed.dataset.publication import compare_file
from trainfeed.dataset.version import BUILT
from trainfeed.errors import StorageError
from trainfeed.paths import walk
from trainfeed.pipeline.quarantine import PRIVATE_MODE, QUARANTINE_FILE
from trainfeed.repair._damaged_chunks import damaged_chunks
from trainfeed.repair._finding import Finding, FindingKind
from trainfeed.storage.posix import map_errors

__all__ = ["find_damage", "mode_of"]

_PUBLIC_MODE: Final = 0o444
_WRITABLE_BY_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH
_OF_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


def find_damage(version: Version) -> list[Finding]:
    """Return every finding about a version, those about its listed files first; nothing changes.

    All bytes are read. ``Version.problems`` names the same differences in files; this search tells
    their kinds, and finds wrong modes, too.

    Args:
        version: The version; its manifest is intact.

    Raises:
        StorageError: The folder cannot be listed.
    """
    expected = version.manifest.file_digests()
    found = [each for name in sorted(expected) for each in _look(version, name, *expected[name])]
    replaced = {each.name for each in found if each.kind is FindingKind.NOT_A_FILE}
    return [*found, *_extra(version.path, expected, replaced)]


def mode_of(name: str) -> int:
    """Return the permissions that a published file has."""
    return PRIVATE_MODE if name == QUARANTINE_FILE else _PUBLIC_MODE


def _look(version: Version, name: str, num_bytes: int, sha256: str) -> Iterator[Finding]:
    try:
        status = _status(version.path, name)
    except StorageError as error:
        yield Finding(name, FindingKind.UNREADABLE, str(error))
        return
    if status is None:
        yield Finding(name, FindingKind.MISSING, "the manifest lists it, and it is not there")
    elif not stat.S_ISREG(status.st_mode):
        what = f"expected a plain file, got {_kind_of(status.st_mode)}"
        yield Finding(name, FindingKind.NOT_A_FILE, what)
    elif status.st_size != num_bytes:
        what = f"expected {num_bytes} bytes, got {status.st_size}"
        yield Finding(name, FindingKind.SIZE, what)
    else:
        yield from _read(version, name, (num_bytes, sha256), status)


def _status(folder: Path, name: str) -> os.stat_result | None:
    """Return the status of a file; None if it is missing, or would be reached by a link."""
    parents = [folder / parent for parent in PurePosixPath(name).parents[:-1]]
    with map_errors(folder / name), suppress(FileNotFoundError, NotADirectoryError):
        if all(stat.S_ISDIR(parent.lstat().st_mode) for parent in parents):
            return (folder / name).lstat()
    return None


def _read(
    version: Version, name: str, expected: tuple[int, str], status: os.stat_result
) -> Iterator[Finding]:
    if status.st_nlink != 1:
        what = f"expected a file with one name, got {status.st_nlink}: others may change it"
        yield Finding(name, FindingKind.SECOND_NAME, what)
        return
    for problem in compare_file(version.path / name, *expected):
        if isinstance(problem, StorageError):
            yield Finding(name, FindingKind.UNREADABLE, str(problem))
        else:
            what = f"expected SHA-256 {expected[1]}, got another{damaged_chunks(version, name)}"
            yield Finding(name, FindingKind.CHANGED, what)
        return
    if why := _wrong_mode(name, stat.S_IMODE(status.st_mode)):
        yield Finding(name, FindingKind.MODE, why)


def _wrong_mode(name: str, mode: int) -> str | None:
    expected = mode_of(name)
    if expected == PRIVATE_MODE:
        is_wrong = bool(mode & _OF_OTHERS)
    else:
        is_wrong = mode & expected != expected or bool(mode & _WRITABLE_BY_OTHERS)
    return f"expected mode {expected:04o}, got {mode:04o}" if is_wrong else None


def _kind_of(mode: int) -> str:
    if stat.S_ISLNK(mode):
        return "a symbolic link"
    return "a folder" if stat.S_ISDIR(mode) else "something else"


def _extra(
    folder: Path, expected: Mapping[str, object], replaced: Collection[str]
) -> Iterator[Finding]:
    """Yield what nobody published: files, and folders as a whole."""
    known = {*expected, MANIFEST, MANIFEST_DIGEST, BUILT}
    folders = {str(parent) for name in expected for parent in PurePosixPath(name).parents}
    with map_errors(folder):
        present = sorted(path.relative_to(folder).as_posix() for path in walk(folder))
    above = set(replaced)
    for name in present:
        parents = {str(parent) for parent in PurePosixPath(name).parents}
        is_folder = name in folders and stat.S_ISDIR((folder / name).lstat().st_mode)
        if name in known or is_folder or parents & above:
            continue
        above.add(name)
        yield Finding(name, FindingKind.EXTRA, "it is there, and the manifest does not list it")
