"""Sets of shards: their names, what makes a set complete, and patterns for files."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from stat import S_ISREG
from typing import Final, NamedTuple, TypeAlias, TypeVar

from trainfeed.core import canonical_json
from trainfeed.core.datacenters import local_source
from trainfeed.core.whole_numbers import whole
from trainfeed.errors import (
    ConfigError,
    ConflictError,
    FileReplacedError,
    FormatError,
    NotFoundError,
    TrainFeedError,
    TruncatedError,
)
from trainfeed.files.plain_files import FilePath, is_there, matching, os_errors, path_of, read_plain

# --- Names of the shards of a set, ``<prefix>-aaaaa-of-bbbbb``, of its manifest and commit folder

MAX_SHARDS: Final = 100_000

# No characters with a meaning in globs or comma lists.
_PREFIX: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,199}")
_SHARD: Final = re.compile(r"(?P<prefix>.+)-(?P<index>[0-9]{5})-of-(?P<last>[0-9]{5})")


class ShardName(NamedTuple):
    """The parts of a shard's name.

    Attributes:
        prefix: The part before the numbers.
        number: Index of the shard, from 0.
        num_shards: Number of shards of the set: the second number plus one.
    """

    prefix: str
    number: int
    num_shards: int

    @classmethod
    def parse(cls, name: str) -> ShardName | None:
        """Return the parts of a file name; None when it is not a shard's name."""
        match = _SHARD.fullmatch(name)
        if match is None or int(match["index"]) > int(match["last"]):
            return None
        return cls(match["prefix"], int(match["index"]), int(match["last"]) + 1)


def shard_name(prefix: str, index: int, num_shards: int) -> str:
    """Return the name of shard ``index`` of a set."""
    return f"{prefix}-{index:05d}-of-{num_shards - 1:05d}"


def manifest_name(prefix: str) -> str:
    """Return the file name of a set's manifest; no glob ``<prefix>-*`` matches it."""
    return f"{prefix}.shards.json"


def commit_name(prefix: str) -> str:
    """Return the name of the folder that exists while a set is replaced."""
    return f".{prefix}.commit"


def check_prefix(prefix: str) -> str:
    """Return ``prefix`` if names of shards may begin with it.

    Raises:
        ConfigError: The prefix contains a separator, a blank or a character of globs.
    """
    if not _PREFIX.fullmatch(prefix):
        raise ConfigError(
            "expected a name prefix of up to 200 letters, digits, '_', '-' and '.', no '-' or '.'"
            f" first, got {prefix!r}"
        )
    return prefix


def num_shards_of(value: object) -> int:
    """Return ``value`` if five digits can name so many shards.

    Raises:
        ConfigError: The value is not a whole number from 1 to ``MAX_SHARDS``.
    """
    return whole("num_shards, whose names have five digits,", value, 1, MAX_SHARDS)


# --- Checks that sets of shards are complete, as long as their manifest says, and unchanged

_VERSION: Final = "MANIFEST.json"
_VERSION_DIGEST: Final = "MANIFEST.sha256"
_SHOWN: Final = 3
_Item = TypeVar("_Item")
# Inode, modification time in nanoseconds and size of a manifest.
FileMark: TypeAlias = tuple[int, int, int]
_Mark: TypeAlias = FileMark | None
# Sets whose sizes are kept: a set may be opened file by file.
_KEPT_SETS: Final = 4


