"""Whole numbers among arguments, of any integer type: one check and one message for all."""

from __future__ import annotations

import operator
from typing import SupportsIndex

from trainfeed.errors import ConfigError


def whole(name: str, value: object, least: int | None = None, most: int | None = None) -> int:
    """Return a whole number of any integer type as an ``int``.

    Args:
        name: Name of the argument, for the message.
        value: The number; True and False are refused.
        least: The smallest allowed number; None for no bound.
        most: The largest allowed number; None for no bound. It needs ``least``.

    Raises:
        ConfigError: ``value`` is no whole number, below ``least``, or above ``most``.
    """
    number = _as_int(value)
    if number is None or (least is not None and not _is_within(number, least, most)):
        raise ConfigError(f"expected {name} as a whole number{_bounds(least, most)}, got {value!r}")
    return number


def whole_value(name: str, value: object, least: int | None = None, most: int | None = None) -> int:
    """Return a whole number as ``whole`` does, for classes that replace those of another library.

    Raises:
        ValueError: ``value`` is no whole number, or out of bounds; the original raises the same.
    """
    try:
        return whole(name, value, least, most)
    except ConfigError as error:
        raise ValueError(str(error)) from None


def rank_of(rank: object, world_size: object) -> tuple[int, int]:
    """Return a rank and the number of ranks, each as an ``int``.

    Args:
        rank: A number from 0 to ``world_size - 1``.
        world_size: A number from 1 on.

    Raises:
        ConfigError: One of them is out of range or no whole number.
    """
    size = whole("world_size", world_size, 1)
    number = _as_int(rank)
    if number is None or not 0 <= number < size:
        raise ConfigError(
            f"expected a rank from 0 to {size - 1}, because world_size is {size}, got {rank!r}"
        )
    return number, size


def _as_int(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, SupportsIndex):
        return None
    try:
        return operator.index(value)
    except TypeError:  # an array with more than one number
        return None


def _is_within(number: int, least: int, most: int | None) -> bool:
    return number >= least and (most is None or number <= most)


def _bounds(least: int | None, most: int | None) -> str:
    if least is None:
        return ""
    return f" from {least} on" if most is None else f" from {least} to {most}"
