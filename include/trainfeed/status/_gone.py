"""The generation that an interval had last, if marks hide all its generations from readers."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

from trainfeed.dataset.layout import is_generation, parse_generation

__all__ = ["Gone", "newest_gone"]

_SUFFIXES: Final[tuple[Literal["withdrawn", "removed"], ...]] = ("withdrawn", "removed")


class Gone(NamedTuple):
    """The newest generation of an interval, hidden from readers.

    Attributes:
        state: Why: ``withdrawn`` by a person; ``removed``, its files are deleted. A generation with
            both marks was withdrawn.
        mark: Name of the mark, like ``g0002.withdrawn``.
        since: When the mark was written, seconds since 1970; 0 if it cannot be looked at.
    """

    state: Literal["withdrawn", "removed"]
    mark: str
    since: int


def newest_gone(place: str, names: Sequence[str]) -> Gone | None:
    """Return the newest generation with a mark, or None.

    Args:
        place: The folder of the interval's versions.
        names: Names in it.
    """
    marks = [
        (parse_generation(generation), -_SUFFIXES.index(suffix), suffix, f"{generation}.{suffix}")
        for generation, suffix in _marked(names)
    ]
    if not marks:
        return None
    *_, state, mark = max(marks)
    return Gone(state, mark, _written(f"{place}/{mark}"))


def _marked(names: Sequence[str]) -> list[tuple[str, Literal["withdrawn", "removed"]]]:
    """Return generation and suffix of every mark."""
    return [
        (name.removesuffix(f".{suffix}"), suffix)
        for name in names
        for suffix in _SUFFIXES
        if name.endswith(f".{suffix}") and is_generation(name.removesuffix(f".{suffix}"))
    ]


def _written(mark: str) -> int:
    try:
        return int(os.lstat(mark).st_mtime)
    except OSError:
        return 0
