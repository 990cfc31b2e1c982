"""The code of a training: the digest in its job's name, which ranks compare before they run it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from trainfeed.errors import ConfigError
from trainfeed.paths import walk
from trainfeed.specification import read_module
from trainfeed.storage.posix import map_errors
from trainfeed.usercode._user_source import parse_source, refuse_moved_names

__all__ = ["require_current_names", "training_texts"]


def training_texts(folder: Path) -> dict[str, bytes]:
    """Read all Python files of a data set's folder: a training may import any.

    Returns:
        Relative name → content, in the order of the names; ``digest_of_texts`` of it is the code of
        a job. Hidden files and folders are left out, because they cannot be imported.

    Raises:
        StorageError: A file cannot be read.
    """
    with map_errors(folder):
        return {name: read_module(folder / name) for name in sorted(_names(folder))}


def require_current_names(folder: Path) -> None:
    """Check the imports of every Python file that a training may import, before it starts.

    Raises:
        ConfigError: A file imports a name of trainfeed that has moved; the message has the new one.
        StorageError: A file cannot be read.
    """
    with map_errors(folder):
        for name in sorted(_names(folder)):
            refuse_moved_names(folder / name, _parsed(folder / name))


def _parsed(path: Path) -> ast.Module:
    try:
        return parse_source(path, read_module(path))
    except ConfigError:
        # A file that is no Python becomes an error when the training imports it.
        return ast.Module(body=[], type_ignores=[])


def _names(folder: Path) -> Iterator[str]:
    for path in walk(folder, hidden=False):
        if path.suffix == ".py" and path.is_file():
            yield path.relative_to(folder).as_posix()
