"""One path, several, a list between commas, or a glob: which files are meant."""

from __future__ import annotations

import os
from collections.abc import Sequence

from trainfeed.errors import NotFoundError
from trainfeed.paths._file_names import FilePath
from trainfeed.paths._listing import is_there, matching
from trainfeed.paths._shard_sets import require_whole_sets

__all__ = ["expand_paths"]


def expand_paths(paths: FilePath | Sequence[FilePath], *, counts: bool = False) -> list[str]:
    """Return the files that paths, comma lists and globs stand for.

    Of shards that a glob matches, ``<prefix>-aaaaa-of-bbbbb``, none that it asks for may be
    missing, and all are of one set: the names say how many there are.

    Args:
        paths: Files, or several separated by commas, or a list of such. Each part of a text may be
            a glob, whose matches are sorted by name, unless a file has that very name; path
            objects are taken as they are.
        counts: Whether ``bbbbb`` may be how many shards there are, as in names of TensorFlow; else,
            and beside a manifest of ours, it is the largest index.

    Raises:
        NotFoundError: A part matches no file; names the part. Or the list is empty, or a shard is
            missing.
        ConflictError: A glob matches shards of several sets of one prefix.
        StorageError: A folder that may hold matches cannot be listed.
    """
    parts = [paths] if isinstance(paths, str | os.PathLike) else paths
    found = [path for part in parts for path in _expand(part, counts=counts)]
    if not found:
        raise NotFoundError("expected at least one file, got an empty list; correct its pattern")
    return found


def _expand(part: FilePath, *, counts: bool) -> list[str]:
    if not isinstance(part, str):
        return [os.fspath(part)]
    return [path for pattern in part.split(",") for path in _matches(pattern, counts=counts)]


def _matches(pattern: str, *, counts: bool) -> list[str]:
    if is_there(pattern):
        return [pattern]
    matches = matching(pattern)
    if not matches:
        raise NotFoundError(f"no file matches {pattern!r}")
    require_whole_sets(matches, pattern, counts=counts)
    return matches
