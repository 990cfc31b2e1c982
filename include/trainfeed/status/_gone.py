"""Why readers get no generation of an interval: its retirement, or marks, and who made them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

from trainfeed.accounts import person
from trainfeed.dataset.layout import DatasetFolder, is_generation, parse_generation
from trainfeed.dataset.retire import retirement_of
from trainfeed.dataset.withdraw import withdrawal_of
from trainfeed.errors import AccessDeniedError
from trainfeed.intervals import parse_time

__all__ = ["Gone", "gone_of", "withdrawn_since"]

_SUFFIXES: Final[tuple[Literal["withdrawn", "removed"], ...]] = ("withdrawn", "removed")


class Gone(NamedTuple):
    """The retirement of an interval, or its newest generation, hidden from readers.

    Attributes:
        state: Why: ``retired`` as a whole; ``withdrawn`` by a person; ``removed``, its files are
            deleted. A generation with both marks was withdrawn.
        mark: Who retired it and why; or the name of the mark, like ``g0002.withdrawn``, with who
            and why if it can be read.
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
        return _newest_gone(folder, interval, names)
    # A damaged file does not tell the time; the marks are as old.
    path = str(folder.retirement(interval))
    since = _written(path) if retired.damage else int(parse_time(retired.at).timestamp())
    return Gone("retired", retired.told, since)


def _newest_gone(folder: DatasetFolder, interval: str, names: Sequence[str]) -> Gone | None:
    """Return the newest generation with a mark, or None.

    Args:
        folder: The data set.
        interval: Name of the interval.
        names: Names in the folder of its versions.
    """
    marks = [
        (parse_generation(generation), -_SUFFIXES.index(suffix), suffix, f"{generation}.{suffix}")
        for generation, suffix in _marked(names)
    ]
    if not marks:
        return None
    number, _, state, mark = max(marks)
    told = _told(folder, interval, number) if state == "withdrawn" else mark
    return Gone(state, told, _written(f"{folder.interval(interval)}/{mark}"))


def withdrawn_since(
    folder: DatasetFolder, interval: str, names: Sequence[str], generation: int
) -> str:
    """Return who withdrew the newest generation, if it is newer than the one for readers, or ""."""
    numbers = [parse_generation(each) for each, suffix in _marked(names) if suffix == "withdrawn"]
    newest = max(numbers, default=0)
    return _told(folder, interval, newest) if newest > generation else ""


def _told(folder: DatasetFolder, interval: str, generation: int) -> str:
    """Return the name of a mark, with who and why if it can be read."""
    name = folder.withdrawal_mark(interval, generation).name
    try:
        mark = withdrawal_of(folder, interval, generation)
    except AccessDeniedError:
        return name
    if mark is None or mark.damage is not None:
        return name
    return f"{name}: {person(mark.who, mark.account)} at {mark.at}: {mark.why}"


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
