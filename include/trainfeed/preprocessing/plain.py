"""Fast access to fields of usual records, for functions in record mode.

Nearly all records of a topic are alike. For these, a reader returns the checked fields that a
function needs, in a fraction of the time of ``Record.json`` and checks in Python. For other records
it returns None, and the function uses ``Record.json``::

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

# In a value of at most so many bytes, no number has more digits than Python accepts.
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
        fields: Name → ``whole``, ``number`` or ``text``; names must be valid as attributes.

    Returns:
        A function from a record to an object with the fields as attributes, which have the values
        of ``json.loads``; the object is true. The function returns None for a record that is no
        JSON object, lacks a field or has one of another type, and perhaps for other unusual
        records: use ``Record.json`` for those.
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