class ShardSize(NamedTuple):
    """The size of a shard, as a manifest states it.

    Attributes:
        num_bytes: Size of the file.
        manifest: Path of the manifest.
    """

    num_bytes: int
    manifest: str

    def require(self, path: str) -> None:
        """Compare the size of a file.

        Raises:
            TruncatedError: The file is shorter.
            FormatError: The file is longer.
            NotFoundError: The file is missing.
        """
        with os_errors(path):
            try:
                found = Path(path).stat()
            except FileNotFoundError as error:
                raise NotFoundError(
                    f"expected {path} of {self.num_bytes} bytes, as {self.manifest} says, the file"
                    " is missing; bring it back from a copy, or write the set again"
                ) from error
        # Something else than a file is refused where it is opened.
        if S_ISREG(found.st_mode) and (problem := self.problem(path, found.st_size)) is not None:
            raise problem

    def problem(self, path: str | None, num_bytes: int) -> FormatError | None:
        """Return the error of a shard that has ``num_bytes``; None if it has the stated size."""
        if num_bytes == self.num_bytes:
            return None
        return (TruncatedError if num_bytes < self.num_bytes else FormatError)(
            f"expected {self.num_bytes} bytes, as {os.path.basename(self.manifest)} says, got"  # noqa: PTH119
            f" {num_bytes}; the file was changed after its set was complete; bring it back from a"
            " copy, or write the set again; to read what is whole in it, copy it with 'trainfeed"
            " file repair', or use a reader with on_damage",
            path=path,
        )


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
        whole = ""
        if missing == [one.name(one.num_shards - 1)] and not _is_ours(one):
            # Here the last number is an index. In names of other tools it is the number of files,
            # and only a person knows whose they are.
            whole = (
                "; if another tool wrote the set, and its names end with the number of files, it is"
                " whole: name the files"
            )
        raise NotFoundError(
            f"expected all {wanted} shards of {one.prefix!r} in {one.folder or '.'}, as their names"
            f" say, got {wanted - len(missing)}: {shown} missing; nothing was read; bring back the"
            f" files, or convert again; to read a part of a set, name its files{whole}"
        )


def _is_ours(one: _Set) -> bool:
    folder = Path(one.folder)
    return (folder / manifest_name(one.prefix)).exists() or (folder / _VERSION).exists()


