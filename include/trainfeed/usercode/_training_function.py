"""Functions of a data set that train, judge or predict: they may import all its Python files."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from trainfeed.errors import JobRejectedError
from trainfeed.specification import did_you_mean
from trainfeed.usercode._folder_code import load_package

__all__ = ["load_training_function"]


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
