"""Faces of rooms that import a module at the first access to one of its names.

They are for rooms from which fast or small processes need only a part.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

__all__ = ["on_demand"]


def on_demand(face: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a face.

    Args:
        face: Name of the room's package.
        homes: Name → module; a module that begins with a dot is in the room. ``module:other``, when
            the name is another one there.
    """

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {face!r} has no attribute {name!r}")
        module, _, other = homes[name].partition(":")
        return getattr(import_module(module, face), other or name)

    return find
