"""The fields whose components have statistics: those of a fixed, small shape."""

from __future__ import annotations

import math
from typing import Final

from trainfeed.samples._schema import Field, Schema

__all__ = ["components_of_schema", "fields_with_components", "num_components"]

# Each component takes memory, time and space in the file of statistics as a field of its own does.
_MAX_OF_FIELD: Final = 64
_MAX_OF_SCHEMA: Final = 1024


def num_components(field: Field) -> int:
    """Return the number of components that have statistics; 0 for scalars and other fields."""
    if not field.shape or not field.is_fixed:
        return 0
    size = math.prod(field.item_shape)
    return size if size <= _MAX_OF_FIELD else 0


def fields_with_components(schema: Schema) -> frozenset[str]:
    """Return the fields whose components have statistics: in order, as far as the limit allows."""
    names, total = set(), 0
    for field in schema:
        if (num := num_components(field)) and total + num <= _MAX_OF_SCHEMA:
            names.add(field.name)
            total += num
    return frozenset(names)


def components_of_schema(schema: Schema) -> int:
    """Return the number of components of all fields that have statistics."""
    return sum(num_components(schema[name]) for name in fields_with_components(schema))
