"""Faces of rooms that import a module at the first access to one of its names.

They are for rooms from which fast or small processes need only a part. Such a face names its
modules where a type checker reads them, under ``TYPE_CHECKING``, and nowhere else.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from importlib.abc import InspectLoader
from typing import Any, cast


def on_demand(face: str) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a face.

    Args:
        face: ``__name__`` of the face, whose source is read at the first access.
    """

    @cache
    def homes() -> dict[str, tuple[str, str]]:
        # The loader of the module reads it where it lies, also in the archive of Spark's executors.
        spec = sys.modules[face].__spec__
        loader = cast("InspectLoader", spec and spec.loader)
        return dict(_homes(ast.parse(loader.get_source(face) or "")))

    def find(name: str) -> Any:
        # Python asks each package for names of its own; they are nobody's home.
        home = None if name.startswith("__") else homes().get(name)
        if home is None:
            raise AttributeError(f"module {face!r} has no attribute {name!r}")
        return getattr(import_module(home[0]), home[1])

    return find


def _homes(tree: ast.Module) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield name → module and its name there, for the imports under ``TYPE_CHECKING``."""
    for block in tree.body:
        if isinstance(block, ast.If):
            for node in block.body:
                if isinstance(node, ast.ImportFrom) and node.module:
                    for alias in node.names:
                        yield alias.asname or alias.name, (node.module, alias.name)
