"""Faces of rooms that import a module when the first name of it is asked for.

For rooms that a process imports which has to start soon, or to stay small, and needs little of it.
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
        homes: Module by name; those that begin with a dot lie in the room.
    """

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {face!r} has no attribute {name!r}")
        return getattr(import_module(homes[name], face), name)

    return find
