"""Paths among the arguments of commands, also ``pfs://…``, as paths of this machine.

A ``Path`` that is made of the text of an argument would lose a slash of ``pfs://``.
"""

from __future__ import annotations

from pathlib import Path

from trainfeed.datacenters import local_source, local_target

__all__ = ["source_path", "target_path"]


def source_path(text: str) -> Path:
    """Return the path of a file or folder that a command reads."""
    return Path(local_source(text))


def target_path(text: str) -> Path:
    """Return the path of a file or folder that a command writes; refused in the public area."""
    return Path(local_target(text))
