"""Checks of the values that setters get; each returns the value in the type of the settings."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable
from inspect import signature
from itertools import pairwise
from pathlib import Path
from typing import Any

from trainfeed.datacenters import local_source, local_target
from trainfeed.whole_numbers import whole_value

__all__ = ["flag", "folder", "real", "refused", "shape", "steps", "takes_three", "target_names"]


def refused(expected: str, value: object) -> ValueError:
    """Return the error of a value that a setting does not take."""
    return ValueError(f"expected {expected}, got {value!r:.100}; the setting stays as it was")


def flag(name: str, value: object) -> bool:
    """Return a truth value.

    Raises:
        ValueError: ``value`` is neither True nor False.
    """
    if not isinstance(value, bool):
        raise refused(f"{name} to be True or False", value)
    return value


def real(name: str, value: object, *, least: float = 0.0, above: float | None = None) -> float:
    """Return a finite number.

    Args:
        name: Name of the argument, for the message.
        value: The number.
        least: The smallest allowed number.
        above: Number that the value must exceed; replaces ``least``.

    Raises:
        ValueError: ``value`` is no finite number, or too small.
    """
    bound = f"from {least:g} on" if above is None else f"above {above:g}"
    number = _as_float(value)
    is_large_enough = number >= least if above is None else number > above
    if not (math.isfinite(number) and is_large_enough):
        raise refused(f"{name} to be a finite number {bound}", value)
    return number


def folder(name: str, value: object, *, writes: bool = False) -> Path:
    """Return a folder as an absolute path; the folder need not exist yet.

    Args:
        name: Name of the setting, for the message.
        value: A path, also ``pfs://…``.
        writes: Whether files will be written there.

    Raises:
        ValueError: ``value`` is no path, or empty.
    """
    if not isinstance(value, str | os.PathLike):
        raise refused(f"{name} to be the path of a folder", value)
    path = os.fspath(local_target(value) if writes else local_source(value))
    if not isinstance(path, str) or not path or "\0" in path:
        raise refused(f"{name} to be the path of a folder", value)
    return Path(path).absolute()


def steps(name: str, value: object) -> tuple[int, ...]:
    """Return numbers of steps in ascending order.

    Raises:
        ValueError: ``value`` is no list, or its numbers are not ascending from 1 on.
    """
    if not isinstance(value, list | tuple):
        raise refused(f"{name} to be a list of steps", value)
    numbers = tuple(whole_value(f"each step of {name}", number, 1) for number in value)
    if any(later <= earlier for earlier, later in pairwise(numbers)):
        raise ValueError(f"expected {name} in ascending order, got {list(numbers)}")
    return numbers


def target_names(value: object) -> tuple[str, ...]:
    """Return the names of test sets, from a list or a text with commas.

    Raises:
        ValueError: There is no name, or a name is not that of a folder.
    """
    names = value.split(",") if isinstance(value, str) else value
    if not isinstance(names, Iterable):
        raise refused("targets as a list of names", value)
    found = tuple(name.strip() if isinstance(name, str) else name for name in names)
    bad = [name for name in found if not _is_folder_name(name)]
    if bad or not found or len(set(found)) < len(found):
        raise refused("targets to be different names of folders below the dataset_dir", value)
    return found


def shape(name: str, value: object) -> tuple[int, ...]:
    """Return the shape of an image, such as ``(3, 112, 112)``.

    Raises:
        ValueError: ``value`` is no sequence of whole numbers from 1 on.
    """
    if not isinstance(value, list | tuple) or not value:
        raise refused(f"{name} as a shape such as (3, 112, 112): channels, height, width", value)
    return tuple(whole_value(f"each number of {name}", number, 1) for number in value)


def takes_three(method: Callable[..., Any]) -> bool:
    """Return whether a method can be called with three arguments by position."""
    try:
        signature(method).bind(None, None, None)
    except TypeError:
        return False
    return True


def _as_float(value: object) -> float:
    if isinstance(value, bool) or not hasattr(type(value), "__float__"):
        return math.nan
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return math.nan


def _is_folder_name(name: Any) -> bool:
    return (
        isinstance(name, str)
        and name not in {"", ".", ".."}
        and not any(character in name for character in "/\\\0")
    )
