"""Why readers get no generation of an interval that had one: its retirement, or the marks."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

from trainfeed.dataset.layout import DatasetFolder, is_generation, parse_generation
from trainfeed.dataset.retirements import retirement_of
from trainfeed.intervals import parse_time

__all__ = ["Gone", "gone_of"]

_SUFFIXES: Final[tuple[Literal["withdrawn", "removed"], ...]] = ("withdrawn", "removed")


class Gone(NamedTuple):
    """The retirement of an interval, or its newest generation, hidden from readers.

    Attributes:
        state: Why: ``retired`` as a whole; ``withdrawn`` by a person; ``removed``, its files are
            deleted. A generation with both marks was withdrawn.
        mark: Who retired it and why; or the name of the mark, like ``g0002.withdrawn``.
        since: When the mark was written, seconds since 1970; 0 if it cannot be looked at.
    """

    state: Literal["retired", "withdrawn", "removed"]
    mark: str
    since: int


def gone_of(folder: DatasetFolder, interval: str, names: Sequence[str]) -> Gone | None:
    """Return why readers get no generation of an interval, None if it never had one.

    Args:
        folder: The data set.
        interval: An interval without a generation for readers.
        names: Names in the folder of its versions.

    Raises:
        StorageError: The publication root refused or failed.
    """
    retired = retirement_of(folder, interval) if names else None
    if retired is None:
        return _newest_gone(str(folder.interval(interval)), names)
    # A damaged file does not tell the time; the marks are as old.
    path = str(folder.retirement(interval))
    since = _written(path) if retired.damage else int(parse_time(retired.at).timestamp())
    return Gone("retired", retired.told, since)


def _newest_gone(place: str, names: Sequence[str]) -> Gone | None:
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
