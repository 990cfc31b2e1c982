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
            a glob, whose matches are sorted by name; path objects are taken as they are.

    Raises:
        NotFoundError: A part matches no file; names the part.
    """
    parts = [paths] if isinstance(paths, str | os.PathLike) else paths
    return [path for part in parts for path in _expand(part)]


def _expand(part: FilePath) -> list[str]:
    if not isinstance(part, str):
        return [os.fspath(part)]
    return [path for pattern in part.split(",") for path in _matches(pattern)]


def _matches(pattern: str) -> list[str]:
    matches = sorted(glob.glob(pattern))  # noqa: PTH207 (pathlib refuses absolute patterns)
    if not matches:
        raise NotFoundError(f"no file matches {pattern!r}")
    return matches
