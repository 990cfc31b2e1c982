"""The code of a training: its digest, and functions that train, judge or predict."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from trainfeed.errors import JobRejectedError
from trainfeed.files import walk
from trainfeed.files.stores.posix import map_errors
from trainfeed.functions.folder_code import load_package
from trainfeed.specification import did_you_mean, read_module

# --- The code of a training: the digest in its job's name, which ranks compare before they run it


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


def _names(folder: Path) -> Iterator[str]:
    for path in walk(folder, hidden=False):
        if path.suffix == ".py" and path.is_file():
            yield path.relative_to(folder).as_posix()


# --- Functions of a data set that train, judge or predict: they may import all its Python files


def load_training_function(
    folder: Path, dataset: str, entry: str, texts: Mapping[str, bytes]
) -> Callable[..., Any]:
    """Import ``module:name`` of a data set.

    The module may import every other module of the folder with ``from . import name``.

    Args:
        folder: Folder of the data set.
        dataset: Name of the data set.
        entry: ``module:name``.
        texts: The code, as ``training_texts`` has read it.

    Raises:
        JobRejectedError: The module has no such function; the message names the nearest one.
        BaseException: The error of the import.
    """
    module_name, _, name = entry.partition(":")
    # A package of its own, so that the entry may say 'from . import features'. Its name stays the
    # same: saved objects of frameworks refer to their classes by it.
    package = f"trainfeed_training_{dataset}"
    load_package(package, folder, texts)
    module = importlib.import_module(f"{package}.{module_name}")
    function = getattr(module, name, None)
    if not callable(function):
        raise JobRejectedError(
            f"expected a function {name!r} in {module.__file__}, found none;"
            f" {did_you_mean(name, _functions(module))}; nothing was run; change {entry!r} in"
            " dataset.yaml"
        )
    return function  # type: ignore[no-any-return]


def _functions(module: ModuleType) -> list[str]:
    return [
        name
        for name, value in vars(module).items()
        if callable(value) and not name.startswith("_") and not isinstance(value, type)
    ]