def _refuse_mixed(sets: Sequence[_Set], pattern: str) -> None:
    known: dict[tuple[str, str], _Set] = {}
    for one in sets:
        # One prefix in one folder may have one number of shards only.
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
        paths: Paths of the files; open files count by their names, and those without one are left
            out.
        sizes: Whether to call ``require_sizes`` at once; readers that may be told to tolerate
            damage compare each file when they open it.

    Raises:
        FileReplacedError: One of the sets is being replaced.
        FormatError: See ``require_sizes``.
        NotFoundError: See ``require_sizes``.
    """

    def __init__(self, paths: Iterable[object], *, sizes: bool = True) -> None:
        self._paths: defaultdict[_Set, list[str]] = defaultdict(list)
        for path in filter(None, map(path_of, paths)):
            if (parsed := _parse(path)) is not None:
                self._paths[parsed[0]].append(path)
        # One file of a set cannot be mixed with files of another version of the set.
        self._marks = {one: _mark(one) for one, files in self._paths.items() if len(files) > 1}
        for one in self._marks:
            _refuse_replaced(one)
        if sizes:
            self.require_sizes()

    def require_sizes(self) -> None:
        """Compare the size of every file with the manifest of its set or version, if there is one.

        Raises:
            TruncatedError: A file is shorter than its manifest says.
            FormatError: A file is longer, or a manifest is damaged.
            NotFoundError: A file that a manifest names is missing.
            FileReplacedError: A set was replaced since the files were looked up.
        """
        for one, paths in self._paths.items():
            # Without this, a set that is replaced right now would pass for a damaged one.
            with self.explains():
                manifest, sizes = _stated(one)
                for path in paths:
                    num_bytes = sizes.get(os.path.basename(path))  # noqa: PTH119 - many paths
                    if num_bytes is not None:
                        ShardSize(num_bytes, manifest).require(path)

    def size_of(self, file: object) -> ShardSize | None:
        """Return the size that the manifest beside a path or an open file states, if one does.

        Raises:
            FormatError: The manifest is damaged.
        """
        path = path_of(file)
        if path is None or (parsed := _parse(path)) is None:
            return None
        manifest, sizes = _stated(parsed[0])
        num_bytes = sizes.get(os.path.basename(path))  # noqa: PTH119
        return None if num_bytes is None else ShardSize(num_bytes, manifest)

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
        with self.explains():
            first = next(items, None)
        self.require_unchanged()
        if first is not None:
            yield first
            yield from items


def _mark(one: _Set) -> _Mark:
    return mark_of(os.path.join(one.folder, manifest_name(one.prefix)))  # noqa: PTH118


def mark_of(path: str | os.PathLike[str]) -> FileMark | None:
    """Return what tells a file from every other that had or gets its name; None without a file.

    Raises:
        StorageError: The file system refused.
    """
    with os_errors(path):
        try:
            found = Path(path).stat()
        except FileNotFoundError:
            return None
    # A new manifest is a new file, so its inode differs, unless the number was reused; then the
    # time does.
    return found.st_ino, found.st_mtime_ns, found.st_size


def _stated(one: _Set) -> tuple[str, dict[str, int]]:
    """Return the path of the manifest beside a set, and the sizes that it states by file name."""
    for name in (manifest_name(one.prefix), _VERSION):
        path = os.path.join(one.folder, name)  # noqa: PTH118 - called per file
        if (mark := mark_of(path)) is not None:
            return path, _sizes_in(path, mark)
    return "", {}


@lru_cache(maxsize=_KEPT_SETS)
def _sizes_in(path: str, _mark: FileMark) -> dict[str, int]:
    """Return the sizes by file name that a manifest of a set or of a version states."""
    is_version = path.endswith(_VERSION)
    # Other programs write a MANIFEST.json too, and versions of models have no splits.
    if is_version and mark_of(f"{path.removesuffix(_VERSION)}{_VERSION_DIGEST}") is None:
        return {}
    data = read_plain(path, follow=True, max_bytes=canonical_json.MAX_BYTES)
    value = canonical_json.loads(data, path=path)
    if not is_version:
        canonical_json.require_intact(data, path=path)
    try:
        sets = value.get("splits", {}).values() if is_version else [value]
        return {shard["name"]: int(shard["bytes"]) for one in sets for shard in one["shards"]}
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise FormatError("expected a manifest with the sizes of shards", path=path) from error


def _refuse_replaced(one: _Set) -> None:
    folder = Path(one.folder)
    if (folder / commit_name(one.prefix)).exists():
        raise FileReplacedError(
            f"the set {one.prefix!r} in {folder} is being replaced by a conversion, or one was"
            " interrupted there; its files may be of two sets; open them again in a moment; if no"
            " conversion is running, convert again, or call trainfeed.conversion.finish_publication"
            f"({str(folder)!r}, {one.prefix!r})"
        )


# --- Expands paths, comma lists and globs to files


def expand_paths(paths: FilePath | Sequence[FilePath], *, counts: bool = False) -> list[str]:
    """Return the files that paths, comma lists and globs stand for.

    Shards ``<prefix>-aaaaa-of-bbbbb`` that a glob matches must be complete and belong to one set:
    their names give the number of shards. Shards that the glob excludes may be missing.

    Args:
        paths: A path, a text of several paths separated by commas, or a list of these. Each part
            of a text is a glob whose matches are sorted by name, unless a file has exactly this
            name; a part ``pfs://…`` is one on shared storage. Path objects are used unchanged.
        counts: Whether ``bbbbb`` may be the number of shards, as in names of TensorFlow.
            Otherwise, and beside a manifest of this package, ``bbbbb`` is the largest index.

    Raises:
        NotFoundError: A part matches no file, the list is empty, or a shard is missing.
        ConflictError: A glob matches shards of several sets of one prefix.
        StorageError: A folder that may hold matches cannot be listed.
        ConfigError: A part ``pfs://…`` is none; see ``trainfeed.core.datacenters``.
    """
    parts = [paths] if isinstance(paths, str | os.PathLike) else paths
    found = [path for part in parts for path in _expand(part, counts=counts)]
    if not found:
        raise NotFoundError("expected at least one file, got an empty list; correct its pattern")
    return found


def _expand(part: FilePath, *, counts: bool) -> list[str]:
    if not isinstance(part, str):
        return [os.fspath(local_source(part))]
    # Only texts are split: a path object may contain a comma.
    return [path for pattern in part.split(",") for path in _matches(pattern, counts=counts)]


def _matches(pattern: str, *, counts: bool) -> list[str]:
    # A file may have a name with characters of a glob: an existing file wins over the pattern.
    if is_there(place := local_source(pattern)):
        return [place]
    matches = matching(pattern)
    if not matches:
        raise NotFoundError(f"no file matches {pattern!r}")
    require_whole_sets(matches, pattern, counts=counts)
    return matches
