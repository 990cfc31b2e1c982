"""Shards among paths: a set is whole when it is found, and stays the same until it is read.

Files ``<prefix>-aaaaa-of-bbbbb`` of one folder are a set, and their names say how many there are. A
conversion into a folder that exists replaces a set file by file. It announces that with a folder
``.<prefix>.commit``, takes the manifest ``<prefix>.shards.json`` away before it moves the first
shard, and puts the new one there after the last. So a reader that finds the same manifest after it
opened a shard has a shard of that set; a reader that finds another manifest must stop.
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
# Inode, time of the last change and size of a manifest; None where a set has none.
_Mark: TypeAlias = tuple[int, int, int] | None


class _Set(NamedTuple):
    """What the name of a shard says of its set.

    Attributes:
        folder: Where it is.
        prefix: Start of the names.
        num_shards: How many files the second number stands for.
    """

    folder: str
    prefix: str
    num_shards: int

    def name(self, index: int) -> str:
        return shard_name(self.prefix, index, self.num_shards)


def require_whole_sets(matches: Sequence[str], pattern: str, *, counts: bool) -> None:
    """Refuse the matches of a glob that are a part of a set, or several sets of one prefix.

    A shard that the pattern does not ask for, as ``p-0000[0-3]-of-*`` leaves some out, is none that
    is missing.

    Args:
        matches: Paths of files.
        pattern: What they match.
        counts: Whether the second number may be how many files there are, as others name them, and
            not the largest index. Beside a manifest of ours it never is.

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
    """The sets of which several files are read together, as they were when this was made.

    Args:
        paths: The files.

    Raises:
        FileReplacedError: One of the sets is being replaced.
    """

    def __init__(self, paths: Iterable[str | os.PathLike[str]]) -> None:
        found = Counter(one for path in paths if (one := _set_of(path)) is not None)
        # One file of a set is no mixture, whatever becomes of the others.
        self._marks = {one: _mark(one) for one, count in found.items() if count > 1}
        for one in self._marks:
            _refuse_replaced(one)

    def require_unchanged(self) -> None:
        """Refuse to go on when a set was replaced; called after a file was opened.

        Raises:
            FileReplacedError: What is opened now may be of another set than what was before.
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
        """Raise that a set was replaced instead of what its new files look like beside the old.

        Raises:
            FileReplacedError: As ``require_unchanged`` does, after an error of the block.
        """
        try:
            yield
        except TrainFeedError:
            self.require_unchanged()
            raise

    def over(self, items: Iterator[_Item]) -> Iterator[_Item]:
        """Yield the items of a file that is opened by asking for the first one.

        Raises:
            FileReplacedError: As ``require_unchanged`` does, before the first item.
        """
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
