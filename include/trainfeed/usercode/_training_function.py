"""Functions of a data set that train, judge or predict: imported from its whole folder."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from trainfeed.errors import JobRejectedError
from trainfeed.specification import did_you_mean

__all__ = ["load_training_function"]


def load_training_function(folder: Path, dataset: str, entry: str) -> Callable[..., Any]:
    """Import ``module:name`` of a data set, as the only data set of this process.

    The module may import every other module of the folder with ``from . import name``.

    Args:
        folder: Folder of the data set.
        dataset: Name of the data set.
        entry: ``module:name``.

    Raises:
        JobRejectedError: The module has no such function; the message names the nearest one.
        BaseException: The error of the import.
    """
    module_name, _, name = entry.partition(":")
    # A package of its own, so that the entry may say 'from . import features'.
    package = ModuleType(f"trainfeed_training_{dataset}")
    package.__path__ = [str(folder)]
    sys.modules[package.__name__] = package
    module = importlib.import_module(f"{package.__name__}.{module_name}")
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
