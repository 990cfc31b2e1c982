"""One path, several, a list between commas, or a glob: which files are meant."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence

from trainfeed.errors import NotFoundError
from trainfeed.paths._names import FilePath

__all__ = ["expand_paths"]


def expand_paths(paths: FilePath | Sequence[FilePath]) -> list[str]:
    """Return the files that paths, comma lists and globs stand for.

    Args:
        paths: Files, or several separated by commas, or a list of such. Each part of a text may be
            a glob, whose matches are sorted by name, unless a file has that very name; path
            objects are taken as they are.

    Raises:
        NotFoundError: A part matches no file; names the part. Or the list is empty.
    """
    parts = [paths] if isinstance(paths, str | os.PathLike) else paths
    found = [path for part in parts for path in _expand(part)]
    if not found:
        raise NotFoundError("expected at least one file, got an empty list; look at its pattern")
    return found


def _expand(part: FilePath) -> list[str]:
    if not isinstance(part, str):
        return [os.fspath(part)]
    return [path for pattern in part.split(",") for path in _matches(pattern)]


def _matches(pattern: str) -> list[str]:
    if os.path.lexists(pattern):
        return [pattern]
    matches = sorted(glob.glob(pattern))  # noqa: PTH207 (pathlib refuses absolute patterns)
    if not matches:
        raise NotFoundError(f"no file matches {pattern!r}")
    return matches
