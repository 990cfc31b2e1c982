"""Whole numbers among arguments, whatever type they come in: one check and one message for all."""

from __future__ import annotations

import operator
from typing import SupportsIndex

from trainfeed.errors import ConfigError

__all__ = ["whole", "whole_value"]


def whole(name: str, value: object, least: int, most: int | None = None) -> int:
    """Return a whole number, of whatever type it is, as an ``int``.

    Raises:
        ConfigError: It is none, or below ``least``, or above ``most``.
    """
    number = least - 1
    if isinstance(value, SupportsIndex) and not isinstance(value, bool):
        number = operator.index(value)
    if number < least or (most is not None and number > most):
        upto = "on" if most is None else f"to {most}"
        raise ConfigError(f"expected {name} as a whole number from {least} {upto}, got {value!r}")
    return number


def whole_value(name: str, value: object, least: int) -> int:
    """Return a whole number as ``whole`` does, for what stands in for another library's class.

    Raises:
        ValueError: It is none, or below ``least``: what users of the original catch.
    """
    try:
        return whole(name, value, least)
    except ConfigError as error:
        raise ValueError(str(error)) from None
