"""What functions for single records read usual records with: the same fields of every one.

Nearly all records of a topic are alike. For those a reader gives the fields that a function wants,
checked, at a fraction of what ``Record.json`` and checks in Python cost; all others it leaves to
them::

    read = plain_reader({"price": whole(0, 10_000), "shop": text(), "coupon": text(nullable=True)})

    def orders(record, lookups):
        order = read(record) or checked(record.json())
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from trainfeed.preprocessing._fast_json import field_reader, whole_between
from trainfeed.preprocessing.source_record import Record

__all__ = ["number", "plain_reader", "text", "whole"]

# No number in it has more digits than Python takes.
_MAX_BYTES: Final = 4300


def whole(low: int, high: int, *, nullable: bool = False) -> Any:
    """Return the type of whole numbers from ``low`` to ``high``, both within 64 bits, signed."""
    return _nullable(whole_between(low, high), nullable=nullable)


def number(*, nullable: bool = False) -> Any:
    """Return the type of numbers; they are read as floats."""
    return _nullable(float, nullable=nullable)


def text(*, nullable: bool = False) -> Any:
    """Return the type of text."""
    return _nullable(str, nullable=nullable)


def plain_reader(fields: Mapping[str, Any]) -> Callable[[Record], Any]:
    """Return a function that reads fields of records.

    Args:
        fields: Name to ``whole``, ``number`` or ``text``; names of attributes.

    Returns:
        A function from a record to an object that has the fields as attributes, with the values
        that ``json.loads`` says, and is true. It returns None for a record that is no JSON object,
        lacks a field or has one that is something else, and may do so for others that are unusual:
        look at those with ``Record.json``.
    """
    read_fields = field_reader(fields)

    def read(record: Record) -> Any:
        value = record.value
        if value is None or len(value) > _MAX_BYTES:
            return None
        try:
            if not value.isascii():
                value.decode()
            return read_fields(value)
        except (ValueError, RecursionError):
            return None

    return read


def _nullable(kind: Any, *, nullable: bool) -> Any:
    return kind | None if nullable else kind
