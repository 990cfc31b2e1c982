"""Expands paths, comma lists and globs to files."""

from __future__ import annotations

import os
from collections.abc import Sequence

from trainfeed.datacenters import local_source
from trainfeed.errors import NotFoundError
from trainfeed.paths._file_names import FilePath
from trainfeed.paths._listing import is_there, matching
from trainfeed.paths._shard_sets import require_whole_sets

__all__ = ["expand_paths"]


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
        ConfigError: A part ``pfs://…`` is none; see ``trainfeed.datacenters``.
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
