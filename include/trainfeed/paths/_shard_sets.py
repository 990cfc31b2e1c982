"""Checks that sets of shards are complete, and unchanged between finding and reading them.

Files ``<prefix>-aaaaa-of-bbbbb`` of one folder are a set, and their names give the number of
files. A conversion into an existing folder replaces a set file by file, in this order: make the
folder ``.<prefix>.commit``, remove the manifest ``<prefix>.shards.json``, move the shards, write
the new manifest. So a reader that finds an unchanged manifest after opening a shard has a shard of
the same set; a reader that finds another manifest must stop.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias, TypeVar

from trainfeed.errors import ConflictError, FileReplacedError, NotFoundError, TrainFeedError
from trainfeed.paths._errors import os_errors
from trainfeed.paths._shard_names import ShardName, commit_name, manifest_name, shard_name

__all__ = ["SetWatch", "require_whole_sets"]

_VERSION: Final = "MANIFEST.json"
_SHOWN: Final = 3
_Item = TypeVar("_Item")
# Inode, modification time in nanoseconds and size of a manifest; None for a set without one.
_Mark: TypeAlias = tuple[int, int, int] | None


class _Set(NamedTuple):
    """A set of shards, as the name of one shard describes it.

    Attributes:
        folder: Folder of the shards.
        prefix: Common part before the numbers.
        num_shards: Number of shards, from the second number of the name.
    """

    folder: str
    prefix: str
    num_shards: int

    def name(self, index: int) -> str:
        return shard_name(self.prefix, index, self.num_shards)


def require_whole_sets(matches: Sequence[str], pattern: str, *, counts: bool) -> None:
    """Refuse matches of a glob with missing shards, or from several sets of one prefix.

    Shards that the pattern excludes, as ``p-0000[0-3]-of-*`` does, are not missing.

    Args:
        matches: Paths of files.
        pattern: The glob.
        counts: Whether the second number may be the number of files, as in other tools, and not
            the largest index. Beside a manifest of this package it is always the index.

    Raises:
        NotFoundError: A shard is missing.
        ConflictError: Sets of different sizes are mixed.
    """
    sets: defaultdict[_Set, set[int]] = defaultdict(set)
    for path in matches:
        if (found := _parse(path)) is not None:
            sets[found[0]].add(found[1])
    for one, indices in sets.items():
        _refuse_missing(one, indices, pattern, counts=counts)
    _refuse_mixed(list(sets), pattern)


def _parse(path: str) -> tuple[_Set, int] | None:
    folder, name = os.path.split(path)
    shard = ShardName.parse(name)
    return None if shard is None else (_Set(folder, shard.prefix, shard.num_shards), shard.number)


def _refuse_missing(one: _Set, indices: set[int], pattern: str, *, counts: bool) -> None:
    wanted = one.num_shards
    # In sets of other tools bbbbb is the count, so the last index is one less. A set that has the
    # file with index bbbbb counts as this package's.
    if counts and wanted - 1 not in indices and not _is_ours(one):
        wanted -= 1
    mask = os.path.basename(pattern)  # noqa: PTH119 (a pattern is no path)
    missing = [
        name
        for index in range(wanted)
        if index not in indices and fnmatchcase(name := one.name(index), mask)
    ]
    if missing:
        shown = ", ".join(missing[:_SHOWN]) + (" …" if len(missing) > _SHOWN else "")
        raise NotFoundError(
            f"expected all {wanted} shards of {one.prefix!r} in {one.folder or '.'}, as their names"
            f" say, got {wanted - len(missing)}: {shown} missing; nothing was read; bring back the"
            " files, or convert again; to read a part of a set, name its files"
        )


def _is_ours(one: _Set) -> bool:
    folder = Path(one.folder)
    return (folder / manifest_name(one.prefix)).exists() or (folder / _VERSION).exists()


def _refuse_mixed(sets: Sequence[_Set], pattern: str) -> None:
    known: dict[tuple[str, str], _Set] = {}
    for one in sets:
        other = known.setdefault((one.folder, one.prefix), one)
        if other is not one:
            raise ConflictError(
                f"expected one set {one.prefix!r} in {one.folder or '.'}, got files of two:"
                f" {other.name(0)} and {one.name(0)} both match {pattern!r}; nothing was read;"
                " remove the one that is stale, or name the numbers in the pattern"
            )


class SetWatch:
    """The state of the sets whose files are read together, as of its construction.

    Args:
        paths: Paths of the files.

    Raises:
        FileReplacedError: One of the sets is being replaced.
    """

    def __init__(self, paths: Iterable[str | os.PathLike[str]]) -> None:
        found = Counter(one for path in paths if (one := _set_of(path)) is not None)
        # One file of a set cannot be mixed with files of another version of the set.
        self._marks = {one: _mark(one) for one, count in found.items() if count > 1}
        for one in self._marks:
            _refuse_replaced(one)

    def require_unchanged(self) -> None:
        """Raise when a set was replaced; call it after opening a file, before reading it.

        Raises:
            FileReplacedError: The file may belong to another version of the set than earlier files.
        """
        for one, mark in self._marks.items():
            _refuse_replaced(one)
            if _mark(one) != mark:
                raise FileReplacedError(
                    f"expected the set {one.prefix!r} in {one.folder or '.'} as it was when its"
                    " files were looked up, got another one: it was converted again meanwhile;"
                    " nothing of the new one was read; look the files up again"
                )

    @contextmanager
    def explains(self) -> Iterator[None]:
        """Raise ``FileReplacedError`` instead of errors that a mixture of old and new files causes.

        Raises:
            FileReplacedError: The block raised an error, and a set was replaced.
        """
        try:
            yield
        except TrainFeedError:
            self.require_unchanged()
            raise

    def over(self, items: Iterator[_Item]) -> Iterator[_Item]:
        """Yield the items of a file that opens when its first item is requested.

        Raises:
            FileReplacedError: A set was replaced before the file was opened; raised before the
                first item.
        """
        # The first item opens the file: only then does the check of the manifest cover it.
        first = next(items, None)
        self.require_unchanged()
        if first is not None:
            yield first
            yield from items


def _set_of(path: str | os.PathLike[str]) -> _Set | None:
    parsed = _parse(os.fspath(path))
    return None if parsed is None else parsed[0]


def _mark(one: _Set) -> _Mark:
    path = Path(one.folder) / manifest_name(one.prefix)
    with os_errors(str(path)):
        try:
            found = path.stat()
        except FileNotFoundError:
            return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def _refuse_replaced(one: _Set) -> None:
    folder = Path(one.folder)
    if (folder / commit_name(one.prefix)).exists():
        raise FileReplacedError(
            f"the set {one.prefix!r} in {folder} is being replaced by a conversion, or one was"
            " interrupted there; its files may be of two sets; open them again in a moment; if no"
            " conversion is running, convert again, or call trainfeed.conversion.finish_publication"
            f"({str(folder)!r}, {one.prefix!r})"
        )
